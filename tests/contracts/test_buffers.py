"""Parameters and buffers keep names and shapes, as DDP, weight averaging and copies require."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from edgewise import encodings, graphs, models
from tests.contracts import test_models, test_modes, test_text_models
from tests.encodings.test_drawing import ARGUMENTS


def shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: x.shape for name, x in [*module.named_parameters(), *module.named_buffers()]}


def inputs_of_two_sizes(name: str) -> list[tuple[Any, ...]]:
    """Texts of 3 and 5 tokens, graphs of 5 and 7 nodes; other models have one input size."""
    example = test_modes.example(name)
    if name in test_text_models.EVERY:
        return [tuple(x if x is None else x[:, :3] for x in example), example]
    if name in test_models.ON_EVERY_GRAPH or name in models.TOKEN_MODELS:
        return [test_models.example(name, nodes=5), example]
    return [example, example]


def check_module(module: nn.Module, calls: list[Callable[[nn.Module], Tensor]]) -> None:
    """Average the module after each call, longest last, and compare its copies."""
    # PyTorch cannot average a module without tensors.
    module.register_buffer("constant", torch.ones(1))
    initial = shapes(module)
    average = AveragedModel(module, use_buffers=True)
    for call in calls:
        call(module.train()).sum().backward()
        average.update_parameters(module)
        assert shapes(module) == initial
    expected = call(module.eval())
    assert call(average.module.eval()).shape == expected.shape
    copies = copy.deepcopy(module), pickle.loads(pickle.dumps(module))
    for duplicate in copies:
        duplicate.load_state_dict(module.state_dict())
        torch.testing.assert_close(call(duplicate.eval()), expected, rtol=0, atol=0)


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("name", test_modes.EVERY)
def test_a_model_keeps_the_shapes_of_its_parameters_and_buffers(name: str) -> None:
    def run(inputs: tuple[Any, ...]) -> Callable[[nn.Module], Tensor]:
        return lambda model: test_modes.call(name, model, inputs)

    torch.manual_seed(4)
    check_module(test_modes.small(name), [run(inputs) for inputs in inputs_of_two_sizes(name)])


@pytest.mark.parametrize("name", encodings.ENCODINGS)
def test_an_encoding_keeps_the_shapes_of_its_parameters_and_buffers(name: str) -> None:
    def run(nodes: int) -> Callable[[nn.Module], Tensor]:
        graph = graphs.grid(nodes // 4, 4).with_self_loops().bind(nodes)
        x = torch.randn(nodes, 8, requires_grad=True)

        def call(encoding: nn.Module) -> Tensor:
            torch.manual_seed(3)
            terms = test_modes.encoded(encoding, graph, x)
            return torch.stack([x.sum(), *(term.sum() for term in terms)])

        return call

    check_module(encodings.ENCODINGS[name](*ARGUMENTS[name]), [run(8), run(12)])
