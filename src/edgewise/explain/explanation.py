"""Explanation of one prediction: recorded weights, and names and positions of the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from edgewise.digits import rounded
from edgewise.errors import counted
from edgewise.explain.losses import warn_if_unused
from edgewise.explain.module_names import model_of, naming_the_run
from edgewise.explain.record import MAX_EDGES, LayerRecord, Recorded, record
from edgewise.inference.images import OnImages
from edgewise.inference.molecules import HiddenAtoms, MoleculeProperties, PenalisedLogP
from edgewise.inference.nodes import LinkSuggestions, OnNodes
from edgewise.inference.recommendations import Recommendations
from edgewise.inference.series import Forecasts
from edgewise.inference.text import Continuations, OnTexts, Translations
from edgewise.interception import without_interception
from edgewise.layers import PatchEmbedding

Kind = Literal["sequence", "pair of sequences", "graph", "molecule", "image"]
FEW_EDGES = 100_000
"""Maximum number of recorded edges around a node if the graph has more than ``MAX_EDGES`` edges."""


@dataclass(eq=False)
class Explanation:
    """Recorded weights of one prediction (the answer), and labels for a page or figure.

    Attributes:
        recorded: weights of each layer.
        labels: names of the nodes: tokens, atoms, patches or node ids. In a pair of sequences, the
            tokens of the source.
        kind: kind of the input.
        positions: coordinates ``[N, 2]`` of the nodes, or ``None``.
        answer: prediction as text; empty for a model that is not part of a run.
        target_labels: in a pair of sequences, the tokens of the target.
        details: further objects by name: ``"image"``, the input ``[C, H, W]``; ``"patches"``, the
            number of patches of the image, which are the last nodes; ``"smiles"``; ``"node"``, the
            index of the node that is explained.
    """

    recorded: Recorded
    labels: list[str]
    kind: Kind
    positions: Tensor | None = None
    answer: str = ""
    target_labels: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def labels_of(self, layer: LayerRecord) -> tuple[list[str], list[str]]:
        """Return the names of the targets and of the sources of a layer.

        Nodes that the model adds, such as a class token, are named by their number, and the only
        target of a readout is called "whole graph" or "whole molecule".
        """
        targets, sources = layer.graph.num_targets, layer.graph.num_sources
        target = source = self.labels
        if self.kind == "pair of sequences" and "decoder" in layer.module:
            target = self.target_labels
            source = self.labels if "cross" in layer.module else self.target_labels
        return _named(target, targets, self.kind), _named(source, sources, self.kind)

    def positions_of(self, layer: LayerRecord) -> Tensor | None:
        """Return the coordinates of the target nodes of a layer, or ``None`` if unknown."""
        count = layer.graph.num_targets
        if self.positions is not None and len(self.positions) == count:
            return self.positions
        if self.kind == "image":
            return grid_positions(count)
        own = layer.graph.positions()
        return own if own is not None and len(own) == count else None

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
    **recording: Any,
) -> Explanation:
    """Predict on one input and record the attention weights of all layers.

    Args:
        model: a run of :func:`edgewise.load`, or a model.
        inputs: one input of the run, such as a sentence; for a model, the arguments of its call as
            a tuple or dict.
        labels: names of the nodes; for a run, they are found by default.
        positions: coordinates ``[N, 2]`` of the nodes.
        kind: kind of the input, such as ``"graph"``, to override the detected kind.
        recording: further arguments of :func:`edgewise.explain.record`.

    Raises:
        ArgumentError: the input is invalid, or the model computes no attention for it.

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
        found = _of_model(model, inputs, recording)
    else:
        model_of(model)
        found = _of_run(model, inputs, recording)
    if labels is not None:
        found.labels = list(map(str, labels))
    if positions is not None:
        found.positions = positions
    if kind is not None:
        found.kind = kind
    return found


def _of_model(model: nn.Module, inputs: Any, recording: Mapping[str, Any]) -> Explanation:
    args, named = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    args = args if isinstance(args, tuple) else (args,)
    with torch.no_grad(), record(model, **recording) as recorded:
        model(*args, **named)
    first = next((x for x in (*args, *named.values()) if isinstance(x, Tensor)), None)
    kind: Kind = "graph"
    if first is not None and not first.is_floating_point():
        kind = "sequence"
    elif first is not None and first.dim() == 4:
        kind = "image"
    if kind == "image" and first is not None:
        return _of_pixels(model, recorded, first[0])
    return Explanation(recorded, _named([], recorded.layers[0].graph.num_sources, kind), kind)


def _of_pixels(
    model: nn.Module, recorded: Recorded, image: Tensor, answer: str = ""
) -> Explanation:
    """Return the explanation of an image, with the coordinates of its patches.

    Args:
        model: image model.
        recorded: weights of each layer. The first layer determines the number of patches.
        image: the input, ``[C, H, W]``.
        answer: prediction as text.
    """
    count = recorded.layers[0].graph.num_sources
    grids = (one.grid for one in model.modules() if isinstance(one, PatchEmbedding))
    rows, columns = next(grids, (math.isqrt(count), math.isqrt(count)))
    if count - rows * columns not in (0, 1):
        return Explanation(
            recorded, _named([], count, "graph"), "image", None, answer, details={"image": image}
        )
    labels = patch_labels(rows, columns)
    if count > len(labels):
        labels = ["class token", *labels]
    positions = grid_positions(count, columns)
    details = {"image": image, "patches": rows * columns}
    return Explanation(recorded, labels, "image", positions, answer, details=details)


def _of_run(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    warn_if_unused(run.model)
    predictor = run.predictor
    explain = next((one for kind, one in KINDS.items() if isinstance(predictor, kind)), _of_nodes)
    value = predictor.given(value)
    predictor.prepare(value)  # This raises an error if the input is invalid.
    with (
        torch.no_grad(),
        naming_the_run(run, "a run whose model computes attention over its inputs"),
    ):
        return explain(run, value, recording)


def _of_text(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a prediction of a run on a text.

    Args:
        run: run whose model takes the tokens as an argument.
        value: the text.
        recording: arguments of :func:`edgewise.explain.record`.
    """
    from edgewise.layers import Tokens

    with record(run.model, **recording) as recorded, _arguments(run.model) as calls:
        answer = _answer(run, value)
    tokens = next(x for call in calls for x in call if isinstance(x, Tokens))
    return Explanation(recorded, _tokens(run, tokens.ids.flatten()), "sequence", answer=answer)


def _of_beginning(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    ids = run.predictor.prepare(value)[-run.recipe.data.context :]
    with record(run.model, **recording) as recorded:
        run.model.trunk(ids[None])
    answer = _answer(run, value, max_new_tokens=20, temperature=0)
    return Explanation(recorded, _tokens(run, ids), "sequence", answer=answer)


def _of_translation(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a translation by the weights of encoder, decoder and cross-attention.

    Args:
        run: run of a translation model.
        value: the source text.
        recording: arguments of :func:`edgewise.explain.record`.
    """
    from edgewise.data.text.packed_texts import PackedTexts
    from edgewise.data.text.parallel import Pairs

    ids, answer = run.predictor.prepare(value), _answer(run, value)
    source = PackedTexts(ids, torch.tensor([len(ids)]))
    pairs = Pairs.of_sources(run.predictor.tokenizer, source, [answer])
    read, written = pairs.take(torch.tensor([0])).inputs
    with record(run.model, **recording) as recorded:
        run.model(read, written)
    labels, targets = _tokens(run, ids), _tokens(run, written.ids)
    return Explanation(recorded, labels, "pair of sequences", answer=answer, target_labels=targets)


def _of_molecule(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    from edgewise.inference.molecules import read_smiles

    with record(run.model, **recording) as recorded:
        answer = _answer(run, value)
    smiles = run.predictor.show(value)
    # The predictor may use only a part of a salt.
    example = run.predictor.prepare(value)
    molecule = example.molecule if hasattr(example, "molecule") else read_smiles(smiles)
    return Explanation(
        recorded,
        atom_labels(molecule),
        "molecule",
        _atom_positions(molecule),
        answer,
        details={"smiles": smiles},
    )


def _of_image(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    with record(run.model, **recording) as recorded:
        answer = _answer(run, value)
    return _of_pixels(run.model, recorded, run.predictor.prepare(value), answer)


def _of_nodes(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Explain a prediction of a model of graphs, series or interactions.

    Some predictors compute the embeddings of all nodes in ``set_up``, so ``set_up`` is called again
    while recording.

    Args:
        run: the run.
        value: the input.
        recording: arguments of :func:`edgewise.explain.record`.
    """
    predictor = run.predictor
    options = {"top": 3, "evidence": 0} if "evidence" in predictor.options() else {}
    labels, details = _nodes_of(predictor, value)
    if "node" in details and not {"targets", "max_edges"} & recording.keys():
        recording = {**recording, "targets": _neighbourhood(run, details["node"])}
    with record(run.model, **recording) as recorded:
        predictor.set_up()
        # For a node of one graph, set_up calls all layers. The steps of LightGCN's low-pass filter
        # are not layers, so they are not recorded.
        with without_interception() if "node" in details else nullcontext():
            answer = _answer(run, value, **options)
    kind: Kind = "sequence" if isinstance(predictor, Forecasts) else "graph"
    names = _named(labels, recorded.layers[0].graph.num_sources, kind)
    return Explanation(recorded, names, kind, answer=answer, details=details)


def _nodes_of(predictor: Any, value: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the nodes, and the explained node.

    Args:
        predictor: predictor of a run on graphs, series or interactions.
        value: the input.

    Returns:
        The names; and a dict with the index of the explained node as ``"node"``, which is empty if
        the prediction is not about one node.
    """
    if isinstance(predictor, Forecasts):
        return steps_of(predictor.prepare(value), predictor.length), {}
    if isinstance(predictor, Recommendations):
        labels = [*predictor.users.ids, *predictor.items.ids]
        return list(map(str, labels)), {"node": predictor.users.number(value)}
    if isinstance(predictor, OnNodes | LinkSuggestions):
        return list(map(str, predictor.nodes.ids)), {"node": predictor.nodes.number(value)}
    example = predictor.prepare(value)
    return [f"node {node}" for node in range(len(getattr(example, "x", ())))], {}


def _neighbourhood(run: Any, node: int) -> Tensor | None:
    """Return the indices of the target nodes whose weights are recorded to explain a node.

    In a graph with too many edges to record, these are the nodes nearest to the explained node.

    Args:
        run: run on one graph.
        node: index of the explained node.

    Returns:
        ``None`` in a smaller graph, to record all targets.
    """
    from edgewise.explain.influence import outputs_of_graph

    graph = outputs_of_graph(run)[1]
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


def steps_of(series: Any, count: int) -> list[str]:
    """Return names of the last time steps of a series: dates, or numbers from the end.

    Args:
        series: the series.
        count: number of steps.
    """
    if series.step:
        return [str(series.date(step - count + 1)) for step in range(count)]
    return [f"{counted(count - 1 - step, 'step')} before the end" for step in range(count)]


KINDS: dict[type, Callable[[Any, Any, Mapping[str, Any]], Explanation]] = {
    Continuations: _of_beginning,
    Translations: _of_translation,
    OnTexts: _of_text,
    MoleculeProperties: _of_molecule,
    PenalisedLogP: _of_molecule,
    HiddenAtoms: _of_molecule,
    OnImages: _of_image,
}
"""Functions that explain a prediction, by class of the predictor; the default is ``_of_nodes``."""


ORDERED = (OnTexts, OnImages, Forecasts)
"""Classes of predictors whose nodes are tokens, patches or time steps."""


def has_order(run: Any) -> bool:
    """Return whether the nodes of a run have an order, which gives distances between them."""
    return isinstance(run.predictor, ORDERED)


@contextmanager
def _arguments(model: nn.Module) -> Iterator[list[tuple[Any, ...]]]:
    """Collect the positional arguments of all calls of a model within the ``with`` block."""
    calls: list[tuple[Any, ...]] = []
    handle = model.register_forward_pre_hook(lambda _, args: calls.append(args))
    try:
        yield calls
    finally:
        handle.remove()


def _answer(run: Any, value: Any, **options: Any) -> str:
    """Return the prediction of a run as text.

    Args:
        run: the run.
        value: the input.
        options: options of the predictor.

    Raises:
        ArgumentError: the input is invalid.
    """
    predictor = run.predictor
    (answer,) = predictor.answer([predictor.prepare(predictor.given(value))], **options)
    if predictor.text_key in answer:
        return str(answer[predictor.text_key])
    shown = [
        f"{name} {_written(part)}" for name, part in answer.items() if name not in ("input", "unit")
    ]
    return " ".join([", ".join(shown), *([answer["unit"]] if answer.get("unit") else [])])


def _written(part: Any) -> str:
    if isinstance(part, float):
        return rounded(part)
    if isinstance(part, Mapping):
        return " ".join(_written(value) for value in part.values())
    if isinstance(part, (list, tuple)):
        return "; ".join(map(_written, part))
    return str(part)


def _tokens(run: Any, ids: Tensor) -> list[str]:
    tokenizer = run.predictor.tokenizer
    found = [tokenizer.id_to_token(number) or str(number) for number in ids.tolist()]
    shown = [token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n") for token in found]
    return ["␣" if token == " " else token for token in shown]


def _atom_positions(molecule: Any) -> Tensor:
    from rdkit.Chem import rdDepictor

    rdDepictor.Compute2DCoords(molecule)
    conformer = molecule.GetConformer()
    places = [list(conformer.GetAtomPosition(i))[:2] for i in range(molecule.GetNumAtoms())]
    return torch.tensor(places)


def _named(labels: Sequence[str], count: int, kind: Kind) -> list[str]:
    """Return a name for each node of a layer.

    Nodes without a label are named by their number. If there are more labels than nodes, all nodes
    are named by their number. The only target of a readout is called "whole graph" or "whole
    molecule".

    Args:
        labels: names of the nodes of the input.
        count: number of nodes of the layer.
        kind: kind of the input.
    """
    if len(labels) == count:
        return list(labels)
    side = math.isqrt(count)
    if kind == "image" and side and count - side * side in (0, 1):
        patches = patch_labels(side, side)
        return ["class token", *patches] if count > len(patches) else patches
    if count == 1 and kind in ("graph", "molecule"):
        return [f"whole {kind}"]
    known = labels if len(labels) < count else []
    return [*known, *(f"{i + 1}" for i in range(len(known), count))]


def atom_labels(molecule: Any) -> list[str]:
    """Return the names of the atoms of a molecule of RDKit, numbered from 1, such as C1."""
    return [f"{atom.GetSymbol()}{atom.GetIdx() + 1}" for atom in molecule.GetAtoms()]


def patch_labels(rows: int, columns: int) -> list[str]:
    """Return the names of the patches of an image, in raster order."""
    if rows == 1:
        return [f"patch {column + 1}" for column in range(columns)]
    return [f"row {n // columns + 1}, column {n % columns + 1}" for n in range(rows * columns)]


def grid_positions(count: int, columns: int | None = None) -> Tensor | None:
    """Return the coordinates of image patches in a grid, and of a class token if there is one.

    Args:
        count: number N of nodes: all patches, or a class token and all patches.
        columns: number of columns of the grid; by default, the grid is a square.

    Returns:
        ``[N, 2]``, or ``None`` if neither N nor N - 1 patches fill the grid.
    """
    side = math.isqrt(count)
    rows, columns = (side, side) if columns is None else (count // columns, columns)
    if not columns or count - rows * columns not in (0, 1):
        return None
    index = torch.arange(rows * columns)
    patches = torch.stack([index % columns, -(index // columns)], dim=1).float()
    if count == rows * columns:
        return patches
    return torch.cat([torch.tensor([[-1.0, 1.0]]), patches])
