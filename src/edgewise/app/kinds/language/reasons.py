"""Reasons for masked words and continuations, and the attention to a beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.language.predict import Continuations, HiddenWords
from edgewise.app.predict.cases import output_rows, row_odds, word_members
from edgewise.app.predict.pages import answer_text, token_labels
from edgewise.app.train.text.tokenizer import special_ids
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation
from edgewise.explain.record import record
from edgewise.layers import LanguageModel, Tokens


def explain_beginning(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Record the attention of a language model to the beginning of a text."""
    ids = run.predictor.prepare(value)[-run.recipe.data.context :]
    with record(run.model, **recording) as recorded:
        run.model.trunk(ids[None])
    answer = answer_text(run, value, max_new_tokens=20, temperature=0)
    return Explanation(recorded, token_labels(run, ids), "sequence", answer=answer)


def hidden_words(predictor: HiddenWords, value: Any, _: int) -> Iterator[Case]:
    """Yield the visible words as reasons for each masked word."""
    (tokens, masked), out, all_scores = output_rows(predictor, value)
    ids = tokens.ids.flatten()
    member, labels = word_members(predictor.tokenizer, ids, visible=ids[masked].tolist())
    special = special_ids(predictor.tokenizer)

    def scores() -> Tensor:  # Special tokens are excluded, as in the answer.
        return all_scores().index_fill(1, special, -torch.inf)

    out = out.index_fill(1, special, -torch.inf)
    for row, best in enumerate(out.argmax(-1).tolist()):
        word = predictor.tokenizer.decode([best]).strip()
        yield Case(row_odds(scores, row, best), member, labels, word, masked[row].reshape(1))


def continuation(predictor: Continuations, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for the most probable next token, whose members are the last tokens."""
    data: Any = predictor.recipe.data
    ids = predictor.prepare(value)[-data.context :]
    model = predictor.model
    assert isinstance(model, LanguageModel)
    last = torch.tensor([len(ids) - 1])
    tokens = Tokens(ids, torch.tensor([len(ids)]))

    def scores() -> Tensor:
        out: Tensor = model(tokens, last)
        return out

    with torch.no_grad():
        best = int(scores()[0].argmax())
    texts = [data.decode(predictor.tokenizer, t.reshape(1)) for t in (*ids, torch.tensor(best))]
    *labels, answer = (text if text.strip() else "␣" for text in texts)
    yield Case(row_odds(scores, 0, best), torch.arange(len(ids)), labels, answer, last)
