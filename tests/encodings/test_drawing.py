"""Every encoding has a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from edgewise import encodings, graphs
from edgewise.encodings import draw
from tests.errors import refused

pytest.importorskip("matplotlib")
ARGUMENTS = {
    "index": (8,),
    "scaled": (8,),
    "binary": (8,),
    "sinusoidal": (8,),
    "learned": (12, 8),
    "learned_2d": (3, 4, 8),
    "rotary": (8,),
    "relative": (2,),
    "buckets": (2,),
    "alibi": (2,),
    "shaw": (2, 4),
    "transformer_xl": (2, 4),
    "laplacian": (8, 3),
    "sign_invariant": (8, 3),
    "random_walk": (8, 6),
    "weisfeiler_lehman": (8,),
    "centrality": (8,),
    "distance": (8, 4),
    "shortest_path": (2,),
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", encodings.ENCODINGS)
def test_codes_and_likeness_side_by_side(name: str, tmp_path: Path) -> None:
    encoding = encodings.ENCODINGS[name](*ARGUMENTS[name])
    figure = draw(encoding, tmp_path / "picture.png", length=12, width=8)
    assert (tmp_path / "picture.png").stat().st_size > 1000
    codes, alike = (np.asarray(axes.images[0].get_array()) for axes in figure.axes)
    assert codes.shape[0] == 12
    assert alike.shape == (12, 12)
    assert alike.std() > 0


def test_codes_are_drawn_as_they_are() -> None:
    """Of pairs, which are infinite between parts, and of nodes, which are compared."""
    apart = graphs.edges(torch.tensor([[0, 1], [1, 0]]), 3)
    resistances = encodings.resistance_distances(apart)
    walks = torch.tensor([[1.0, 2.0], [0.0, 3.0], [1.0, 0.0]])
    for codes, expected, likeness in (
        (resistances, resistances.view(3, 3), resistances.view(3, 3)),
        (walks, walks, walks @ walks.T),
    ):
        shown, alike = (axes.images[0] for axes in draw(codes).axes)
        np.testing.assert_array_equal(shown.get_array(), np.ma.masked_invalid(expected))
        np.testing.assert_array_equal(alike.get_array(), np.ma.masked_invalid(likeness))
        most = float(codes[codes.isfinite()].max())
        assert shown.get_clim() == (-most, most)


@pytest.mark.parametrize("codes", [torch.zeros(5), torch.zeros(3, 3, 2), torch.tensor(1.0)])
def test_what_is_neither_of_nodes_nor_of_pairs_is_refused(codes: torch.Tensor) -> None:
    """Such as the pairs of two graphs, of two nodes and of one."""
    with refused("encoding", expected="[N · N]", got=str(list(codes.shape)), remedy="single graph"):
        draw(codes)


def test_the_likeness_of_waves_is_the_same_along_diagonals() -> None:
    alike = draw(encodings.Sinusoidal(8), length=12, width=8).axes[1].images[0].get_array()
    for distance in range(12):
        np.testing.assert_allclose(np.diagonal(alike, distance), alike[0, distance], atol=1e-5)
