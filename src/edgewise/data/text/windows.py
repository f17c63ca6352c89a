"""A long text cut into windows, of which each token predicts the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.loader import Loader
from edgewise.data.splits import Split
from edgewise.errors import ArgumentError
from edgewise.layers import Tokens


def training_windows(stream: Tensor, context: int, draw: int) -> Split:
    """Windows that begin anywhere in ``stream [N]``.

    Args:
        stream: ids.
        context: T, tokens of a window.
        draw: how many windows an epoch draws; as many as fit side by side where it is 0.

    Raises:
        ArgumentError: the text is not longer than the context.
    """
    if len(stream) <= context:
        raise ArgumentError(
            "data.context",
            expected=f"less than the {len(stream)} tokens of the text to train on",
            got=str(context),
            remedy="shorten it, or give more text",
        )
    windows = stream.unfold(0, context + 1, 1)

    def make(index: Tensor) -> Batch:
        chosen = windows[index]
        return Batch((Tokens(chosen[:, :-1].contiguous()),), chosen[:, 1:].flatten())

    return Split(len(windows), make, draw=draw or -(-len(stream) // context))


def held_out_windows(before: Tensor, stream: Tensor, context: int, stride: int) -> Split:
    """Windows in which every token of ``stream [N]`` is predicted exactly once.

    Each window predicts its last ``stride`` tokens; the others only read. The last window predicts
    what is left.

    Args:
        before: the tokens that precede the stream, at least ``context`` of them.
        stream: ids.
        context: T, tokens of a window.
        stride: how far a window is from the one before; at most T. The smaller, the more a token
            is allowed to read, and the longer it takes.
    """
    stream_with_context = torch.cat([before[-context:], stream])
    count = -(-len(stream) // stride)
    windows = stream_with_context.unfold(0, context + 1, 1)

    def make(index: Tensor) -> Batch:
        stop = ((index + 1) * stride).clamp(max=len(stream))  # window i ends before token stop
        chosen = windows[stop - 1]
        counted = stop - index * stride
        target = chosen[:, 1:].flatten()
        inputs = (Tokens(chosen[:, :-1].contiguous()),)
        if bool((counted == context).all()):
            return Batch(inputs, target)
        late = torch.arange(context) >= context - counted[:, None]
        select = late.flatten().nonzero().flatten()
        return Batch(inputs, target[select], select)

    return Split(count, make)


class StreamLoader(Loader):
    """Windows of a text one after the other, so that each row of a batch goes on in the next.

    The text is cut into as many rows as a batch has. An epoch goes on where the one before ended;
    after the last window of the rows, which leaves out what does not fill one, come the first
    again. So (epoch, batch) alone decide what is served.

    Args:
        stream: ids ``[N]``.
        context: T, tokens of a window.
        size: rows.
        seed: for its form alone, as nothing is drawn.
        draw: windows of an epoch; as many as there are where it is ``None``.
    """

    def __init__(
        self, stream: Tensor, context: int, size: int, seed: int | None, draw: int | None
    ) -> None:
        self.windows, self.context = stream.unfold(0, context + 1, 1), context
        fitting = (len(stream) - 1) // context
        super().__init__(self._window, fitting, size, seed)
        self.drawn = draw or fitting

    def __len__(self) -> int:
        return max(self.drawn // self._total_size, 1)

    @property
    def _of_row(self) -> int:
        """How many windows fit a row."""
        found = self.count // self._total_size
        if not found:
            raise ArgumentError(
                "data.batch_size",
                expected=f"at most {self.count} rows of one window of {self.context} tokens",
                got=str(self._total_size),
                remedy="choose fewer rows, a shorter context, or give more text",
            )
        return found

    def _indices(self) -> Sequence[Tensor]:
        of_row = self._of_row
        first = torch.arange(self._total_size) * of_row
        begun = self._epoch * len(self)
        return [first + (begun + step) % of_row for step in range(len(self))]

    def _window(self, index: Tensor) -> Batch:
        chosen = self.windows[index * self.context]
        inputs = (Tokens(chosen[:, :-1].contiguous()),)
        follows = int(index[0]) % self._of_row > 0
        return Batch(inputs, chosen[:, 1:].flatten(), follows=follows)


class HeldOutStreamLoader(Loader):
    """A text window after window in one row; of the first window only the last prediction counts.

    Of several processes each reads all of it, as it needs what was before, and the first counts.

    Args:
        stream: the tokens before the text, as many as a window has, and the text.
        context: T, tokens of a window.
    """

    def __init__(self, stream: Tensor, context: int) -> None:
        self.stream, self.context = stream, context
        super().__init__(self._window, -(-(len(stream) - 1) // context), 1)

    @property
    def _total_size(self) -> int:
        return 1

    def _window(self, index: Tensor) -> Batch:
        start = int(index[0]) * self.context
        tokens = self.stream[start : start + self.context + 1]
        inputs = (Tokens(tokens[None, :-1]),)
        if start:
            return Batch(inputs, tokens[1:], follows=True)
        return Batch(inputs, tokens[-1:], torch.tensor([self.context - 1]), follows=False)


@dataclass(frozen=True, kw_only=True)
class StreamSplit(Split):
    """A text of which each batch goes on where the one before ended.

    Attributes:
        stream: ids ``[N]``.
        context: tokens of a window.
        held_out: whether every token counts once, after the first ``context``.
    """

    stream: Tensor
    context: int
    held_out: bool = False

    @classmethod
    def to_train(cls, stream: Tensor, context: int, draw: int) -> StreamSplit:
        """Of windows that begin at a multiple of the context in each row; ``draw`` an epoch."""
        plain = training_windows(stream, context, draw)
        return cls(plain.count, plain.make, draw=draw or None, stream=stream, context=context)

    @classmethod
    def to_test(cls, before: Tensor, stream: Tensor, context: int) -> StreamSplit:
        """Of windows in which every token of the stream is predicted once, and all are read."""
        plain = held_out_windows(before, stream, context, context)
        whole = torch.cat([before[-context:], stream])
        return cls(plain.count, plain.make, stream=whole, context=context, held_out=True)

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        if self.held_out:
            return HeldOutStreamLoader(self.stream, self.context)
        return StreamLoader(self.stream, self.context, batch_size, seed, self.draw)
