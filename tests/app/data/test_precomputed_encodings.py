"""Codes of a data set: what the encoding says of a batch, kept until graph or settings change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgewise import encodings
from edgewise.app.train import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings, narrow
from edgewise.encodings import laplacian
from edgewise.models.san import LearnedSpectrum


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path))
    return tmp_path / "codes"


def graphs(extra: int = 0) -> PackedGraphs:
    """A triangle, a node alone, a path, and a ring with or without another bond."""
    pairs: list[list[tuple[int, int]]] = [[(0, 1), (1, 2), (2, 0)], [], [(0, 1), (1, 2), (2, 3)]]
    pairs.append([(i, (i + 1) % 6) for i in range(6)] + [(0, 3)] * extra)
    index = [torch.tensor(p, dtype=torch.long).reshape(-1, 2).T for p in pairs]
    both = [torch.cat([i, i.flip(0)], dim=1) for i in index]
    nodes = [torch.zeros(n, 1) for n in (3, 1, 4, 6)]
    return PackedGraphs.of(nodes, both, [torch.zeros(i.shape[1], 1) for i in both])


ENCODINGS: dict[str, Any] = {
    "laplacian": lambda: encodings.Laplacian(8, 3),
    "sign_invariant": lambda: encodings.SignInvariant(8, 3),
    "learned_spectrum": lambda: LearnedSpectrum(8, 3, hidden=4, depth=1, heads=2),
    "random_walk": lambda: encodings.RandomWalk(8, 5),
    "weisfeiler_lehman": lambda: encodings.WeisfeilerLehman(8, rounds=2),
    "centrality": lambda: encodings.Centrality(8),
    "distance": lambda: encodings.DistanceEncoding(8, 2),
    "shortest_path": lambda: encodings.ShortestPath(2, 4),
    "path_edges": lambda: encodings.PathEdges(1, 2, 3),
}


def computed(chosen: Any, packed: PackedGraphs, which: Tensor) -> Tensor:
    code: Tensor = chosen.code(packed.take(which)[1])
    return code


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_a_batch_has_the_codes_that_it_would_compute(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.app.train.precomputed_encodings.AT_ONCE", at_once)
    packed, chosen = graphs(), ENCODINGS[name]()
    for _again in range(2):  # computed, then read
        codes = PrecomputedEncodings(packed)
        codes.prepare({"it": chosen})
        for which in ([0, 1, 2, 3], [3, 0, 3], [1], [2, 1]):
            if name == "weisfeiler_lehman" and which != [0, 1, 2, 3]:
                continue  # colours are numbered over all graphs
            found = codes.take(torch.tensor(which))["it"]
            expected = computed(chosen, packed, torch.tensor(which))
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)


def test_colours_mean_the_same_in_every_graph() -> None:
    codes = PrecomputedEncodings(graphs())
    codes.prepare({"it": encodings.WeisfeilerLehman(8, rounds=2)})
    everything = computed(encodings.WeisfeilerLehman(8, rounds=2), graphs(), torch.arange(4))
    assert torch.equal(codes.take(torch.tensor([3]))["it"], everything[8:])


def files(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


def test_another_graph_or_setting_is_computed_anew(cache: Path) -> None:
    PrecomputedEncodings(graphs()).prepare({"it": encodings.RandomWalk(8, 5)})
    first = files(cache)
    assert len(first) == 1
    PrecomputedEncodings(graphs()).prepare(
        {"it": encodings.RandomWalk(16, 5)}
    )  # another width, the same codes
    assert files(cache) == first
    PrecomputedEncodings(graphs()).prepare({"it": encodings.RandomWalk(8, 6)})
    PrecomputedEncodings(graphs(extra=1)).prepare({"it": encodings.RandomWalk(8, 5)})
    assert len(files(cache)) == 3


def test_a_models_own_encoding_is_computed_anew_when_eigenvectors_are(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ENCODINGS["learned_spectrum"]()
    PrecomputedEncodings(graphs()).prepare({"it": chosen})
    other = tmp_path / "laplacian.py"
    other.write_bytes(b"other vectors")
    monkeypatch.setattr(laplacian, "__file__", str(other))
    PrecomputedEncodings(graphs()).prepare({"it": chosen})
    assert len(list(cache.iterdir())) == 2


def test_the_cache_is_read_and_a_damaged_one_is_not_trusted(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, chosen = graphs(), encodings.RandomWalk(8, 5)
    PrecomputedEncodings(packed).prepare({"it": chosen})
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    codes = PrecomputedEncodings(packed)
    codes.prepare({"it": chosen})
    assert path.read_bytes() == whole
    expected = codes.take(torch.arange(4))["it"]

    def never(_self: Any, _graph: Any) -> Tensor:
        raise AssertionError

    monkeypatch.setattr(encodings.RandomWalk, "code", never)
    again = PrecomputedEncodings(packed)
    again.prepare({"it": chosen})
    assert torch.equal(again.take(torch.arange(4))["it"], expected)


def test_nothing_half_written_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("edgewise.app.train.precomputed_encodings.np.save", full)
    with pytest.raises(OSError, match="no space"):
        PrecomputedEncodings(graphs()).prepare({"it": encodings.RandomWalk(8, 5)})
    assert not files(cache)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [([0, 255], "uint8"), ([-1, 255], "int16"), ([0, 40_000], "int32"), ([0, 2**40], "int64")],
)
def test_integers_take_the_room_that_they_need(numbers: list[int], kind: str) -> None:
    found = narrow(torch.tensor(numbers))
    assert found.dtype == getattr(torch, kind)
    assert found.tolist() == numbers
