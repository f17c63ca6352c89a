"""Ionic liquids as a graph: its nodes and edges, and a split by liquid."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas
import pytest

from edgewise.app.kinds.molecules import IonicLiquids
from edgewise.app.kinds.nodes import NodeFiles
from tests.places import needs

pytest.importorskip("rdkit")
SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "ionic_liquids_graph.py"


@pytest.mark.slow
@needs("ionic_liquids")
def test_measurements_have_edges_to_their_ions() -> None:
    table = pandas.read_csv(IonicLiquids().source())[::40].reset_index(drop=True)
    nodes, edges = runpy.run_path(str(SCRIPT))["graph_of"](table, 0)
    measurements = nodes[nodes["id"].str.fullmatch(r"m\d+")]
    assert len(measurements) == len(table) == 392
    assert edges.groupby("relation")["source"].apply(list).tolist() == [[*measurements["id"]]] * 2
    cations, anions = (edges[edges["relation"] == f"has {kind}"] for kind in ("cation", "anion"))
    assert cations["target"].tolist() == [f"cation {x}" for x in table["Canonical Cation SMILES"]]
    ions = cations["target"].reset_index(drop=True) + anions["target"].reset_index(drop=True)
    assert measurements["split"].groupby(ions).nunique().max() == 1, "a liquid is in one split"
    assert (nodes.loc[len(table) :, ["temperature", "log_pressure"]] == 0).all(axis=None)
    splits = NodeFiles(nodes=nodes, edges=edges, relation="relation", target="solubility").load()
    _, graph = next(iter(splits.loaders(0)["train"])).inputs
    assert len(graph.relations) == 4
    assert graph.num_edges == 4 * len(table)
