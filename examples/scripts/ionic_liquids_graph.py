"""Write the CO2 solubility of ionic liquids as a graph of measurements, cations and anions.

    python examples/scripts/ionic_liquids_graph.py --fold 0 --out liquids
    edgewise train nodes-typed --data.nodes liquids/nodes.csv --data.edges liquids/edges.csv \\
        --data.relation relation --data.target solubility --data.scale none \\
        --model.width 64 --model.dropout 0

A measurement is a node with temperature and logarithm of pressure, and has an edge to its cation
and one to its anion, which have descriptors from RDKit. The liquids of the test fold are those of
the recipe ``ionic-liquids-co2``: they are new, but their ions may occur in other liquids.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas
from rdkit.Chem import Descriptors

from edgewise.app.kinds.molecules import IonicLiquids
from edgewise.app.kinds.molecules.chem import descriptors, rdkit
from edgewise.app.train.folds import Folds

KINDS = "cation", "anion"


def standardised(x: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1; 0 for constant columns."""
    return (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)


def graph_of(table: pandas.DataFrame, fold: int) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return the tables of nodes and of edges."""
    measurements = pandas.DataFrame({"id": [f"m{i}" for i in range(len(table))]})
    measurements["solubility"] = table["Mole"]
    conditions = standardised(np.stack([table["T"], np.log(table["P"])], axis=1))
    measurements["temperature"], measurements["log_pressure"] = conditions.T
    liquids = table["Canonical SMILES"].tolist()
    for name, rows in Folds(5, fold, 0.15, 0).split("group", liquids).items():
        measurements.loc[rows.numpy(), "split"] = name
    ions = {kind: table[f"Canonical {kind.capitalize()} SMILES"] for kind in KINDS}
    distinct = pandas.DataFrame(
        [(f"{kind} {smiles}", smiles) for kind in KINDS for smiles in ions[kind].unique()],
        columns=["id", "smiles"],
    )
    described = np.array([descriptors(rdkit().MolFromSmiles(x)) for x in distinct.pop("smiles")])
    features = standardised(np.sign(described) * np.log1p(np.abs(described)))
    names = [name for name, _ in Descriptors.descList]
    nodes = pandas.concat(
        [measurements, distinct.join(pandas.DataFrame(features, columns=names))], ignore_index=True
    )
    numbers = ["temperature", "log_pressure", *names]
    nodes[numbers] = nodes[numbers].fillna(0)  # Other types of nodes do not have this feature.
    edges = [
        pandas.DataFrame({"source": measurements["id"], "relation": f"has {kind}"}).assign(
            target=f"{kind} " + ions[kind]
        )
        for kind in KINDS
    ]
    return nodes, pandas.concat(edges, ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fold", type=int, default=0, help="test fold, from 0 to 4")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    table = pandas.read_csv(IonicLiquids().source())
    nodes, edges = graph_of(table, arguments.fold)
    arguments.out.mkdir(parents=True, exist_ok=True)
    nodes.to_csv(arguments.out / "nodes.csv", index=False)
    edges.to_csv(arguments.out / "edges.csv", index=False)
    print(f"{len(nodes):,} nodes and {len(edges):,} edges in {arguments.out}")


if __name__ == "__main__":
    main()
