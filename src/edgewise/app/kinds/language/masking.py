"""Masked language modelling: BERT's masking of tokens, and masked windows of a text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Split
from edgewise.layers import Tokens

Hide = Callable[..., tuple[Tensor, Tensor]]
"""Type of :func:`mask_tokens` with all arguments bound except ``ids`` and ``generator``."""

HIDDEN, RANDOM = 0.8, 0.1
"""Fractions of the selected tokens that are masked, or replaced by a random token."""


def mask_tokens(
    ids: Tensor,
    fraction: float,
    *,
    mask: int,
    special: Tensor,
    vocab_size: int,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Mask tokens ``[N]``, and return the masked ids and the positions ``[M]`` to predict: of
    these, 80 % are ``mask``, 10 % random and 10 % unchanged (Devlin et al., 2018).
    """
    ordinary = ~torch.isin(ids, special)
    chosen = (torch.rand(ids.shape, generator=generator) < fraction) & ordinary
    how = torch.rand(ids.shape, generator=generator)
    other = torch.randint(len(special), vocab_size, ids.shape, generator=generator)
    # The mean loss over no tokens is NaN, so mask at least one token.
    if not chosen.any():
        chosen[ordinary.nonzero()[:1].flatten()] = True
    shown = torch.where(chosen & (how < HIDDEN), mask, ids)
    shown = torch.where(chosen & (how >= HIDDEN) & (how < HIDDEN + RANDOM), other, shown)
    return shown, chosen.nonzero().flatten()


def masked_windows(stream: Tensor, context: int, draw: int, *, first: int, hide: Hide) -> Split:
    """Return a training split of windows that begin with ``<cls>``, each time masked anew."""
    length = min(context - 1, len(stream))
    windows = stream.unfold(0, length, 1)

    def make(index: Tensor) -> Batch:
        text = _after(first, windows[index])
        shown, masked = hide(text.flatten())
        return Batch((Tokens(shown.view_as(text)), masked), text.flatten()[masked])

    return Split(len(windows), make, draw=draw or -(-len(stream) // length))


def held_out_masked_windows(stream: Tensor, context: int, *, first: int, hide: Hide) -> Split:
    """Return a split of consecutive windows with a fixed masking; none is predicted twice."""
    length = min(context - 1, len(stream))
    shown, masked = hide(stream, generator=torch.Generator().manual_seed(0))
    chosen = torch.zeros(len(stream), dtype=torch.bool).index_fill_(0, masked, True)

    def make(index: Tensor) -> Batch:
        start = (index * length)[:, None]
        at = start.clamp(max=len(stream) - length) + torch.arange(length)
        asked = chosen[at] & (at >= start)
        after = torch.nn.functional.pad(asked, (1, 0)).flatten().nonzero().flatten()
        return Batch((Tokens(_after(first, shown[at])), after), stream[at][asked])

    return Split(-(-len(stream) // length), make)


def _after(first: int, windows: Tensor) -> Tensor:
    return torch.cat([windows.new_full((len(windows), 1), first), windows], dim=1)
