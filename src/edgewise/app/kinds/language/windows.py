"""Windows of a long text for causal language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Loader, Split
from edgewise.layers import Tokens


def training_windows(stream: Tensor, context: int, draw: int) -> Split:
    """Return a training split of windows that may begin at any token."""
    if len(stream) <= context:
        raise ArgumentError(
            "data.context",
            expected=f"less than the {len(stream)} tokens of the training text",
            got=str(context),
            remedy="choose a shorter context, or give more text",
        )
    windows = stream.unfold(0, context + 1, 1)

    def make(index: Tensor) -> Batch:
        chosen = windows[index]
        return Batch((Tokens(chosen[:, :-1].contiguous()),), chosen[:, 1:].flatten())

    return Split(len(windows), make, draw=draw or -(-len(stream) // context))


def held_out_windows(preceding: Tensor, stream: Tensor, context: int, stride: int) -> Split:
    """Return a split of sliding windows that predict their last ``stride`` tokens."""
    stream_with_context = torch.cat([preceding[-context:], stream])
    count = -(-len(stream) // stride)
    windows = stream_with_context.unfold(0, context + 1, 1)

    def make(index: Tensor) -> Batch:
        # The last token that a window predicts is token `stop - 1` of the stream.
        stop = ((index + 1) * stride).clamp(max=len(stream))
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
    """Loader of consecutive windows in as many rows as a batch has; each row of a batch continues
    in the next, also across epochs. Batches do not depend on the seed.
    """

    def __init__(
        self, stream: Tensor, context: int, size: int, seed: int | None, draw: int | None
    ) -> None:
        self.windows, self.context = stream.unfold(0, context + 1, 1), context
        fitting = (len(stream) - 1) // context
        super().__init__(self._window, fitting, size, seed)
        self.drawn = draw or fitting

    def __len__(self) -> int:
        return max(self.drawn // self.total_size, 1)

    @property
    def _of_row(self) -> int:
        """Number of windows in each of the rows into which the text is cut."""
        windows = self.count // self.total_size
        if not windows:
            raise ArgumentError(
                "data.batch_size",
                expected=f"at most {self.count}, so that each row of the batch has a window of "
                f"{self.context} tokens",
                got=str(self.total_size),
                remedy="choose a smaller batch size or a shorter context, or give more text",
            )
        return windows

    def _indices(self) -> Sequence[Tensor]:
        of_row = self._of_row
        first = torch.arange(self.total_size) * of_row
        begun = self._epoch * len(self)
        return [first + (begun + step) % of_row for step in range(len(self))]

    def _window(self, index: Tensor) -> Batch:
        chosen = self.windows[index * self.context]
        inputs = (Tokens(chosen[:, :-1].contiguous()),)
        continues = int(index[0]) % self._of_row > 0
        return Batch(inputs, chosen[:, 1:].flatten(), continues=continues)


class HeldOutStreamLoader(Loader):
    """Loader of consecutive windows in one row. With several processes, each reads the whole text,
    for the model's state, and only the first is scored.
    """

    def __init__(self, stream: Tensor, context: int) -> None:
        self.stream, self.context = stream, context
        super().__init__(self._window, -(-(len(stream) - 1) // context), 1)

    def share(self, rank: int, world_size: int) -> None:
        super().share(rank, world_size)
        self.total_size = 1

    def _window(self, index: Tensor) -> Batch:
        start = int(index[0]) * self.context
        tokens = self.stream[start : start + self.context + 1]
        inputs = (Tokens(tokens[None, :-1]),)
        if start:
            return Batch(inputs, tokens[1:], continues=True)
        return Batch(inputs, tokens[-1:], torch.tensor([self.context - 1]), continues=False)


@dataclass(frozen=True, kw_only=True)
class StreamSplit(Split):
    """Split of a text in which each batch continues the previous one."""

    stream: Tensor
    context: int
    held_out: bool = False

    @classmethod
    def to_train(cls, stream: Tensor, context: int, draw: int) -> StreamSplit:
        """Create a training split with ``draw`` windows per epoch; 0 for all."""
        plain = training_windows(stream, context, draw)
        return cls(plain.count, plain.make, draw=draw or None, stream=stream, context=context)

    @classmethod
    def to_test(cls, preceding: Tensor, stream: Tensor, context: int) -> StreamSplit:
        """Create a test split that predicts every token of the stream once."""
        plain = held_out_windows(preceding, stream, context, context)
        stream = torch.cat([preceding[-context:], stream])
        return cls(plain.count, plain.make, stream=stream, context=context, held_out=True)

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        if self.held_out:
            return HeldOutStreamLoader(self.stream, self.context)
        return StreamLoader(self.stream, self.context, batch_size, seed, self.draw)
