"""Processes that divide the weights of a model compute the outputs and gradients of one process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from edgewise import models
from edgewise.app.train.sharding import whole_state
from edgewise.layers import MultiHeadAttention, parallel
from tests.contracts import test_models as others
from tests.contracts import test_text_models as texts
from tests.distributed.processes import Processes
from tests.errors import refused

HEADS = ["bert", "roberta", "gpt", "llama", "bp_transformer", "universal", "transformer", "t5"]
HEADS += ["transformer_encoder", "vit", "swin", "mae", "captioner", "forecaster"]
HEADS += ["graph_transformer", "graph_bert", "graphormer", "molecule_transformer"]
HEADS += ["multi_graph_transformer", "tree_transformer", "san", "light_conv", "dynamic_conv"]
HEADS += ["esa", "token_gt", "relational_transformer", "gps", "exphormer"]
"""Processes divide all layers of MultiHeadAttention; in the last two, nothing else."""
NETWORKS = ["longformer", "bigbird", "reformer", "adaptive_span", "linformer", "performer"]
NETWORKS += ["transformer_xl", "compressive", "magna", "edge_transformer", "link_predictor"]
NETWORKS += ["laplacian_transformer", "typed_transformer", "gated_gcn", "grit"]
"""They have attention modules of their own; processes divide the feed-forward networks alone."""


class Logits(nn.Module):
    """A model of text whose forward pass ends with the logits, as in training."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.model = texts.small(name, **options)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model.logits(texts.states(self.model, ids, mask))


def example(name: str, **options: Any) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    """A small model, and a function that calls it."""
    if name in others.OF_TEXT:
        return Logits(name, **options), lambda model: model(*texts.padded())
    model, inputs = others.small(name), others.example(name)
    return model, lambda model: others.call(name, model, inputs)


def mesh_of(*sizes: int) -> DeviceMesh:
    return init_device_mesh("cpu", sizes, mesh_dim_names=("data_parallel", "tensor_parallel"))


@pytest.mark.parametrize("name", models.MODELS)
def test_the_plan_of_every_model(name: str) -> None:
    model, _ = example(name)
    attention = [x for x in model.modules() if isinstance(x, MultiHeadAttention)]
    plan = parallel.tensor_parallel_plan(model, 2)
    heads = [x for x in plan.values() if isinstance(x, parallel.HeadwiseParallel)]
    if name in HEADS:
        assert len(heads) == len(attention) > 0
    else:
        assert not heads
        assert bool(plan) == (name in NETWORKS)


def test_heads_that_are_no_multiple_stay_together() -> None:
    model, _ = example("llama", key_heads=1)
    names = [type(x).__name__ for x in parallel.tensor_parallel_plan(model, 2).values()]
    assert "HeadwiseParallel" not in names
    assert "RowwiseParallel" in names
    assert not parallel.tensor_parallel_plan(model, 5)
    learned, _ = example("gpt", score="bilinear")
    assert not parallel.divides_heads(learned.model.backbone.stack.layers[0].attention.sublayer, 2)


def difference(name: str, sizes: tuple[int, int], **options: Any) -> float:
    """Largest difference of output and gradients from those of one process, by their maxima."""
    model, call = example(name, **options)
    divided = deepcopy(model)
    parallel.shard(divided, mesh_of(*sizes))
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
    expected, out = call(model), call(divided)
    for output in (expected, out):
        output.square().sum().backward()
    gradients = {label: x.grad for label, x in model.named_parameters() if x.grad is not None}
    orders = parallel.row_orders(divided)
    errors = [(out - expected).detach() / expected.detach().abs().max()]
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for label, x in divided.named_parameters():
        assert (x.grad is None) == (label not in gradients), label
        if x.grad is not None:
            whole = parallel.gathered(x.grad, orders.get(label))
            errors.append((whole - gradients[label]) / largest)
    return max(float(error.abs().max()) for error in errors)


def of_many(names: list[str], sizes: tuple[int, int], options: dict[str, Any]) -> dict[str, float]:
    return {name: difference(name, sizes, **options) for name in names}


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)], ids=["tensor", "fsdp"])
def test_two_processes_equal_one(two: Processes, sizes: tuple[int, int]) -> None:
    for errors in two.results(of_many, ["gpt", "t5"], sizes, {}):
        assert max(errors.values()) < 1e-12, errors


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)], ids=["tensor", "fsdp"])
def test_two_processes_equal_one_in_every_transformer(
    two: Processes, sizes: tuple[int, int]
) -> None:
    for errors in two.results(of_many, [*HEADS, *NETWORKS], sizes, {}):
        assert max(errors.values()) < 1e-10, errors


@pytest.mark.slow
def test_four_processes_equal_one(four: Processes) -> None:
    names = ["gpt", "bert", "t5", "transformer", "vit", "llama", "graphormer"]
    for errors in four.results(of_many, names, (2, 2), {}):
        assert max(errors.values()) < 1e-12, errors


def test_grouped_heads(two: Processes) -> None:
    options = {"heads": 4, "key_heads": 2}
    for error in two.results(difference_of_llama, options):
        assert error < 1e-12


def difference_of_llama(options: dict[str, Any]) -> float:
    return difference("llama", (1, 2), **options)


def gathered_and_divided(sizes: tuple[int, int]) -> list[bool]:
    """Whether the state of a divided model is the whole one, and is divided as it was."""
    model, _ = example("bert")
    whole = deepcopy(model.state_dict())
    parallel.shard(model, mesh_of(*sizes))
    orders, local = parallel.row_orders(model), model.state_dict()
    same = [torch.equal(x, whole[name]) for name, x in whole_state(model).items()]
    for name, x in local.items():
        again = parallel.divided(whole[name], x, orders.get(name))
        placed, expected = (getattr(y, "_local_tensor", y) for y in (again, x))
        same.append(torch.equal(placed, expected))
    shares = sum(getattr(x, "_local_tensor", x).numel() for x in local.values())
    return [*same, shares < sum(x.numel() for x in whole.values())]


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)], ids=["tensor", "fsdp"])
def test_states_are_gathered_and_divided(two: Processes, sizes: tuple[int, int]) -> None:
    for same in two.results(gathered_and_divided, sizes):
        assert all(same), same


@pytest.mark.slow
def test_states_of_both_divisions_are_gathered_and_divided(four: Processes) -> None:
    for same in four.results(gathered_and_divided, (2, 2)):
        assert all(same), same


def clipped(sizes: tuple[int, int]) -> float:
    """Largest difference of clipped gradients from those of one process."""
    model, call = example("gpt")
    divided = deepcopy(model)
    parallel.shard(divided, mesh_of(*sizes))
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
    for x in (model, divided):
        call(x).square().sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    parallel.clip_gradients(divided, 0.1)
    orders, expected = parallel.row_orders(divided), dict(model.named_parameters())
    return max(
        float((parallel.gathered(x.grad, orders.get(name)) - expected[name].grad).abs().max())
        for name, x in divided.named_parameters()
        if x.grad is not None
    )


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)], ids=["tensor", "fsdp"])
def test_gradients_are_clipped_by_the_norm_of_all(two: Processes, sizes: tuple[int, int]) -> None:
    assert max(two.results(clipped, sizes)) < 1e-13


def of_a_model_without_heads() -> None:
    with refused("trainer.tensor_parallel", expected="heads", got="LSTM", remedy="to 1"):
        parallel.shard(texts.small("lstm"), mesh_of(1, dist.get_world_size()))


def test_a_model_that_is_not_divided_says_so(two: Processes) -> None:
    two.results(of_a_model_without_heads)
