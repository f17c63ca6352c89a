"""Sketches as graphs, against loops over their strokes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch
from edgewise_examples import data
from edgewise_examples.baselines.sketches import described
from edgewise_examples.data.quickdraw import (
    DIRECTIONS,
    FILES,
    INK,
    NAME,
    PLACE,
    POINTS,
    WAVES,
    Joined,
    inputs,
    packed,
    sketch,
)
from edgewise_examples.data.strokes import SIDE, Stroke

from edgewise.app.files.checksums import SHA256
from edgewise.app.train import Batch
from edgewise.encodings import sinusoidal_positions
from tests.errors import refused
from tests.places import needs

STROKES: list[Stroke] = [([0, 255, 10], [0, 0, 20]), ([7], [8]), ([1, 2, 3, 4], [5, 6, 7, 8])]
STROKE = [0, 0, 0, 1, 2, 2, 2, 2]


def expected(joined: Joined) -> set[tuple[int, int, int]]:
    """``(graph, target, source)`` of each edge, a point at a time."""
    found = set()
    for i, of_i in enumerate(STROKE):
        for j, of_j in enumerate(STROKE):
            apart, same = abs(i - j), of_i == of_j
            is_in = {
                "multi": (
                    same and apart <= 1,
                    same and apart <= 2,
                    i == j or (not same and apart == 1),
                ),
                "two_hop": (same and apart <= 2,) * 3,
                "complete": (True,) * 3,
            }[joined]
            found |= {(g, i, j) for g in range(3) if is_in[g]}
    return found


@pytest.mark.parametrize("joined", ["multi", "two_hop", "complete"])
def test_who_reads_whom_in_each_graph(joined: Joined) -> None:
    one = len(STROKE)
    graphs = packed([STROKES, STROKES[:1], STROKES], joined, order=False)
    x, graph, given = inputs(graphs, torch.tensor([1, 0]), joined)  # the first, then the second
    assert x.shape == (one + 3, PLACE + 2)
    flags = given.get("edge_attr", torch.ones(graph.num_edges, 3))
    target, source = graph.target, graph.source
    inside = target < one
    assert torch.equal(inside, source < one), "no drawing reads another"
    found = {(g, int(target[e]), int(source[e])) for e, g in flags.nonzero().tolist() if inside[e]}
    assert found == expected(joined)
    assert int(inside.sum()) == len({edge[1:] for edge in found})  # each edge once
    assert torch.equal(given["batch"].source, torch.arange(one + 3).roll(3))


def test_a_point_has_its_place_the_pen_and_its_number_where_asked() -> None:
    x, _, _ = sketch(STROKES, "multi", order=False)
    assert x[:, :PLACE].mul(255).add(127.5).round()[[1, 3]].tolist() == [[255, 0], [7, 8]]
    assert x[:, PLACE:].T.tolist() == [[1, 0, 0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0, 1]]
    numbered, _, _ = sketch(STROKES, "multi", order=True)
    waves = sinusoidal_positions(torch.arange(len(STROKE)), WAVES).float()
    assert torch.equal(numbered, torch.cat([x, waves], dim=1))


def test_ink_is_the_length_of_the_lines_by_direction() -> None:
    """A line from left to right has ink of one direction, and the next has a quarter turn."""
    drawings: list[list[Stroke]] = [[([0, 255], [100, 100])], [([100, 100], [0, 255])]]
    x, *_ = inputs(packed(drawings, "strokes", order=False), torch.arange(2), "strokes")
    by_direction = x[::2, :INK].unflatten(1, (DIRECTIONS, -1)).square().sum(-1)
    wanted = torch.zeros(2, DIRECTIONS)
    wanted[0, 0] = wanted[1, DIRECTIONS // 2] = 255 / SIDE
    torch.testing.assert_close(by_direction, wanted)


def test_nodes_are_the_drawing_and_its_strokes() -> None:
    drawings = [STROKES, STROKES[2:], STROKES[:1]]
    graphs = packed(drawings, "strokes", order=False)
    x, graph, given = inputs(graphs, torch.tensor([2, 0, 2]), "strokes")
    assert graph.segments is not None
    assert graph.segments[0].tolist() == [4, 2], "each drawing once, and one node per stroke"
    assert graph.num_edges == 4**2 + 2**2
    targets, sources = given["batch"].edge_index[1], given["batch"].edge_index[0]
    outputs = [sources[targets == output].tolist() for output in range(3)]
    assert outputs == [[4, 5], [0, 1, 2, 3], [4, 5]]
    assert x[:, INK].tolist() == [1, 0, 0, 0, 1, 0]
    ink = x[:, :INK].square()
    torch.testing.assert_close(ink[0], ink[1:4].sum(0))
    lengths = [255 + (245**2 + 20**2) ** 0.5, 0, 3 * 2**0.5]
    torch.testing.assert_close(ink[1:4].sum(1), torch.tensor(lengths) / SIDE)
    torch.testing.assert_close(ink[1], ink[5])


@pytest.mark.parametrize("joined", ["strokes", "complete"])
def test_the_baseline_reads_the_ink_and_the_number_of_strokes(joined: Joined) -> None:
    pytest.importorskip("sklearn")
    graphs = packed([STROKES, STROKES[:1]], joined, order=False)
    x, graph, given = inputs(graphs, torch.arange(2), joined)
    found = described(Batch((x, graph), torch.zeros(2), keywords=given))
    strokes, *_ = inputs(graphs, torch.arange(2), "strokes")
    torch.testing.assert_close(found[:, :INK], strokes[[0, 4], :INK])
    assert found[:, INK].tolist() == [3, 1]


def test_a_long_sketch_is_cut() -> None:
    long = list(range(150))
    x, edges, _ = sketch([(long, long)], "two_hop", order=False)
    assert len(x) == POINTS == int(edges.max()) + 1


def folder(path: Path, lines: list[str]) -> Path:
    raw = path / NAME / "raw"
    raw.mkdir(parents=True)
    (raw / FILES[0]).write_bytes(gzip.compress("\n".join(lines).encode()))
    (raw / FILES[1]).write_text("cat\ndog\n")
    return path


def line(word: str, x: int) -> str:
    return json.dumps({"word": word, "drawing": [[[x, 1], [2, 3]]]})


def test_the_first_of_each_category_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(word, number) for number in range(25) for word in ("dog", "cat")]
    monkeypatch.setenv("EDGEWISE_DATA", str(folder(tmp_path, lines)))
    monkeypatch.delitem(SHA256, NAME)
    splits = data.quickdraw(joined="multi", categories=2).load()
    numbers = {}
    for name in ("train", "val", "test"):
        part = getattr(splits, name)
        batch = part.make(torch.arange(part.count))
        firsts = batch.inputs[0][::2, 0].mul(255).add(127.5).round().int().tolist()
        numbers[name] = sorted(zip(batch.target.tolist(), firsts, strict=True))
    places = {"train": range(15), "val": range(15, 20), "test": range(20, 25)}
    assert numbers == {n: [(c, i) for c in (0, 1) for i in r] for n, r in places.items()}
    with refused("data.categories", expected="at most 2", got="3", remedy="fewer"):
        data.quickdraw(categories=3).load()


def test_each_sketch_to_train_on_is_under_a_map_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those to validate on stay as they are."""
    lines = [
        json.dumps(
            {"word": word, "drawing": [[[n, 90, 30, *[200] * n], [0, 5 * n, 60, *range(n)]]]}
        )
        for n in range(25)
        for word in ("cat", "dog")
    ]
    monkeypatch.setenv("EDGEWISE_DATA", str(folder(tmp_path, lines)))
    monkeypatch.delitem(SHA256, NAME)
    plain, bent = (
        data.quickdraw(joined="multi", categories=2, **options).load()
        for options in ({}, {"warp": 0.2, "flip": True})
    )
    index = torch.cat([torch.randperm(30), torch.tensor([3])])  # a sketch may come twice
    same, kept = (splits.val.make(torch.arange(10)).inputs[0] for splits in (plain, bent))
    assert torch.equal(same, kept)
    x, y = (splits.train.make(index) for splits in (plain, bent))
    assert torch.equal(x.target, y.target)
    sizes = x.inputs[1].segments[0].tolist()
    assert len(set(sizes)) == 15
    x, y = x.inputs[0].double(), y.inputs[0].double()
    assert torch.equal(x[:, PLACE:], y[:, PLACE:])
    found = []
    for before, after in zip(x.split(sizes), y.split(sizes), strict=True):
        ones = torch.ones(len(before), 1, dtype=torch.double)
        placed = torch.cat([before[:, :PLACE], ones], dim=1)
        solved = torch.linalg.lstsq(placed, after[:, :PLACE]).solution  # the map, from its places
        torch.testing.assert_close(placed @ solved, after[:, :PLACE], rtol=0, atol=1e-6)
        found.append(solved)
    assert torch.stack(found).std(0).min() > 0.01  # 0.06 or more are to be expected
    across = torch.stack([each[0, 0] for each in found])
    assert ((across.abs() - 1).abs() <= 0.2 + 1e-6).all()
    assert across.min() < 0 < across.max()  # by chance all alike once in 2^29 times


@pytest.mark.parametrize(
    "wrong", ["{", '{"word": "cat"}', '{"word": "cat", "drawing": [[[1], [2, 3]]]}', "[]"]
)
def test_a_damaged_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("EDGEWISE_DATA", str(folder(tmp_path, [line("cat", 1), wrong])))
    monkeypatch.delitem(SHA256, NAME)
    path = str(tmp_path / NAME / "raw" / FILES[0])
    with refused(path, expected="one drawing per line", got="in line 2", remedy="this line"):
        data.quickdraw(categories=2).load()


@pytest.mark.slow
@needs(NAME)
def test_all_sketches_are_there() -> None:
    splits = data.quickdraw(categories=20).load()
    assert [p.count for p in (splits.train, splits.val, splits.test)] == [300, 100, 100]
