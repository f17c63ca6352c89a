"""Beam search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.decoding.continuation import Continuation
from edgewise.layers import EncoderDecoderModel, Memory, TextModel

NEVER = -1e9  # Lower than every score, but finite, so that sums do not overflow.


@dataclass
class Beams:
    """K beams for each batch element: token ids ``[B, K, T]`` and scores ``[B, K]``."""

    ids: Tensor
    scores: Tensor

    def best(self, ranking: Tensor, count: int) -> tuple[Beams, Tensor]:
        """Return the ``count`` best beams by ``ranking [B, K]``, and their indices."""
        scores, index = ranking.topk(count)
        return Beams(_take(self.ids, index), scores), index


@torch.no_grad()
def beam_search(
    model: TextModel | EncoderDecoderModel,
    prompt: Tensor,
    attention_mask: Tensor | None = None,
    *,
    beams: int = 4,
    max_new_tokens: int = 32,
    length_penalty: float = 1.0,
    end: int | None = None,
    padding: int = 0,
    memory: Memory | None = None,
    cached: bool = True,
) -> Tensor:
    r"""Generate texts by beam search.

    The best text maximises :math:`\log p(\mathrm{text}) / n^{\mathrm{penalty}}` for n new tokens.
    The search for a batch element ends when the best unfinished beam, at its current length, scores
    below the worst finished beam (``early_stopping=False`` of transformers).

    Args:
        model: language model or encoder-decoder; see :func:`edgewise.decoding.generate`.
        prompt: token ids ``[B, T]``, padded on the left.
        attention_mask: ``[B, T]``, 0 for padding.
        beams: beam size K.
        max_new_tokens: maximum number of new tokens.
        length_penalty: exponent of the length. Values above 0 prefer longer texts.
        end: id of the end-of-text token.
        padding: id of the padding token, which fills a text after its end.
        memory: encoded sequence for cross-attention.
        cached: whether to cache keys and values between steps.

    Returns:
        Token ids of prompts and new tokens, ``[B, T + new]``.

    Raises:
        ArgumentError: ``beams`` is below 1; see also :func:`edgewise.decoding.generate`.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> from edgewise.decoding import beam_search
        >>> model = models.gpt(1000).eval()
        >>> beam_search(model, torch.tensor([[1, 2, 3]]), beams=4, max_new_tokens=5).shape
        torch.Size([1, 8])
    """
    check_range(
        "beams",
        beams,
        "choose for example 4, or call generate() for no beam search",
        least=1,
        integer=True,
    )
    batch, start = prompt.shape
    if memory is not None:
        memory = memory.repeated(beams)
    text = Continuation(model, memory, cached=cached)
    if max_new_tokens < 1:
        return prompt
    open_ = Beams(
        prompt[:, None].expand(-1, beams, -1), _initial_scores(batch, beams, prompt.device)
    )
    done = Beams(_pad(open_.ids, max_new_tokens, padding), torch.full_like(open_.scores, NEVER))
    undecided = torch.ones(batch, 1, dtype=torch.bool, device=prompt.device)
    new = open_.ids.flatten(0, 1)
    mask = None if attention_mask is None else attention_mask.repeat_interleave(beams, 0)
    for step in range(1, max_new_tokens + 1):
        logits = text.read(new, mask).float().unflatten(0, (batch, beams))
        # Twice the beam size, so that enough beams continue even if the best token of each beam is
        # the end.
        tried, parent = _extend(open_, logits.log_softmax(-1), 2 * beams)
        ends = torch.full_like(tried.scores, step == max_new_tokens, dtype=torch.bool)
        if end is not None:
            ends |= tried.ids[..., -1] == end
        ended = ends & undecided
        ended[:, beams:] = False
        ranked = (tried.scores / step**length_penalty).masked_fill(~ended, NEVER)
        finished = _pad(tried.ids, max_new_tokens - step, padding)
        both = torch.cat([done.ids, finished], dim=1)
        done, _ = Beams(both, ranked).best(torch.cat([done.scores, ranked], dim=1), beams)
        open_, beam = tried.best(tried.scores.masked_fill(ends, NEVER), beams)
        best_open, worst_done = open_.scores[:, :1] / step**length_penalty, done.scores.amin(1)
        undecided = undecided & (best_open > worst_done[:, None])
        if not bool(undecided.any()) or bool(ends.all()):
            break
        rows = parent.gather(1, beam) + beams * torch.arange(batch, device=prompt.device)[:, None]
        text.select(rows.flatten())
        new, mask = open_.ids[..., -1].flatten()[:, None], None
    return _crop(done.ids[:, 0], start, end)


def _initial_scores(batch: int, beams: int, device: torch.device) -> Tensor:
    """Return initial scores that exclude all beams except one; all beams are equal at first."""
    scores = torch.full((batch, beams), NEVER, device=device)
    scores[:, 0] = 0.0
    return scores


def _extend(open_: Beams, log_probability: Tensor, count: int) -> tuple[Beams, Tensor]:
    """Return the ``count`` best extensions ``[B, count, T + 1]``, and their parent beams."""
    vocabulary = log_probability.shape[-1]
    total = (open_.scores[..., None] + log_probability).flatten(1)
    scores, index = total.topk(min(count, total.shape[1]))
    parent, token = index // vocabulary, index % vocabulary
    ids = torch.cat([_take(open_.ids, parent), token[..., None]], dim=-1)
    return Beams(ids, scores), parent


def _take(ids: Tensor, index: Tensor) -> Tensor:
    return ids.gather(1, index[..., None].expand(-1, -1, ids.shape[-1]))


def _pad(ids: Tensor, count: int, padding: int) -> Tensor:
    return torch.cat([ids, ids.new_full((*ids.shape[:-1], count), padding)], dim=-1)


def _crop(ids: Tensor, start: int, end: int | None) -> Tensor:
    """Cut off the columns that are padding in every text."""
    if end is None:
        return ids
    is_end = ids[:, start:] == end
    first = is_end.long().argmax(1) + 1
    lengths = first.where(is_end.any(1), torch.full_like(first, ids.shape[1] - start))
    return ids[:, : start + int(lengths.max())] if len(ids) else ids
