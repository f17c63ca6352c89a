"""Masked language modelling: BERT's rule of which tokens to mask, and masked windows of a text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.splits import Split
from edgewise.layers import Tokens

Hide = Callable[..., tuple[Tensor, Tensor]]
"""What :func:`mask_tokens` is with all but the ids, and a generator, given."""

HIDDEN, RANDOM = 0.8, 0.1
"""Of the chosen tokens; the others are shown as they are."""


def mask_tokens(
    ids: Tensor,
    share: float,
    *,
    mask: int,
    special: Tensor,
    vocabulary: int,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """What the model is shown, and the places ``[M]`` in it that it has to answer for.

    Of the tokens that are not special a ``share`` is chosen; of these 80 % are shown as ``mask``,
    10 % as any other token, and 10 % as they are (Devlin et al., 2018).

    Args:
        ids: ``[N]``.
        share: of the tokens, to be chosen.
        mask: the id that hides a token.
        special: ids of the special tokens, which are not chosen; as many first ids are not put in.
        vocabulary: how many tokens there are.
        generator: of the choice; PyTorch's own, of the run's seed, where it is ``None``.
    """
    ordinary = ~torch.isin(ids, special)
    chosen = (torch.rand(ids.shape, generator=generator) < share) & ordinary
    how = torch.rand(ids.shape, generator=generator)
    other = torch.randint(len(special), vocabulary, ids.shape, generator=generator)
    if not chosen.any():  # a mean over none is no loss
        chosen[ordinary.nonzero()[:1].flatten()] = True
    shown = torch.where(chosen & (how < HIDDEN), mask, ids)
    shown = torch.where(chosen & (how >= HIDDEN) & (how < HIDDEN + RANDOM), other, shown)
    return shown, chosen.nonzero().flatten()


def masked_windows(stream: Tensor, context: int, draw: int, *, first: int, hide: Hide) -> Split:
    """Windows after ``<cls>`` that begin anywhere in ``stream [N]`` and hide others every time.

    Args:
        stream: ids.
        context: T, tokens of a window, with ``<cls>``.
        draw: how many windows an epoch draws; as many as fit side by side where it is 0.
        first: the id of ``<cls>``.
        hide: the rule; :func:`mask_tokens` with its share and ids.
    """
    length = min(context - 1, len(stream))
    windows = stream.unfold(0, length, 1)

    def make(index: Tensor) -> Batch:
        text = _after(first, windows[index])
        shown, places = hide(text.flatten())
        return Batch((Tokens(shown.view_as(text)), places), text.flatten()[places])

    return Split(len(windows), make, draw=draw or -(-len(stream) // length))


def held_out_masked_windows(stream: Tensor, context: int, *, first: int, hide: Hide) -> Split:
    """Windows after ``<cls>``, side by side, of ``stream [N]`` with the same tokens hidden always.

    Every hidden token is asked for exactly once. The last window ends with the text; what the one
    before has asked for is only read.

    Args:
        stream: ids.
        context: T, tokens of a window, with ``<cls>``.
        first: the id of ``<cls>``.
        hide: the rule; see :func:`masked_windows`.
    """
    length = min(context - 1, len(stream))
    shown, places = hide(stream, generator=torch.Generator().manual_seed(0))
    chosen = torch.zeros(len(stream), dtype=torch.bool).index_fill_(0, places, True)

    def make(index: Tensor) -> Batch:
        start = (index * length)[:, None]
        at = start.clamp(max=len(stream) - length) + torch.arange(length)
        asked = chosen[at] & (at >= start)
        after = torch.nn.functional.pad(asked, (1, 0)).flatten().nonzero().flatten()
        return Batch((Tokens(_after(first, shown[at])), after), stream[at][asked])

    return Split(-(-len(stream) // length), make)


def _after(first: int, windows: Tensor) -> Tensor:
    return torch.cat([windows.new_full((len(windows), 1), first), windows], dim=1)
