"""Reasons for the words of a translation, and its attention to the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.predict.cases import row_odds, word_members
from edgewise.app.predict.pages import answer_text, token_labels
from edgewise.app.train.text.tokenizer import special_ids
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation
from edgewise.explain.record import record
from edgewise.explain.texts import distinct_target
from edgewise.layers import Tokens


def explain_translation(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Record the attention of encoder and decoder, and the cross-attention, of a translation."""
    ids, answer = run.predictor.prepare(value), answer_text(run, value)
    source, target = run.predictor.pair_batch([ids], [answer]).inputs
    with record(run.model, **recording) as recorded:
        run.model(source, target)
    labels, targets = token_labels(run, ids), token_labels(run, target.ids)
    return Explanation(recorded, labels, "pair of sequences", answer=answer, target_labels=targets)


def translation(predictor: Translations, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each token of the translation, whose members are the source words."""
    ids = predictor.prepare(value)
    with torch.no_grad():
        text = predictor.answer([ids])[0]["translation"]
    batch = predictor.pair_batch([ids], [text])
    member, labels = word_members(predictor.tokenizer, ids)
    source, target = batch.inputs
    target_ids = distinct_target(target.ids, len(ids))
    target = Tokens(target_ids, torch.tensor([len(target_ids)]))

    def scores() -> Tensor:
        out: Tensor = predictor.model(source, target)
        return out.reshape(-1, out.shape[-1])

    special = special_ids(predictor.tokenizer).tolist()
    for row, best in enumerate(batch.target.tolist()):
        if best not in special:
            word = predictor.tokenizer.decode([best]).strip()
            yield Case(row_odds(scores, row, best), member, labels, word)
