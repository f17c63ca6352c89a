"""What reasons of all kinds share: log-odds of an answer, and words of a text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.targets import Target, probabilities
from edgewise.app.predict.properties import Properties
from edgewise.app.train.text.tokenizer import special_ids
from edgewise.explain.attribution import Case, outputs_of

Scores = Callable[..., Tensor]
"""Function that returns scores; arguments, if any, name removed parts (``Case.score_without``)."""


def model_call(predictor: Any, *examples: Any) -> tuple[tuple[Any, ...], Tensor]:
    """Predict on a batch, and return the positional arguments and the output of the model."""
    with outputs_of(predictor.model) as calls:
        predictor.answer(list(examples))
    return calls[-1]


def log_odds(scores: Tensor, label: Tensor) -> Tensor:
    """Return the log-odds log p / (1 - p) of a label ``[R]`` for each row of logits ``[R, K]``."""
    label_scores = scores.gather(1, label[:, None])[:, 0]
    others = scores.scatter(1, label[:, None], -torch.inf)
    return label_scores - others.logsumexp(-1)


def row_odds(scores: Scores, row: int, label: int) -> Scores:
    """Return a function that computes the log-odds of one label in one row of the scores."""
    return lambda *removed: log_odds(scores(*removed)[row : row + 1], torch.tensor([label]))


def output_rows(predictor: Any, value: Any) -> tuple[tuple[Any, ...], Tensor, Scores]:
    """Return a model's arguments for an input, its outputs ``[R, K]``, and their function."""
    example = predictor.prepare(value)

    def scores() -> Tensor:
        out = model_call(predictor, example)[1]
        return out.reshape(-1, out.shape[-1])

    with torch.no_grad():
        arguments, out = model_call(predictor, example)
    return arguments, out.reshape(-1, out.shape[-1]), scores


def target_cases(
    predictor: Properties,
    out: Tensor,
    scores: Scores,
    member: Tensor,
    labels: list[str],
    **fields: Any,
) -> Iterator[Case]:
    """Yield a :class:`Case` for each target of outputs ``[1, K]``, which ``scores`` computes."""
    start = 0
    for target in predictor.targets:
        columns = slice(start, start + target.width)
        values = out[0, columns]
        name = f"{target.name} " if len(predictor.targets) > 1 else ""
        if target.classes:
            best = int(probabilities(target, values).argmax())
            score = class_odds(scores, columns, best, target)
            yield Case(score, member, labels, f"{name}{target.classes[best]}", **fields)
        else:
            answer = f"{name}{rounded(float(values[0]))}"
            yield number_case(scores, start, member, labels, answer, **fields)
        start += target.width


def class_odds(scores: Scores, columns: slice, label: int, target: Target) -> Scores:
    """Return a function that computes the log-odds of a class from the columns of its target."""

    def odds(*removed: Any) -> Tensor:
        values = scores(*removed)[:1, columns]
        if target.width == 1:  # two classes and one logit
            return values[:, 0] if label else -values[:, 0]
        return log_odds(values, torch.tensor([label]))

    return odds


def class_case(
    predictor: Any, out: Tensor, scores: Scores, member: Tensor, labels: list[str], **fields: Any
) -> Case:
    """Return the case of the most probable class of one input; see :func:`target_cases`."""
    best = int(out[0].argmax())
    answer = str(predictor.preprocessing.values["labels"][best])
    return Case(row_odds(scores, 0, best), member, labels, answer, **fields)


def number_case(
    scores: Scores, column: int, member: Tensor, labels: list[str], answer: str, **fields: Any
) -> Case:
    """Return the case of an output that is a number."""
    return Case(
        lambda *removed: scores(*removed)[0, column : column + 1],
        member,
        labels,
        answer,
        is_odds=False,
        **fields,
    )


def word_members(
    tokenizer: Any, ids: Tensor, *, visible: Collection[int] = ()
) -> tuple[Tensor, list[str]]:
    """Return the index of the word of each token, -1 for special tokens that are not ``visible`` or
    unknown words, and the words.
    """
    unknown = map(tokenizer.token_to_id, ("<unk>", "[UNK]"))
    special = set(special_ids(tokenizer).tolist()).difference(visible, unknown)
    member: list[int] = []
    labels: list[str] = []
    ended, vocabulary = True, list(tokenizer.get_vocab())[:2000]
    marks = any(piece.startswith(("▁", "Ġ")) for piece in vocabulary)
    for token in ids.tolist():
        if token in special:
            member.append(-1)
            ended = True
            continue
        piece = tokenizer.id_to_token(token) or ""
        text = piece.removeprefix("##").lstrip("▁Ġ")
        marked = piece.startswith(("▁", "Ġ"))
        joins = piece.startswith("##") or (marks and not marked and text.isalnum())
        if joins and not ended:
            labels[-1] += text
        else:
            labels.append(text or piece)
        member.append(len(labels) - 1)
        ended = False
    return torch.tensor(member), labels


def too_long(count: int) -> ArgumentError:
    """Return the error for an input with too many nodes to explain."""
    return ArgumentError(
        "input",
        expected="a sentence that the model reads as a whole",
        got=f"{count} tokens, which the model reads in parts",
        remedy="give a shorter sentence",
    )
