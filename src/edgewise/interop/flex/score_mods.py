"""Recognition of a ``score_mod`` that is linear in the score.

The function is run once on a stand-in for the score, which records ``gain · score + bias``. Query
and key index may be stand-ins too, of which only differences can be used: the terms then depend on
the relative position. Nothing is guessed from values. A function that does anything else with a
stand-in is not recognised, and is then evaluated on scores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from edgewise.interop.flex.pairs import PairFunction, axes_of, probe

ScoreMod = Callable[..., Tensor]
"""Function of scalar tensors ``(score, b, h, q_idx, kv_idx)``."""

CONVERSIONS = {"bfloat16", "clone", "contiguous", "double", "float", "half", "int", "long", "to"}
"""Methods that return the same number."""
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("add",), operator.add),
    **dict.fromkeys(("sub", "subtract"), operator.sub),
    **dict.fromkeys(("mul", "multiply"), operator.mul),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), operator.truediv),
    **dict.fromkeys(("floordiv", "floor_divide"), operator.floordiv),
    **dict.fromkeys(("mod", "remainder"), operator.mod),
    **dict.fromkeys(("and", "bitwise_and", "logical_and"), operator.and_),
    **dict.fromkeys(("or", "bitwise_or", "logical_or"), operator.or_),
    **dict.fromkeys(("ge", "greater_equal"), operator.ge),
    **dict.fromkeys(("gt", "greater"), operator.gt),
    **dict.fromkeys(("le", "less_equal"), operator.le),
    **dict.fromkeys(("lt", "less"), operator.lt),
    **dict.fromkeys(("eq",), operator.eq),
    **dict.fromkeys(("ne", "not_equal"), operator.ne),
}
"""Dict from names of PyTorch's functions and methods to operators of the stand-ins."""
UNARY: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("abs", "absolute"), operator.abs),
    **dict.fromkeys(("neg", "negative"), operator.neg),
    **dict.fromkeys(("invert", "bitwise_not", "logical_not"), operator.invert),
}
SWAPPED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq", "ne": "ne"}


class UnrecognisedError(Exception):
    """A stand-in was used in an operation that it does not support."""


class StandIn:
    """Base class of the stand-ins; PyTorch's functions call the operators of the subclass."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.__name__.strip("_")
        if name in UNARY and len(args) == 1:
            return UNARY[name](args[0])
        if kwargs or (name != "where" and len(args) != 2):
            raise UnrecognisedError
        if name == "where":
            return _where(*args)
        if name not in OPERATIONS and name[1:] in OPERATIONS:  # A reflected operator, as radd.
            name, args = name[1:], args[::-1]
        if name not in OPERATIONS:
            raise UnrecognisedError
        left, right = args
        operation = OPERATIONS[name]
        if isinstance(left, StandIn):
            return operation(left, right)
        name = operation.__name__.strip("_")
        reflected = SWAPPED.get(name, f"r{name}")
        return getattr(type(right), f"__{reflected}__")(right, left)

    def __getattr__(self, name: str) -> Any:
        if name in CONVERSIONS:
            return lambda *_args, **_kwargs: self
        raise UnrecognisedError

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnrecognisedError

    # Type checkers would compare the signatures with those of the subclasses.
    if not TYPE_CHECKING:
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refuse
        __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
        __bool__ = __index__ = __float__ = __int__ = __len__ = __iter__ = __getitem__ = _refuse
        __hash__ = None


class Position(StandIn):
    """Index of a query or a key, of which only the difference to another can be used."""

    def __init__(self, index: Tensor) -> None:
        super().__init__(index.dtype, index.device)
        self.index = index

    def __add__(self, other: Any) -> Position:
        if isinstance(other, StandIn):
            raise UnrecognisedError
        return Position(self.index + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Position):
            return self.index - other.index
        return self + (-other)

    def __ge__(self, other: Any) -> Any:
        return self - _position(other) >= 0

    def __gt__(self, other: Any) -> Any:
        return self - _position(other) > 0

    def __le__(self, other: Any) -> Any:
        return self - _position(other) <= 0

    def __lt__(self, other: Any) -> Any:
        return self - _position(other) < 0

    def __eq__(self, other: object) -> Any:
        return self - _position(other) == 0

    def __ne__(self, other: object) -> Any:
        return self - _position(other) != 0

    __hash__ = None  # type: ignore[assignment]


def _position(value: object) -> Position:
    if not isinstance(value, Position):
        raise UnrecognisedError
    return value


class Affine(StandIn):
    """Score ``gain · score + bias`` of a pair; -inf unless ``allowed`` (None: always allowed)."""

    def __init__(self, like: Any, gain: Any = 1.0, bias: Any = 0.0, allowed: Any = None) -> None:
        super().__init__(like.dtype, like.device)
        self.gain, self.bias, self.allowed = gain, bias, allowed

    def __add__(self, other: Any) -> Affine:
        if isinstance(other, Position):
            raise UnrecognisedError
        if isinstance(other, Affine):
            allowed = _both(self.allowed, other.allowed)
            return Affine(self, self.gain + other.gain, self.bias + other.bias, allowed)
        return Affine(self, self.gain, self.bias + other, self.allowed)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Affine:
        result: Affine = self + (-other)
        return result

    def __rsub__(self, other: Any) -> Affine:
        result: Affine = -self + other
        return result

    def __neg__(self) -> Affine:
        return self * -1.0

    def __mul__(self, other: Any) -> Affine:
        # -inf marks a masked pair; times 0 it is NaN, and times a negative number inf.
        if isinstance(other, StandIn) or self.allowed is not None:
            raise UnrecognisedError
        return Affine(self, self.gain * other, 0.0 if _is(self.bias, 0) else self.bias * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Affine:
        if isinstance(other, StandIn) or self.allowed is not None:
            raise UnrecognisedError
        return Affine(self, self.gain / other, 0.0 if _is(self.bias, 0) else self.bias / other)

    def masked_fill(self, condition: Any, value: Any) -> Affine:
        return _where(condition, value, self)


def _is(value: Any, number: float) -> bool:
    """Return whether a gain or bias is this number for all pairs, without reading a tensor."""
    return isinstance(value, int | float) and value == number


def _both(allowed: Any, other: Any) -> Any:
    if allowed is None or other is None:
        return other if allowed is None else allowed
    return allowed & other


def _where(condition: Any, left: Any, right: Any) -> Affine:
    if any(isinstance(x, Position) for x in (condition, left, right)):
        raise UnrecognisedError
    for score, other, allowed in ((left, right, condition), (right, left, ~condition)):
        if _is(other, -torch.inf):
            return Affine(score, score.gain, score.bias, _both(score.allowed, allowed))
    if isinstance(condition, StandIn):
        raise UnrecognisedError
    like = left if isinstance(left, Affine) else right
    left, right = (x if isinstance(x, Affine) else Affine(like, 0.0, x) for x in (left, right))
    is_allowed = None
    if left.allowed is not None or right.allowed is not None:
        sides = (True if x.allowed is None else x.allowed for x in (left, right))
        is_allowed = torch.where(condition, *(torch.as_tensor(side) for side in sides))
    gain, bias = (
        x if not isinstance(x, Tensor) and _is(y, x) else torch.where(condition, x, y)
        for x, y in ((left.gain, right.gain), (left.bias, right.bias))
    )
    return Affine(like, gain, bias, is_allowed)


@dataclass(frozen=True, eq=False)
class Terms:
    """A ``score_mod`` that returns ``gain · score + bias``.

    Attributes:
        gain: function of a pair; None if the gain is 1.
        bias: function of a pair; None if the bias is 0.
        allowed: function of a pair, false where the result is -inf; None if it never is.
        gain_axes: axes on which the gain depends, among "bhqk".
        bias_axes: axes on which the bias depends.
        is_relative: whether the bias depends on the difference of query and key index only.
    """

    gain: PairFunction | None
    bias: PairFunction | None
    allowed: PairFunction | None
    gain_axes: str
    bias_axes: str
    is_relative: bool


def recognise(score_mod: ScoreMod, dtype: torch.dtype, device: torch.device) -> Terms | None:
    """Return the gain and the bias of a ``score_mod``, or None if it is not recognised."""
    for relative in (True, False):
        try:
            return _terms(score_mod, dtype, device, relative=relative)
        except UnrecognisedError:
            pass
    return None


def _terms(
    score_mod: ScoreMod, dtype: torch.dtype, device: torch.device, *, relative: bool
) -> Terms:
    like = Affine(torch.empty(0, dtype=dtype, device=device))
    results: list[Affine] = []

    def run(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Affine:
        indices = (Position(q), Position(kv)) if relative else (q, kv)
        result = score_mod(like, b, h, *indices)
        if isinstance(result, Position):
            raise UnrecognisedError
        # A function that ignores the score has gain 0.
        return result if isinstance(result, Affine) else Affine(like, 0.0, result)

    def gain(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return _number(run(b, h, q, kv).gain, dtype)

    def bias(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return _number(run(b, h, q, kv).bias, dtype)

    def allowed(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Any:
        return run(b, h, q, kv).allowed

    def both(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> tuple[Tensor, Tensor]:
        results.append(run(b, h, q, kv))
        return _number(results[0].gain, dtype), _number(results[0].bias, dtype)

    gain_axes, bias_axes = (axes_of(x) for x in probe(both, device))
    (result,) = results
    return Terms(
        gain=None if _is(result.gain, 1) else gain,
        bias=None if _is(result.bias, 0) else bias,
        allowed=None if result.allowed is None else allowed,
        gain_axes=gain_axes,
        bias_axes=bias_axes,
        is_relative=relative,
    )


def _number(value: Any, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype)
