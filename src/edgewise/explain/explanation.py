"""Explanation of one prediction: recorded weights, and names and positions of the nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, counted
from edgewise.explain.module_names import model_of
from edgewise.explain.reasons import Attribution
from edgewise.explain.record import LayerRecord, Recorded, record
from edgewise.explain.texts import (
    arguments_of_text,
    decoder_inputs,
    is_token,
    token_labels,
    without_padding,
)
from edgewise.layers import PatchEmbedding

Kind = Literal["sequence", "pair of sequences", "graph", "molecule", "image"]


@dataclass(eq=False)
class Explanation:
    """Recorded weights of one prediction (the answer), and labels for a page or figure.

    Attributes:
        recorded: weights of each layer.
        labels: names of the nodes: tokens (of the source), atoms, patches or node ids.
        kind: kind of the input.
        positions: coordinates ``[N, 2]`` of the nodes, or ``None``.
        answer: prediction as text; empty without a run.
        target_labels: in a pair of sequences, the tokens of the target.
        details: ``"image"``, the input ``[C, H, W]``; ``"patches"``, their rows and columns;
            ``"smiles"`` and ``"bonds"``, pairs of atoms, with ``"orders"``; ``"node"``, the index
            of the explained node; ``"classes"``, names of classes and the class of each node;
            ``"values"`` of time steps; ``"waveform"``, the ``"peaks"`` of a recording, ``"bins"``
            of them in each part; ``"input"``, the input as text.
        reasons: attributions of all answers, which a page shows first.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> shown = explain.explanation(bert, torch.randint(100, (1, 6)))
        >>> len(shown.labels), shown.kind
        (6, 'sequence')
    """

    recorded: Recorded
    labels: list[str]
    kind: Kind
    positions: Tensor | None = None
    answer: str = ""
    target_labels: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    reasons: list[Attribution] = field(default_factory=list)

    def __post_init__(self) -> None:
        for layer in self.recorded:
            _check_layer(layer)

    def labels_of(self, layer: LayerRecord) -> tuple[list[str], list[str]]:
        """Return the names, or numbers, of the targets and of the sources of a layer."""
        targets, sources = layer.graph.num_targets, layer.graph.num_sources
        target = source = self.labels
        if self.kind == "pair of sequences" and (layer.is_cross or "decoder" in layer.module):
            target = self.target_labels
            source = self.labels if layer.is_cross else self.target_labels
        elif layer.is_cross and self.kind == "sequence":
            source = []
        names = [(target, targets), (source, sources)]
        if self.kind == "image":  # Layers of Swin attend to merged patches.
            names = [(self._patches(labels, count), count) for labels, count in names]
        of_targets, of_sources = (node_names(labels, count, self.kind) for labels, count in names)
        return of_targets, of_sources

    def _patches(self, labels: list[str], count: int) -> list[str]:
        """Return the names of ``count`` patches, whose number may not be that of the labels."""
        grid = None if len(labels) == count else self.grid(count)
        return labels if grid is None else patch_labels(*grid, class_token=count > math.prod(grid))

    def grid(self, count: int) -> tuple[int, int] | None:
        """Return the rows and columns of ``count`` patches, which may include a class token; None
        if these are no grid with the shape of the image.
        """
        height, width = self.details.get("patches", (1, 1))
        for patches in (count, count - 1):
            rows = math.isqrt(max(0, patches) * height // width)
            if rows and rows * rows * width == patches * height:
                return rows, patches // rows
        return None

    def positions_of(self, layer: LayerRecord) -> Tensor | None:
        """Return the coordinates of the target nodes of a layer, or ``None`` if unknown."""
        count = layer.graph.num_targets
        if self.positions is not None and len(self.positions) == count:
            return self.positions
        if self.kind == "image":
            grid = self.grid(count)
            return (
                None if grid is None else grid_positions(*grid, class_token=count > math.prod(grid))
            )
        positions = layer.graph.positions()
        return positions if positions is not None and len(positions) == count else None

    def _repr_html_(self) -> str:
        """Return the page of :func:`edgewise.explain.write_page` in an iframe, for notebooks."""
        from edgewise.explain.page import notebook_frame

        return notebook_frame(self)

    def __repr__(self) -> str:
        layers = counted(len(self.recorded), "layer")
        return f"<Explanation of a {self.kind}, {layers}: {self.answer!r}>"


def explanation(
    model: Any,
    inputs: Any,
    *,
    labels: Sequence[str] | None = None,
    positions: Tensor | None = None,
    kind: Kind | None = None,
    tokenizer: Any = None,
    **recording: Any,
) -> Explanation:
    """Predict on one input and record the attention weights of all layers.

    Padding is left out. If an encoder-decoder of transformers gets no decoder inputs, it generates
    them.

    Args:
        model: a run of :func:`edgewise.load`, or a model.
        inputs: one input of the run, such as a sentence, or ``None`` for the end of the training
            series; for a model, the arguments of its call as
            a tuple or dict, such as the output of a tokenizer of transformers.
        labels: names of the nodes; by default those of the run, the tokens, or indices from 0.
        positions: coordinates ``[N, 2]`` of the nodes.
        kind: kind of the input, such as ``"graph"``; detected by default.
        tokenizer: tokenizer of transformers that names the tokens of source and target; without
            it, a fast tokenizer's output names those of the source.
        recording: further arguments of :func:`edgewise.explain.record`.

    Raises:
        ArgumentError: the input is invalid or empty, the model computes no attention for it, the
            weights are not finite, no head is recorded, or the number of labels does not fit.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> shown = explain.explanation(bert, ids)  # in Jupyter, `shown` displays the page
        >>> [layer.weights.shape for layer in shown.recorded]  # [..., edges, heads]
        [torch.Size([1, 36, 2])]
    """
    if isinstance(model, nn.Module):
        explained = _of_model(model, inputs, recording, tokenizer)
    else:
        model_of(model)
        explained = model.explanation(inputs, recording)
    if labels is not None:
        explained.labels = _checked_labels(explained.recorded, list(map(str, labels)))
    if positions is not None:
        explained.positions = positions
    if kind is not None:
        explained.kind = kind
    return explained


def _checked_labels(recorded: Recorded, labels: list[str]) -> list[str]:
    counts = {n for layer in recorded for n in (layer.graph.num_sources, layer.graph.num_targets)}
    if len(labels) not in counts:
        raise ArgumentError(
            "labels",
            expected=f"a name for each node, {' or '.join(map(str, sorted(counts)))}",
            got=counted(len(labels), "name"),
            remedy="give as many names as nodes, without padding, or omit labels",
        )
    return labels


def _check_layer(layer: LayerRecord) -> None:
    """Raise ArgumentError if the layer has no nodes or heads, or weights that are not finite."""
    weights, graph = layer.weights, layer.graph
    if not weights.shape[-1]:
        raise ArgumentError(
            "heads",
            expected="at least one recorded head",
            got=f"none of {layer.name}",
            remedy="omit heads to record all heads",
        )
    if not (graph.num_targets and graph.num_sources and weights.shape[:-2].numel()):
        raise ArgumentError(
            "inputs",
            expected="an input with at least one node, such as a token",
            got=f"{counted(graph.num_targets, 'target')}, "
            f"{counted(graph.num_sources, 'source')} and weights {list(weights.shape)} of "
            f"{layer.name}",
            remedy="pass an input that is not empty",
        )
    is_finite = weights.isfinite()
    if not bool(is_finite.all()):
        raise ArgumentError(
            "weights",
            expected="finite attention weights",
            got=f"{int((~is_finite).sum()):,} of {weights.numel():,} weights of {layer.name} that "
            "are NaN or infinite",
            remedy="look for NaN and infinity in the parameters and inputs of the model",
        )


def _of_model(
    model: nn.Module, inputs: Any, recording: Mapping[str, Any], tokenizer: Any
) -> Explanation:
    args, keywords = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    if "input_ids" in keywords and "sizes" not in keywords:
        return _of_text(model, inputs, recording, tokenizer)
    args = args if isinstance(args, tuple) else (args,)
    with torch.no_grad(), record(model, **recording) as recorded:
        model(*args, **keywords)
    first = next((x for x in (*args, *keywords.values()) if isinstance(x, Tensor)), None)
    kind: Kind = "graph"
    if first is not None and not first.is_floating_point():
        kind = "sequence"
    elif first is not None and first.dim() == 4:
        kind = "image"
    if kind == "image" and first is not None:
        return explain_pixels(model, recorded, first[0])
    return Explanation(recorded, node_names([], recorded.layers[0].graph.num_sources, kind), kind)


def _of_text(
    model: nn.Module, inputs: Mapping[str, Any], recording: Mapping[str, Any], tokenizer: Any
) -> Explanation:
    arguments = arguments_of_text(model, inputs)
    with (
        torch.no_grad(),
        record(model, **recording) as recorded,
        decoder_inputs(model, arguments) as decoder_ids,
    ):
        out = model(**arguments)
    ids = arguments["input_ids"][0]
    is_source = is_token(arguments, "attention_mask", len(ids))
    tokens = inputs.tokens() if getattr(inputs, "is_fast", False) else None  # type: ignore[attr-defined]
    labels = token_labels(ids, is_source, tokenizer, tokens)
    kind: Kind = "pair of sequences" if decoder_ids else "sequence"
    is_target, target_labels = is_source, []
    if decoder_ids:
        is_target = is_token(arguments, "decoder_attention_mask", len(decoder_ids[0]))
        target_labels = token_labels(decoder_ids[0], is_target, tokenizer)
    for number, layer in enumerate(recorded.layers):
        of_decoder = bool(decoder_ids) and (layer.is_cross or "decoder" in layer.module)
        targets = is_target if of_decoder else is_source
        sources = is_source if layer.is_cross else targets
        recorded.layers[number] = without_padding(layer, targets, sources)
    return Explanation(recorded, labels, kind, None, _answer(model, out), target_labels)


def _answer(model: nn.Module, out: Any) -> str:
    """Return the class that a classifier of transformers predicts for a text."""
    logits, names = getattr(out, "logits", None), getattr(model, "config", None)
    names = getattr(names, "id2label", None)
    if not isinstance(logits, Tensor) or logits.dim() != 2 or names is None or len(names) < 2:
        return ""
    probability, label = logits[0].float().softmax(-1).max(-1)
    return f"label {names[int(label)]}, probability {float(probability):.3f}"


def explain_pixels(
    model: nn.Module, recorded: Recorded, image: Tensor, answer: str = ""
) -> Explanation:
    """Return the explanation of an image ``[C, H, W]``, with the coordinates of its patches."""
    count = recorded.layers[0].graph.num_sources
    grid = grid_of(model) or (math.isqrt(count), math.isqrt(count))
    if count - math.prod(grid) not in (0, 1):
        names = node_names([], count, "graph")
        return Explanation(recorded, names, "image", None, answer, details={"image": image})
    class_token = count > math.prod(grid)
    labels = patch_labels(*grid, class_token=class_token)
    positions = grid_positions(*grid, class_token=class_token)
    details = {"image": image, "patches": grid}
    return Explanation(recorded, labels, "image", positions, answer, details=details)


def grid_of(model: nn.Module) -> tuple[int, int] | None:
    """Return the rows and columns of the patches that an image model embeds; None without them."""
    grids = (module.grid for module in model.modules() if isinstance(module, PatchEmbedding))
    return next(grids, None)


def node_names(labels: Sequence[str], count: int, kind: Kind) -> list[str]:
    """Return a name for each node of a layer: the labels, or numbers if they are not as many."""
    if len(labels) == count:
        return list(labels)
    if count == 1 and kind in ("graph", "molecule"):
        return [f"whole {kind}"]
    labels = labels if len(labels) < count else []
    return [*labels, *map(str, range(len(labels), count))]


def patch_labels(rows: int, columns: int, *, class_token: bool = False) -> list[str]:
    """Return the names of the patches of an image, in raster order."""
    names = [f"row {n // columns + 1}, column {n % columns + 1}" for n in range(rows * columns)]
    if rows == 1:
        names = [f"patch {column + 1}" for column in range(columns)]
    return ["class token", *names] if class_token else names


def grid_positions(rows: int, columns: int, *, class_token: bool = False) -> Tensor:
    """Return coordinates ``[N, 2]`` of image patches, and of a class token before them."""
    index = torch.arange(rows * columns)
    patches = torch.stack([index % columns, -(index // columns)], dim=1).float()
    return torch.cat([torch.tensor([[-1.0, 1.0]]), patches]) if class_token else patches
