"""What explanations of all kinds share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.digits import rounded
from edgewise.attention.hooks import without_interception
from edgewise.explain.explanation import Explanation, Kind, node_names
from edgewise.explain.record import MAX_EDGES, record
from edgewise.layers import Tokens

FEW_EDGES = 100_000
"""Maximum number of recorded edges around a node if the graph has more than ``MAX_EDGES`` edges."""


def explain_text(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a prediction of a run, whose model takes tokens as an argument, on a text."""
    with record(run.model, **recording) as recorded, positional_arguments(run.model) as calls:
        answer = answer_text(run, value)
    tokens = next(x for call in calls for x in call if isinstance(x, Tokens))
    return Explanation(recorded, token_labels(run, tokens.ids.flatten()), "sequence", answer=answer)


def explain_nodes(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a prediction of a model of graphs, series or interactions."""
    predictor = run.predictor
    options = {"top": 3, "evidence": 0} if "evidence" in predictor.options() else {}
    labels, node = predictor.node_labels(value)
    if node is not None and not {"targets", "max_edges"} & recording.keys():
        recording = {**recording, "targets": _neighbourhood(run, node)}
    with record(run.model, **recording) as recorded:
        predictor.set_up()  # Some predictors compute the embeddings of all nodes here.
        # For a node of one graph, set_up calls all layers. The steps of LightGCN's low-pass filter
        # are not layers, so they are not recorded.
        with without_interception() if node is not None else nullcontext():
            answer = answer_text(run, value, **options)
    kind: Kind = "sequence" if predictor.ordered else "graph"
    names = node_names(labels, recorded.layers[0].graph.num_sources, kind)
    details = {} if node is None else {"node": node}
    details |= {"timeline": predictor.ordered, **predictor.details(value)}
    return Explanation(recorded, names, kind, answer=answer, details=details)


def _neighbourhood(run: Any, node: int) -> Tensor | None:
    """Return the nodes nearest to a node, in a graph with too many edges to record, or None."""
    graph = run.predictor.graph_outputs()[1]
    if graph.num_edges <= MAX_EDGES:
        return None
    source, target = graph.edge_index
    reached = torch.zeros(graph.num_targets, dtype=torch.bool)
    reached[node] = True
    while True:
        further = reached.clone()
        further[source[reached[target]]] = True
        if int(further[target].sum()) > FEW_EDGES or torch.equal(further, reached):
            return reached.nonzero()[:, 0]
        reached = further


@contextmanager
def positional_arguments(model: nn.Module) -> Iterator[list[tuple[Any, ...]]]:
    """Collect the positional arguments of all calls of a model within the ``with`` block."""
    calls: list[tuple[Any, ...]] = []
    handle = model.register_forward_pre_hook(lambda _, args: calls.append(args))
    try:
        yield calls
    finally:
        handle.remove()


def answer_text(run: Any, value: Any, **options: Any) -> str:
    """Return the prediction of a run, with options of the predictor, as text."""
    predictor = run.predictor
    (answer,) = predictor.answer([predictor.prepare(predictor.input_of(value))], **options)
    if predictor.text_key in answer:
        return str(answer[predictor.text_key])
    shown = [
        f"{name} {_written(field)}"
        for name, field in answer.items()
        if name not in ("input", "unit")
    ]
    return " ".join([", ".join(shown), *([answer["unit"]] if answer.get("unit") else [])])


def _written(field: Any) -> str:
    if isinstance(field, float):
        return rounded(field)
    if isinstance(field, Mapping):
        return " ".join(_written(value) for value in field.values())
    if isinstance(field, (list, tuple)):
        return "; ".join(map(_written, field))
    return str(field)


def token_labels(run: Any, ids: Tensor) -> list[str]:
    """Return the tokens of these ids as text."""
    tokenizer = run.predictor.tokenizer
    tokens = [tokenizer.id_to_token(number) or str(number) for number in ids.tolist()]
    shown = [token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n") for token in tokens]
    return ["␣" if token == " " else token for token in shown]
