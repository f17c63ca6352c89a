"""Reasons for the words of a translation, and its attention to the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.translation.data import Pairs
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.predict.cases import row_odds, word_members
from edgewise.app.predict.pages import answer_text, token_labels
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.tokenizer import special_ids
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation
from edgewise.explain.record import record


def explain_translation(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a translation by the weights of encoder, decoder and cross-attention.

    Args:
        run: run of a translation model.
        value: the source text.
        recording: arguments of :func:`edgewise.explain.record`.
    """
    ids, answer = run.predictor.prepare(value), answer_text(run, value)
    source = PackedTexts(ids, torch.tensor([len(ids)]))
    pairs = Pairs.of_sources(run.predictor.tokenizer, source, [answer])
    read, written = pairs.take(torch.tensor([0])).inputs
    with record(run.model, **recording) as recorded:
        run.model(read, written)
    labels, targets = token_labels(run, ids), token_labels(run, written.ids)
    return Explanation(recorded, labels, "pair of sequences", answer=answer, target_labels=targets)


def translation(predictor: Translations, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each token of the translation, whose members are the source words."""
    ids = predictor.prepare(value)
    with torch.no_grad():
        text = predictor.answer([ids])[0]["translation"]
    source = PackedTexts(ids, torch.tensor([len(ids)]))
    batch = Pairs.of_sources(predictor.tokenizer, source, [text]).take(torch.tensor([0]))
    member, labels = word_members(predictor.tokenizer, ids)
    wanted = batch.target.flatten()

    def scores() -> Tensor:
        out: Tensor = predictor.model(*batch.inputs, **batch.keywords)
        return out.reshape(-1, out.shape[-1])

    for row, best in enumerate(wanted.tolist()):
        if best not in special_ids(predictor.tokenizer).tolist():
            word = predictor.tokenizer.decode([best]).strip()
            yield Case(row_odds(scores, row, best), member, labels, word)
