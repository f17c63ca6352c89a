"""A device that is not the CPU, simulated: what would fail or wait on a GPU shows without one.

A tensor on it holds one of the CPU, which computes. As on a GPU, tensors of two devices do not mix,
and whatever needs a number on the host waits: to read one, to make a tensor whose size depends on
numbers, to copy. All of that is noted in ``WAITS``. PyTorch lets a process name one such device,
which is then seen everywhere in it; so this is imported by tests in a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("simulated")
DEVICE = torch.device("simulated:0")

F = TypeVar("F", bound=Callable[..., Any])
WAITS: list[str] = []
"""For what a host would have waited since the list was emptied."""

READS = ("_local_scalar_dense", "equal")
SIZES = ("nonzero", "_unique2", "unique_dim", "unique_consecutive", "masked_select")
COPIES = ("_to_copy", "copy_")


class OnDevice(Tensor):
    """A tensor on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{self.held!r} on {DEVICE}"

    def tolist(self) -> list[Any]:
        """PyTorch's own knows no tensors of other classes."""
        WAITS.append("tolist")
        numbers: list[Any] = self.held.tolist()
        return numbers

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = func.overloadpacket.__name__, dict(kwargs or {})
        to_host = name == "copy_" and not isinstance(args[0], OnDevice)
        if name in COPIES:
            device = kwargs.get("device")
            to_host |= device is not None and device.type == "cpu"
            to_device = not isinstance(args[-1] if name == "copy_" else args[0], OnDevice)
            if to_host or to_device:
                WAITS.append("copied to the host" if to_host else "copied to the device")
        else:
            _refuse_others(func, args, kwargs)
            if _waits(name, args, kwargs):
                WAITS.append(name)
        if kwargs.get("device") == DEVICE:
            kwargs["device"] = torch.device("cpu")
        out = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        if to_host:
            return args[0] if name == "copy_" else out
        return return_and_correct_aliasing(func, args, kwargs, tree_map(_moved, out))


def _held(x: Any) -> Any:
    return x.held if isinstance(x, OnDevice) else x


def _moved(x: Any) -> Any:
    return OnDevice(x) if isinstance(x, Tensor) else x


def _refuse_others(func: Any, args: Any, kwargs: Any) -> None:
    """Numbers of the CPU may come along, tensors may not."""
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, Tensor) and not isinstance(x, OnDevice) and x.dim():
            raise RuntimeError(f"{func} with tensors on {DEVICE} and on {x.device}")


def _waits(name: str, args: Any, kwargs: Any) -> bool:
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    if name in ("index", "index_put_"):
        return any(x is not None and x.dtype == torch.bool for x in args[1])
    return name in (*READS, *SIZES)


_IMPLEMENTATIONS = torch.library.Library("aten", "IMPL")


def _implement(name: str) -> Callable[[F], F]:
    """For operations that have no tensor among their arguments."""

    def as_here(function: F) -> F:
        _IMPLEMENTATIONS.impl(name, function, "PrivateUse1")
        return function

    return as_here


def _options(kwargs: Any) -> dict[str, Any]:
    return {"dtype": kwargs.get("dtype"), "device": "cpu"}


@_implement("empty.memory_format")
def _empty(size: Any, **kwargs: Any) -> Tensor:
    return OnDevice(torch.empty(size, **_options(kwargs)))


@_implement("empty_strided")
def _empty_strided(size: Any, stride: Any, **kwargs: Any) -> Tensor:
    return OnDevice(torch.empty_strided(size, stride, **_options(kwargs)))


@_implement("arange")
def _arange(end: Any, **kwargs: Any) -> Tensor:
    return OnDevice(torch.arange(end, **_options(kwargs)))


@_implement("arange.start")
def _arange_start(start: Any, end: Any, **kwargs: Any) -> Tensor:
    return OnDevice(torch.arange(start, end, **_options(kwargs)))


@_implement("_copy_from")
def _copy_from(source: Tensor, target: Tensor, _non_blocking: bool = False) -> Tensor:
    WAITS.append("copied to the device" if isinstance(target, OnDevice) else "copied to the host")
    _held(target).copy_(_held(source))
    return target
