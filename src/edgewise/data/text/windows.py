"""A long text cut into windows, of which each token predicts the next."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.batches import Batch
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
