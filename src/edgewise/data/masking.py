"""Hidden tokens to be found again: BERT's rule, and windows of a text under it."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.data.batch import Batch
from edgewise.data.splits import Split
from edgewise.layers import Tokens

HIDDEN, RANDOM = 0.8, 0.1
"""Of the chosen tokens; the others are shown as they are."""


def mask_tokens(
    ids: Tensor,
    share: float,
    *,
    mask: int,
    special: int,
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
        special: ids below it are special tokens, which are neither chosen nor put in.
        vocabulary: how many tokens there are.
        generator: of the choice; PyTorch's own, of the run's seed, where it is ``None``.
    """
    ordinary = ids >= special
    chosen = (torch.rand(ids.shape, generator=generator) < share) & ordinary
    how = torch.rand(ids.shape, generator=generator)
    other = torch.randint(special, vocabulary, ids.shape, generator=generator)
    if not chosen.any():  # a mean over none is no loss
        chosen[ordinary.nonzero()[:1].flatten()] = True
    shown = torch.where(chosen & (how < HIDDEN), mask, ids)
    shown = torch.where(chosen & (how >= HIDDEN) & (how < HIDDEN + RANDOM), other, shown)
    return shown, chosen.nonzero().flatten()


def masked_windows(
    stream: Tensor, context: int, draw: int, share: float, ids: dict[str, int], *, fixed: bool
) -> Split:
    """Windows of ``stream [N]`` after ``<cls>``, with hidden tokens.

    Args:
        stream: ids.
        context: T, tokens of a window, with ``<cls>``.
        draw: how many windows an epoch draws; as many as fit side by side where it is 0.
        share: of the tokens, to be chosen.
        ids: ``cls``, ``mask``, and ``special`` and ``vocabulary`` of :func:`mask_tokens`.
        fixed: the same windows, side by side, and the same hidden tokens every time, for
            validation; else the windows begin anywhere and hide others every time.
    """
    length = min(context - 1, len(stream))
    windows = stream.unfold(0, length, length if fixed else 1)
    rule = {"mask": ids["mask"], "special": ids["special"], "vocabulary": ids["vocabulary"]}

    def make(index: Tensor) -> Batch:
        chosen = windows[index]
        text = torch.cat([chosen.new_full((len(chosen), 1), ids["cls"]), chosen], dim=1)
        generator = torch.Generator().manual_seed(int(index[0])) if fixed else None
        shown, places = mask_tokens(text.flatten(), share, generator=generator, **rule)
        return Batch((Tokens(shown.view_as(text)), places), text.flatten()[places])

    return Split(len(windows), make, draw=draw or -(-len(stream) // length))
