"""Under autocast, the drop-ins return what PyG's layers return, in the same dtype."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

pytest.importorskip("torch_geometric")
from tests.errors import case as named
from tests.interop.parity import IN, Case, twins
from tests.interop.pyg_inputs import ATTENTION, CONFIGURATIONS, NODES, Call, edge_list
from tests.interop.test_pyg_contract import flat

LIMITS = {torch.bfloat16: 0.05, torch.float16: 0.01}


def calls(case: Case, dtype: torch.dtype) -> dict[str, Call]:
    """An ordinary call, one of 16-bit features, and those with weights of edges."""
    x, index = torch.randn(NODES, IN), edge_list(9)
    ordinary: Call = {"x": x, "edge_index": index}
    if case.edges is not None:
        ordinary["edge_attr"] = torch.rand(9, case.edges)
    inputs = {"float32": ordinary, "16-bit": ordinary | {"x": x.to(dtype)}}
    if case.layer in ATTENTION:
        inputs["weights"] = ordinary | {"return_attention_weights": True}
    if case.layer == "GCNConv":
        inputs["edge_weight"] = ordinary | {"edge_weight": torch.rand(9)}
    return inputs


def assert_close(tensors: Sequence[Tensor], pyg_tensors: Sequence[Tensor], limit: float) -> None:
    """The same dtypes, and values within ``limit`` times the largest."""
    largest = max(tensor.detach().abs().max().item() for tensor in pyg_tensors)
    for tensor, pyg_tensor in zip(tensors, pyg_tensors, strict=True):
        torch.testing.assert_close(tensor, pyg_tensor, rtol=0, atol=limit * largest)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("case", CONFIGURATIONS, ids=str)
def test_outputs_and_gradients_are_pygs(case: Case, dtype: torch.dtype) -> None:
    layers = twins(case, "random", torch.float32)
    for name, call in calls(case, dtype).items():
        results = []
        for layer in layers:
            with torch.autocast("cpu", dtype):
                output = layer(**call)
            loss = flat(output)[0].float().square().mean()
            gradients = torch.autograd.grad(loss, [*layer.parameters()], materialize_grads=True)
            results.append((flat(output), gradients))
        with named(name):
            for tensors, pyg_tensors in zip(*results, strict=True):
                assert_close(tensors, pyg_tensors, LIMITS[dtype])


@pytest.mark.parametrize("case", [c for c in CONFIGURATIONS if c.layer in ATTENTION], ids=str)
def test_a_16_bit_layer_returns_16_bit_weights(case: Case) -> None:
    layer, pyg_layer = (twin.bfloat16() for twin in twins(case, "random", torch.float32))
    call = calls(case, torch.bfloat16)["weights"]
    call = {
        name: value.bfloat16() if name in ("x", "edge_attr") else value
        for name, value in call.items()
    }
    assert_close(flat(layer(**call)), flat(pyg_layer(**call)), 0.05)
