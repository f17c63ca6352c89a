"""Self-contained HTML page of an explanation: recorded weights, drawn in a browser.

The data of the page are a JSON header and integer arrays, compressed with zlib and written in
base 85. An array is stored as byte planes, the lowest bytes of all entries first. The edges of a
graph are sorted by target, then by source. The page stores the differences of consecutive
in-degrees, the difference between each target and its first source, and the gaps between further
sources. A column of weights is the square root of each weight, quantised to 16 bits, or to 5 to 8
bits if there are many.
"""

from __future__ import annotations

import json
import math
import warnings
import zlib
from base64 import b85encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgewise._utils.errors import ArgumentError, WriteError
from edgewise._utils.writing import write_file
from edgewise.explain.layout import force_layout
from edgewise.explain.page_reasons import reasons_data
from edgewise.explain.rollout import MAX_DENSE

if TYPE_CHECKING:
    from edgewise.explain.explanation import Explanation

__all__ = ["html_page", "notebook_frame", "write_page"]

MAX_EDGES = 100_000
"""Maximum number of edges of a graph in a page; the edges with the largest weights are kept."""
MAX_VALUES = 400_000
"""Maximum number of weights of single heads in a page. If there are more, some heads are
omitted."""
FEWEST_HEADS = 4
BITS = (16, 8, 7, 6, 5)
"""Numbers of bits per weight to try; the first number with which the page is below 1 MB is used."""
MAX_BYTES = 710_000
"""Maximum compressed size of the data, so that the page is at most 1 MB."""
MAX_NODES_OF_LAYOUT = 100_000
MAX_NODES = 50_000
"""Maximum number of nodes in a page that does not have all edges of the graph."""
THUMBNAIL = 32
MAX_IMAGE = 256
MAX_PRODUCTS, MAX_ENTRIES = 2.5e10, 3e6
"""Maximum number of multiplications for a dense rollout, and of entries for a sparse rollout."""


def write_page(
    explanation: Explanation, path: str | Path, *, heads: Sequence[tuple[str, int]] | None = None
) -> Path:
    """Write an explanation as one HTML file, which needs no network and no server.

    For a large model, the page has the strongest 100,000 edges, the weights of at least four
    ``heads``, pairs (layer name, head number), by default those with the lowest entropy, and an
    overview of all heads, and states what is omitted.

    Raises:
        ArgumentError: a head is not recorded, or there are no layers.
        WriteError: the file cannot be written.

    Example:
        >>> explain.write_page(explanation, "page.html")  # doctest: +SKIP
    """
    path, page = Path(path), html_page(explanation, heads=heads)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, lambda file: file.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise WriteError(path, error) from error
    return path


def html_page(explanation: Explanation, *, heads: Sequence[tuple[str, int]] | None = None) -> str:
    """Return the page of :func:`write_page` as text."""
    template = files("edgewise.explain").joinpath("page", "page.html").read_text(encoding="utf-8")
    data = _Page(explanation, heads).data()
    title = escape(_title(explanation))
    return template.replace("%TITLE%", title, 1).replace("%DATA%", data, 1)


def notebook_frame(explanation: Explanation, height: int = 640) -> str:
    """Return the page as the HTML of an iframe, for notebooks."""
    page = escape(html_page(explanation), quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" style="{style}"></iframe>'
    )


def _title(explanation: Explanation) -> str:
    article = "an" if explanation.kind == "image" else "a"
    weights = "Attention" if _attends(explanation) else "Weights"
    return f"{weights} over {article} {explanation.kind}"


def _attends(explanation: Explanation) -> bool:
    """Return whether a layer computes attention; sums and means have weights only."""
    return any(layer.kind != "aggregation" for layer in explanation.recorded)


@dataclass
class _Layer:
    """Attention weights ``[E, H]`` of a layer, and the index of its edges in ``_Page.groups``."""

    name: str
    number: int
    weights: NDArray[np.float32]
    heads: list[int]
    group: int
    entropy: list[float] = field(default_factory=list)


@dataclass
class _Edges:
    """Edges of one or several layers, sorted by target, then by source: their indices ``order`` in
    the recorded graph, ``rows`` and ``columns`` in ``_Page.sides``, and ``kept`` if not all.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    num_sources: int
    num_targets: int
    order: NDArray[np.int64]
    rows: int
    columns: int
    kept: NDArray[np.int64] | None = None
    index: int = -1
    note: str = ""

    @property
    def count(self) -> int:
        return len(self.source)

    def has_nodes_of(self, other: _Edges) -> bool:
        """Return whether another set of edges has the same nodes: equal numbers and labels."""
        names = "num_sources", "num_targets", "rows", "columns"
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def equals(self, other: _Edges) -> bool:
        """Return whether another set has the same edges in the same order, and equal labels."""
        arrays = "source", "target", "order"
        return self.has_nodes_of(other) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays
        )


class _Arrays:
    """Integer arrays, stored as byte planes: the lowest bytes of all entries come first."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = self.packed = 0

    def add(self, values: NDArray[Any]) -> list[int]:
        """Add an array of unsigned integers; return its offset, length and bytes per entry."""
        values = np.ascontiguousarray(values)
        width = values.dtype.itemsize
        planes = values.view(np.uint8).reshape(-1, width).T.tobytes()
        location = [self.size, len(values), width]
        self.parts.append(planes)
        self.size += len(planes)
        self.packed += len(zlib.compress(planes, 1))
        return location

    def add_signed(self, values: NDArray[np.int64]) -> list[int]:
        """Add signed integers, encoded as unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3."""
        return self.add(((values << 1) ^ (values >> 63)).astype("<u4"))


class _Page:
    """Builder of the data of a page, which are a header and arrays."""

    def __init__(self, explanation: Explanation, heads: Sequence[tuple[str, int]] | None) -> None:
        self.explanation, self.wanted = explanation, heads
        self.focus = explanation.details.get("node")
        self.nodes: NDArray[np.int64] | None = None
        self.arrays = _Arrays()
        self.notes: list[str] = []
        self.note_of_rollout = ""
        self.sides: list[list[str]] = []
        self.groups: list[_Edges] = []
        self.is_part = False
        self.layers = self._read_layers()
        self.graphs: list[dict[str, Any]] = []
        self.columns: list[dict[str, Any]] = []

    def data(self) -> str:
        """Return the data of the page: header and arrays, compressed with zlib, in base 85."""
        explanation = self.explanation
        for layer in self.layers:
            layer.entropy = _entropy(self.groups[layer.group], layer.weights)
        full = self._heads_in_full()
        self._select_edges(full, MAX_EDGES)
        self._drop_nodes(full)
        points = self._positions()
        if explanation.kind == "molecule":
            self._note("Atoms are numbered from 1, in the order of the SMILES.")
        if "no_reasons" in explanation.details:
            self._note(f"There are no reasons: {explanation.details['no_reasons']}.")
        if explanation.kind == "pair of sequences":
            self._note("Each target token attends in order to predict the next token.")
        header = {
            "title": _title(explanation),
            "answer": self._answer(),
            "kind": explanation.kind,
            "attends": _attends(explanation),
            "sides": self.sides,
            "positions": points and {key: points[key] for key in ("x", "y", "aspect")},
            "image": points and self._image(points["unit"]),
            "bonds": self._bonds(),
            "orders": explanation.details.get("orders"),
            "classes": self._classes(),
            "input": explanation.details.get("input", ""),
            "reasons": reasons_data(explanation),
            "focus": self.focus,
            "first": self._first(full),
            "graphs": self.graphs,
            "columns": self.columns,
            "layers": [self._overview(layer, points) for layer in self.layers],
            "notes": self.notes,
        }
        labels = len(zlib.compress(json.dumps(header, ensure_ascii=False).encode(), 1))
        self._add_columns(full, MAX_BYTES - labels)
        header["rolloutNote"] = self.note_of_rollout
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        packed = len(text).to_bytes(4, "little") + text + b"".join(self.arrays.parts)
        # A text without "<" cannot end the script element that holds it.
        return b85encode(zlib.compress(packed, 6)).decode().replace("<", ",")

    def _answer(self) -> str:
        """Return the answer as text; that of a molecule without an input begins with its SMILES."""
        answer, details = self.explanation.answer, self.explanation.details
        if "smiles" not in details or "input" in details:
            return answer
        return f"{details['smiles']}: {answer}" if answer else str(details["smiles"])

    def _classes(self) -> dict[str, Any] | None:
        """Return the names of the classes, and the classes of the nodes in the page."""
        if "classes" not in self.explanation.details:
            return None
        names, numbers = self.explanation.details["classes"]
        chosen = np.array(numbers) if self.nodes is None else np.array(numbers)[self.nodes]
        return {"names": names, "of": self.arrays.add(chosen.astype("<u2"))}

    def _read_layers(self) -> list[_Layer]:
        layers = []
        recorded = self.explanation.recorded
        if not recorded.layers:
            raise ArgumentError(
                "explanation",
                expected="recorded layers",
                got="none",
                remedy="record a model that computes attention",
            )
        group_of_key: dict[Any, int] = {}
        for record in recorded:
            graph, edges = record.graph, record.edges
            rows, columns = map(self._side, self.explanation.labels_of(record))
            chosen = None if edges is None else edges.cpu().numpy().tobytes()
            key = (id(graph), chosen, rows, columns)
            if key not in group_of_key:
                edge_index = graph.edge_index if edges is None else graph.edge_index[:, edges]
                group_of_key[key] = self._group(edge_index, graph, rows, columns)
            group = self.groups[group_of_key[key]]
            weights = record.weights.detach().float().cpu()
            if weights.dim() > 2:
                members = weights.shape[:-2].numel()
                weights = weights.flatten(0, -3)[0]
                if members > 1:
                    self._note(f"The first of {members} members of the batch is shown.")
            missing = graph.num_edges - group.count
            if missing > 0 and edges is not None:
                self.is_part = True
                self._note(
                    f"{record.name}: {group.count:,} of {graph.num_edges:,} edges were recorded."
                )
            sorted_weights = weights.numpy()[group.order]
            if record.kind == "aggregation" and missing == 0:
                sums = _sums_of_targets(group, sorted_weights)
                if not np.allclose(sums, 1.0, atol=1e-3):
                    self._note("The weights of a target do not sum to 1: a sum, not attention.")
            heads = [int(head) for head in record.heads]
            number = recorded.number(record)
            layers.append(_Layer(record.name, number, sorted_weights, heads, group_of_key[key]))
        return layers

    def _group(self, edge_index: Tensor, graph: Any, rows: int, columns: int) -> int:
        """Return the index of a set of edges in ``groups``; add the set if it is new."""
        source, target = edge_index.cpu().numpy()
        order = np.lexsort((source, target))
        sizes = graph.num_sources, graph.num_targets
        edges = _Edges(source[order], target[order], *sizes, order, rows, columns)
        for index, other in enumerate(self.groups):
            if edges.equals(other):
                return index
        self.groups.append(edges)
        return len(self.groups) - 1

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _side(self, labels: list[str]) -> int:
        """Return the index in ``sides`` of a list of node labels; add the list if it is new."""
        if labels not in self.sides:
            self.sides.append(labels)
        return self.sides.index(labels)

    def _heads_in_full(self) -> list[tuple[int, int]]:
        """Return the heads whose weights are in the page, as pairs (layer index, head index)."""
        every = [(i, h) for i, layer in enumerate(self.layers) for h in range(len(layer.heads))]
        size = [min(self.groups[self.layers[i].group].count, MAX_EDGES) for i, _ in every]
        if sum(size) <= MAX_VALUES and self.wanted is None:
            return every
        if self.wanted is not None:
            return [self._position(name, head) for name, head in self.wanted]
        entropy = [self.layers[i].entropy[h] for i, h in every]
        chosen: list[tuple[int, int]] = []
        total = 0
        for k in sorted(range(len(every)), key=entropy.__getitem__):
            if len(chosen) >= FEWEST_HEADS and total + size[k] > MAX_VALUES:
                break
            chosen.append(every[k])
            total += size[k]
        self._note(
            f"{len(chosen)} of {len(every)} heads are in full, those with the lowest entropy. The "
            "other heads are in the overview only."
        )
        return sorted(chosen)

    def _first(self, full: list[tuple[int, int]]) -> int | None:
        """Return the layer that the page shows first: the last cross-attention of a translation."""
        if self.explanation.kind != "pair of sequences":
            return None
        recorded = self.explanation.recorded.layers
        return max((i for i, _ in full if recorded[i].is_cross), default=None)

    def _position(self, name: str, head: int) -> tuple[int, int]:
        for index, layer in enumerate(self.layers):
            if layer.name == name and head in layer.heads:
                return index, layer.heads.index(head)
        raise ArgumentError(
            "heads",
            expected="recorded layers and heads: "
            + ", ".join(f"{layer.name} {layer.heads}" for layer in self.layers[:12]),
            got=f"({name!r}, {head})",
            remedy="choose recorded layers and heads",
        )

    def _select_edges(self, full: list[tuple[int, int]], most: int) -> None:
        """Select at most ``most`` edges with the largest weights in each graph."""
        for index, group in enumerate(self.groups):
            if group.count <= most:
                continue
            heads = [(self.layers[i], h) for i, h in full if self.layers[i].group == index]
            head_weights = [layer.weights[:, h] for layer, h in heads]
            if not head_weights:
                continue
            strength = np.abs(np.stack(head_weights)).max(0)
            if self.focus is not None:  # The edges of the explained node are always in the page.
                of_focus = (group.source == self.focus) | (group.target == self.focus)
                strength[of_focus] = 2 * strength.max()
            group.kept = _strongest(group.target, strength, most)
            total = sum(float(np.abs(weights).sum()) for weights in head_weights)
            selected = sum(float(np.abs(weights[group.kept]).sum()) for weights in head_weights)
            fraction = selected / max(total, 1e-30)
            group.note = (
                f"The strongest {len(group.kept):,} of {group.count:,} edges are in the page; they "
                f"hold {fraction:.1%} of the weight."
            )

    def _drop_nodes(self, full: list[tuple[int, int]]) -> None:
        """Remove nodes without an edge in the page from graphs that are too large to show."""
        first = self.groups[0]
        count = first.num_sources
        is_partial = any(group.kept is not None for group in self.groups) or self.is_part
        alike = all(group.num_targets == group.num_sources == count for group in self.groups)
        alike = alike and all(group.has_nodes_of(first) for group in self.groups)
        if self.explanation.kind == "graph" and is_partial and alike:
            nodes = self._touched(count)
            if len(nodes) > MAX_NODES:
                self._select_edges(full, MAX_NODES // 2)
                nodes = self._touched(count)
            if len(nodes) < count:
                self._keep_nodes(nodes, count)
        for group in self.groups:
            if group.note:
                self._note(group.note)
        if self.nodes is not None:
            self._note(
                f"The {len(self.nodes):,} of {count:,} nodes with such edges are in the page."
            )

    def _touched(self, count: int) -> NDArray[np.int64]:
        """Return the indices of nodes with an edge in the page, and of the explained node."""
        touched = np.zeros(count, dtype=bool)
        for group in self.groups:
            edges = slice(None) if group.kept is None else group.kept
            touched[group.source[edges]] = touched[group.target[edges]] = True
        if self.focus is not None:
            touched[self.focus] = True
        return np.flatnonzero(touched)

    def _keep_nodes(self, nodes: NDArray[np.int64], count: int) -> None:
        """Keep only these sorted nodes, renumber them, and keep only the selected edges."""
        new_index = np.full(count, -1)
        new_index[nodes] = np.arange(len(nodes))
        for index, group in enumerate(self.groups):
            if group.kept is not None:
                for layer in self.layers:
                    if layer.group == index:
                        layer.weights = layer.weights[group.kept]
                group.source, group.target = group.source[group.kept], group.target[group.kept]
                group.order, group.kept = group.order[group.kept], None
            group.source, group.target = new_index[group.source], new_index[group.target]
            group.num_sources = group.num_targets = len(nodes)
        for side in {group.rows for group in self.groups}:
            self.sides[side] = [self.sides[side][node] for node in nodes]
        self.focus = None if self.focus is None else int(new_index[self.focus])
        self.nodes = nodes

    def _add_columns(self, full: list[tuple[int, int]], most: int) -> None:
        """Add the weights of some heads, and the attention rollout, within ``most`` bytes."""
        for index in sorted({self.layers[i].group for i, _ in full}):
            self._add_graph(self.groups[index])
        count = sum(self._kept(self.groups[self.layers[i].group]) for i, _ in full)
        room = 8 * (most - self.arrays.packed) / max(count, 1)
        steps = 2 ** next((bits for bits in BITS if bits <= room), BITS[-1]) - 1
        for i, h in full:
            layer = self.layers[i]
            self._add_column(i, layer.heads[h], layer.group, layer.weights[:, h], steps)
        self._add_rollout(steps, most)
        error = max((c["range"][1] ** 2 / c["steps"] for c in self.columns), default=0.0)
        self._note(f"Weights are rounded: they differ from the exact ones by at most {error:.1g}.")

    def _kept(self, group: _Edges) -> int:
        return group.count if group.kept is None else len(group.kept)

    def _add_graph(self, group: _Edges) -> None:
        source, target = group.source, group.target
        if group.kept is not None:
            source, target = source[group.kept], target[group.kept]
        degrees = np.bincount(target, minlength=group.num_targets)
        first = np.ones(len(target), dtype=bool)
        first[1:] = target[1:] != target[:-1]
        previous = np.where(first, target, np.roll(source, 1))
        offset = int(np.abs(source - target).max(initial=0))
        group.index = len(self.graphs)
        self.graphs.append(
            {
                "targets": group.num_targets,
                "sources": group.num_sources,
                "rows": group.rows,
                "columns": group.columns,
                "banded": _is_banded(offset, group.num_targets),
                "degrees": self.arrays.add_signed(np.diff(degrees, prepend=0)),
                "steps": self.arrays.add_signed(source - previous),
            }
        )

    def _add_column(
        self, layer: int | str, head: int | str, group: int, weights: Any, steps: int
    ) -> None:
        edges = self.groups[group]
        if edges.kept is not None:
            weights = weights[edges.kept]
        roots = np.sign(weights) * np.sqrt(np.abs(weights))
        low, high = min(0.0, float(roots.min(initial=0))), float(roots.max(initial=0))
        scaled = np.rint((roots - low) * (steps / ((high - low) or 1.0)))
        self.columns.append(
            {
                "layer": layer,
                "head": head,
                "graph": edges.index,
                "range": [low, high],
                "steps": steps,
                "place": self.arrays.add(scaled.astype("<u2" if steps > 255 else "u1")),
            }
        )

    def _add_rollout(self, steps: int, most: int) -> None:
        recorded, first = self.explanation.recorded, self.groups[self.layers[0].group]
        alike = [
            record.module
            for record, layer in zip(recorded.layers, self.layers, strict=True)
            if first.has_nodes_of(self.groups[layer.group])
        ]
        count = first.num_targets
        if len(alike) < 2 or first.num_sources != count:
            return
        if self.nodes is not None:
            self._note("There is no rollout, because it needs all nodes.")
            return
        if self._rollout_is_long(count, len(alike)):
            self._note("The rollout is left out, because it would take too long to compute.")
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch warns that sparse products are in beta.
                product = recorded.rollout(alike)
        except ArgumentError as error:
            self._note(f"There is no rollout, because it needs {error.expected}.")
            return
        if len(alike) < len(self.layers):
            self.note_of_rollout = (
                f"The rollout is of the {len(alike)} layers with the nodes of the first layer."
            )
        if product.is_sparse:
            product = product.coalesce()
            target, source = product.indices().cpu().numpy()
            weights = product.values().float().cpu().numpy()
        else:
            matrix = product.flatten(0, -3)[0] if product.dim() > 2 else product
            matrix = matrix.float().cpu()
            columns_per_row = max(1, MAX_EDGES // max(count, 1))
            if columns_per_row < count:
                values, columns = matrix.topk(columns_per_row, dim=1)
                target = np.repeat(np.arange(count), columns_per_row)
                source, weights = columns.flatten().numpy(), values.flatten().numpy()
            else:
                target, source = (indices.numpy() for indices in matrix.nonzero(as_tuple=True))
                weights = matrix.numpy()[target, source]
        edges = _strongest(target, weights, MAX_EDGES)
        target, source, weights = target[edges], source[edges], weights[edges]
        order = np.lexsort((source, target))
        size = len(zlib.compress((source[order] - target[order]).astype("<i4").tobytes(), 1))
        if self.arrays.packed + size + len(source) * math.log2(steps) / 8 > most:
            self._note("The rollout is left out, because the page would be larger than 1 MB.")
            return
        rows = first.rows
        self.groups.append(_Edges(source[order], target[order], count, count, order, rows, rows))
        self._add_graph(self.groups[-1])
        self._add_column("rollout", "mean", len(self.groups) - 1, weights[order], steps)

    def _rollout_is_long(self, count: int, depth: int) -> bool:
        if count <= MAX_DENSE:
            return (depth - 1) * count**3 > MAX_PRODUCTS
        degree = max(group.count for group in self.groups) / count
        offset = max(int(np.abs(group.source - group.target).max()) for group in self.groups)
        return count * min(degree**depth, 2 * offset * depth + 1, count) > MAX_ENTRIES

    def _positions(self) -> dict[str, Any] | None:
        """Return the coordinates of the nodes; if the explanation has none, compute them."""
        explanation = self.explanation
        if explanation.kind in ("sequence", "pair of sequences"):
            return None
        count = self.groups[0].num_targets
        positions = explanation.positions_of(explanation.recorded.layers[0])
        if positions is None:
            positions = explanation.positions
        if positions is None:
            if any(g.num_targets != g.num_sources for g in self.groups):
                return None
            if count > MAX_NODES_OF_LAYOUT:
                self._note(f"No layout is computed for more than {MAX_NODES_OF_LAYOUT:,} nodes.")
                return None
            group = max(self.groups, key=lambda group: group.count)
            edges = slice(None) if group.kept is None else group.kept
            layout = force_layout(group.source[edges], group.target[edges], count)
            positions = torch.from_numpy(layout)
        xy = positions.double().cpu().numpy()
        if self.nodes is not None and len(xy) > self.nodes[-1]:
            xy = xy[self.nodes]
        xy = xy[:count]
        low, high = xy.min(0), xy.max(0)
        if len(xy) < count:  # Nodes that the model adds are placed in a row above the other nodes.
            x_added = np.linspace(low[0], high[0], count - len(xy) + 2)[1:-1]
            above = np.full_like(x_added, high[1] + 0.15 * max(high[1] - low[1], 1.0))
            xy = np.concatenate([xy, np.stack([x_added, above], axis=1)])
            high = xy.max(0)
        span = np.where(high > low, high - low, 1.0)
        unit = (xy - low) / span
        unit[:, high <= low] = 0.5
        codes = np.rint(unit * 4095).astype("<u2")
        return {
            "x": self.arrays.add(codes[:, 0]),
            "y": self.arrays.add(codes[:, 1]),
            "aspect": float(np.clip(span[0] / span[1], 0.125, 8.0)),
            "unit": unit,
        }

    def _image(self, unit: NDArray[np.float64]) -> dict[str, Any] | None:
        """Return the pixels of the input image, if there is one, and the rectangle it covers."""
        image = self.explanation.details.get("image")
        if image is None:
            return None
        pixels = torch.as_tensor(image).detach().float().cpu()
        pixels = pixels[None] if pixels.dim() == 2 else pixels
        step = math.ceil(max(pixels.shape[1:]) / MAX_IMAGE)
        pixels = pixels[:, ::step, ::step]
        low, high = pixels.min(), pixels.max()
        grey = ((pixels - low) / (high - low).clamp(min=1e-9) * 255).round().byte().numpy()
        colours = [grey[min(channel, len(grey) - 1)] for channel in range(3)]
        rgba = np.stack([*colours, np.full_like(colours[0], 255)], axis=-1)
        # Skip the class token, which precedes the patches.
        grid = self.explanation.grid(len(unit))
        positions = unit if grid is None else unit[len(unit) - math.prod(grid) :]
        patch = [_spacing(positions[:, axis]) for axis in range(2)]
        low_corner, high_corner = positions.min(0), positions.max(0)
        extent = [
            side
            for axis in range(2)
            for side in (
                low_corner[axis] - patch[axis] / 2,
                high_corner[axis] + patch[axis] / 2,
            )
        ]
        return {
            "size": [rgba.shape[1], rgba.shape[0]],
            "place": self.arrays.add(rgba.reshape(-1)),
            "extent": extent,
            "patch": patch,
        }

    def _bonds(self) -> list[int] | None:
        """Add the bonds of a molecule to the arrays: all first atoms, then all second atoms."""
        bonds = self.explanation.details.get("bonds")
        return None if bonds is None else self.arrays.add(np.array(bonds, "<u4").T.flatten())

    def _overview(self, layer: _Layer, points: dict[str, Any] | None) -> dict[str, Any]:
        """Return statistics and a small picture of each head of a layer."""
        group = self.groups[layer.group]
        in_plane = points and (
            "image" in self.explanation.details or len(points["unit"]) > THUMBNAIL
        )
        unit = points["unit"] if points and in_plane else None
        pictures, width, height = _thumbnails(group, layer.weights, unit)
        overview: dict[str, Any] = {
            "name": layer.name,
            "number": layer.number,
            "heads": layer.heads,
            "entropy": [round(value, 4) for value in layer.entropy],
            "largest": [round(float(value), 6) for value in layer.weights.max(0, initial=0)],
            "thumbnails": {"width": width, "height": height, "at": self.arrays.add(pictures)},
        }
        if points is None and group.num_targets == group.num_sources:
            distance = np.abs(group.source - group.target).astype(np.float32)
            mean = distance @ layer.weights / np.maximum(layer.weights.sum(0), 1e-30)
            overview["distance"] = [round(float(value), 3) for value in mean]
        return overview


def _strongest(target: NDArray[Any], weights: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Return the sorted indices of the ``most`` strongest edges, first one of each target."""
    if len(weights) <= most:
        return np.arange(len(weights))
    starts = np.flatnonzero(np.diff(target, prepend=-1))
    highest = np.repeat(np.maximum.reduceat(weights, starts), np.diff(starts, append=len(target)))
    score = np.where(weights == highest, weights + weights.max(), weights)
    return np.sort(np.argpartition(score, len(score) - most)[-most:])


def _entropy(group: _Edges, weights: NDArray[np.float32]) -> list[float]:
    """Return the entropy of the weights of each head in nats, averaged over targets.

    The weights of a target are divided by their sum, which is not 1 in a sum over neighbours.
    """
    if not len(weights):
        return [0.0] * weights.shape[-1]
    positive = np.maximum(weights, 1e-30)
    sums = _sums_of_targets(group, positive)
    entropy = np.log(sums) - _sums_of_targets(group, positive * np.log(positive)) / sums
    return [float(value) for value in entropy.mean(0)]


def _sums_of_targets(group: _Edges, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sums ``[T, H]`` of edge values over the sources of each target with a source."""
    starts = np.flatnonzero(np.diff(group.target, prepend=-1))
    return np.add.reduceat(values, starts) if len(starts) else values


def _is_banded(offset: int, count: int) -> bool:
    return count > 64 and offset <= count // 8


def _spacing(coordinates: NDArray[np.float64]) -> float:
    """Return the smallest difference between distinct coordinates on one axis."""
    gaps = np.diff(np.unique(np.round(coordinates, 4)))
    return float(gaps.min()) if len(gaps) else 1.0


def _thumbnails(
    group: _Edges, weights: NDArray[np.float32], unit: NDArray[np.float64] | None
) -> tuple[NDArray[np.uint8], int, int]:
    """Return grey pictures of the weights by target and source, offset or coordinates."""
    offset = group.source - group.target
    most = int(np.abs(offset).max(initial=0))
    if unit is not None:
        width, height = (min(THUMBNAIL, len(np.unique(np.round(unit[:, k], 4)))) for k in (0, 1))
        columns = np.minimum((unit[:, 0] * width).astype(np.int64), width - 1)[group.source]
        rows = np.minimum(((1 - unit[:, 1]) * height).astype(np.int64), height - 1)[group.source]
    elif _is_banded(most, group.num_targets):
        height, width = THUMBNAIL, min(THUMBNAIL, 2 * most + 1)
        rows = group.target * height // group.num_targets
        columns = (offset + most) * width // (2 * most + 1)
    else:
        height, width = min(THUMBNAIL, group.num_targets), min(THUMBNAIL, group.num_sources)
        rows = group.target * height // max(group.num_targets, 1)
        columns = group.source * width // max(group.num_sources, 1)
    cells = torch.from_numpy(rows * width + columns)
    values = torch.from_numpy(np.ascontiguousarray(np.abs(weights)))
    sums = torch.zeros(height * width, weights.shape[1]).index_add_(0, cells, values).T
    shade = (sums / sums.amax(1, keepdim=True).clamp(min=1e-30)).sqrt()
    return (255 * shade).round().byte().flatten().numpy(), width, height
