"""Each private function of PyTorch has a fallback with the same or a safe answer."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import edgewise as ew
from edgewise import graphs
from edgewise._utils import torch_internals
from edgewise._utils.dispatch_modes import disable_modes
from edgewise.graphs.graph import bound_graphs
from tests.sources import nodes_of

STACKS = [
    "_C._len_torch_function_stack",
    "_C._len_torch_dispatch_stack",
    "_ops._len_torch_dispatch_stack_pre_dispatch",
    "_C._functorch.peek_interpreter_stack",
    "_C._is_any_autocast_enabled",
]
EVERY = pytest.mark.parametrize("private", [None, *STACKS])


class Watch(TorchDispatchMode):
    """Counts the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):
    pass


class Without:
    """A module that lacks one name; PyTorch itself, which needs the name, keeps it."""

    def __init__(self, module: Any, *path: str) -> None:
        self._module, self._path = module, path

    def __getattr__(self, name: str) -> Any:
        first, *rest = self._path
        if name != first:
            return getattr(self._module, name)
        if not rest:
            raise AttributeError(name)
        return Without(getattr(self._module, name), *rest)


def remove(private: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete a name of ``torch`` for the tested module alone."""
    if private is not None:
        monkeypatch.setattr(torch_internals, "torch", Without(torch, *private.split(".")))


@EVERY
def test_modes_are_left(private: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    remove(private, monkeypatch)
    assert torch_internals.modes_are_active() is (private is not None)
    for mode in (torch.inference_mode(), torch.autocast("cpu"), torch.device("meta")):
        with mode, disable_modes():
            made = torch.ones(2, 2) @ torch.ones(2, 2)
        assert not made.is_inference()
        assert (made.dtype, made.device.type) == (torch.float32, "cpu")
    with FakeTensorMode(), disable_modes():
        assert type(torch.ones(2)) is Tensor


@EVERY
def test_calls_are_differentiable_whatever_is_missing(
    private: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(private, monkeypatch)
    bound_graphs.cache_clear()
    x = torch.linspace(-1, 1, 24).view(3, 2, 4)

    def total(x: Tensor) -> Tensor:
        return ew.attend(x, x, x, graphs.causal()).square().sum()

    leaf = x.clone().requires_grad_()
    total(leaf).backward()
    torch.testing.assert_close(torch.func.grad(total)(x), leaf.grad)
    with Watch() as watch:
        total(x)
    assert watch.calls


def test_tracing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not torch_internals.is_tracing()
    assert torch_internals.is_tracing([torch.ones(1).as_subclass(Subclass)])
    seen: list[bool] = []

    def look(x: Tensor) -> Tensor:
        seen.append(torch_internals.is_tracing())
        return x + 1

    with Watch():
        look(torch.ones(1))
    remove("_C._get_tracing_state", monkeypatch)
    look(torch.ones(1))
    assert seen == [True, True]


@pytest.mark.parametrize("missing", [False, True])
def test_forward_mode_is_seen(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        monkeypatch.setattr(torch_internals, "forward_ad", Without(forward_ad, "_current_level"))
    else:
        with forward_ad.dual_level():
            assert torch_internals.in_functorch_transform()
    assert torch_internals.in_functorch_transform() is missing


@pytest.mark.parametrize(
    "private", ["temporarily_clear_interpreter_stack", "_disable_current_modes"]
)
def test_fake_tensors_are_refused_if_modes_cannot_be_left(
    private: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = (torch._functorch.pyfunctorch, torch.utils._python_dispatch)
    monkeypatch.delattr(next(home for home in homes if hasattr(home, private)), private)
    with torch.inference_mode(), disable_modes():
        assert not torch.ones(1).is_inference()
    with (
        FakeTensorMode(),
        pytest.raises(RuntimeError, match="before entering the transform"),
        disable_modes(),
    ):
        pass
    with pytest.raises(RuntimeError, match="before entering the transform"):
        torch.func.grad(use_inside)(torch.ones(()))


def use_inside(x: Tensor) -> Tensor:
    with disable_modes():
        return x


def test_the_mark_of_a_constant_is_that_of_pytorch() -> None:
    def ours() -> int:
        return 1

    def theirs() -> int:
        return 1

    torch.compiler.assume_constant_result(theirs)
    torch_internals.mark_constant(ours)
    assert vars(ours) == vars(theirs) != {}


class Double(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad


@pytest.mark.parametrize("missing", [False, True])
def test_an_autograd_function_is_applied(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        remove("autograd.function._SingleLevelFunction", monkeypatch)
    x = torch.ones(2, requires_grad=True)
    torch_internals.single_level_apply(Double)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_the_version_of_a_tensor_counts_changes() -> None:
    x = torch.ones(2)
    before = torch_internals.version_of(x)
    assert torch_internals.version_of(x) == before
    x.add_(1)
    assert torch_internals.version_of(x) != before
    with torch.inference_mode():
        unknown = torch.ones(2)

    class NoVersion:
        def is_inference(self) -> bool:
            return False

    for tensor in (unknown, NoVersion()):
        first, second = (torch_internals.version_of(tensor) for _ in range(2))  # type: ignore[arg-type]
        assert first != second


HOMES = ("torch", "forward_ad", "torch.autograd.forward_ad")
PUBLIC = {"_check", "_dynamo"}
"""Documented under ``torch.export`` and as ``torch._dynamo.config``."""


def test_no_other_module_uses_private_names_of_torch() -> None:
    root = Path(ew.__file__).parent
    for path in root.rglob("*.py"):
        if path.name == "torch_internals.py":
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private = names[0] == "torch" and any(name.startswith("_") for name in names)
                assert not private, f"{path}:{node.lineno}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, of_torch = node.attr, node.value.id in ("torch", "forward_ad")
                private = name.startswith("_") and not name.startswith("__") and name not in PUBLIC
                assert not (of_torch and private), f"{path}:{node.lineno}"
