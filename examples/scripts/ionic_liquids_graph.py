"""Write the CO2 solubility of ionic liquids as a graph of measurements, cations and anions.

    EDGEWISE_DATA=<folder> python examples/scripts/ionic_liquids_graph.py --fold 0 --out liquids
    edgewise train nodes-typed --data.nodes liquids/nodes.csv --data.edges liquids/edges.csv \\
        --data.relation relation --data.target solubility --data.scale none

A measurement is a node with temperature and logarithm of pressure. It has an edge to its cation and
an edge to its anion, which have descriptors from RDKit. The liquids of the test fold are those of
the recipe ``ionic-liquids-co2``, which are new; their ions may occur in other liquids.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas
import torch

from edgewise.app.kinds.molecules.chem import descriptors, rdkit
from edgewise.app.train.folds import Folds

FILE = "ionic_liquids/raw/co2_solubility_chen2024.csv.gz"
KINDS = "cation", "anion"


def standardised(x: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1, without constant columns."""
    spread = x.std(0)
    return ((x - x.mean(0)) / np.where(spread > 0, spread, 1))[:, spread > 0]


def graph_of(table: pandas.DataFrame, fold: int) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return the tables of nodes and of edges."""
    liquids = table["Canonical SMILES"].tolist()
    split = np.empty(len(table), dtype=object)
    for name, rows in Folds(5, fold, 0.15, 0).split("group", liquids).items():
        split[rows.numpy()] = name
    conditions = standardised(np.stack([table["T"], np.log(table["P"])], axis=1))
    nodes = [
        pandas.DataFrame(
            {
                "id": [f"m{i}" for i in range(len(table))],
                "kind": "measurement",
                "solubility": table["Mole"],
                "split": split,
                "temperature": conditions[:, 0],
                "log_pressure": conditions[:, 1],
            }
        )
    ]
    edges = []
    for kind in KINDS:
        ions = table[f"Canonical {kind.capitalize()} SMILES"]
        distinct = list(dict.fromkeys(ions))
        described = np.array([descriptors(rdkit().MolFromSmiles(smiles)) for smiles in distinct])
        features = standardised(np.sign(described) * np.log1p(np.abs(described)))
        columns = {f"{kind}_{i}": features[:, i] for i in range(features.shape[1])}
        nodes.append(pandas.DataFrame({"id": distinct, "kind": kind, **columns}))
        ends = {"source": nodes[0]["id"], "relation": f"has {kind}", "target": ions}
        edges.append(pandas.DataFrame(ends))
    every = pandas.concat(nodes, ignore_index=True)
    numbers = every.columns.difference(["id", "kind", "solubility", "split"])
    every[numbers] = every[numbers].fillna(0)  # Other types of nodes do not have this feature.
    return every, pandas.concat(edges, ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fold", type=int, default=0, help="test fold, from 0 to 4")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    table = pandas.read_csv(Path(os.environ["EDGEWISE_DATA"]) / FILE)
    nodes, edges = graph_of(table, arguments.fold)
    arguments.out.mkdir(parents=True, exist_ok=True)
    nodes.to_csv(arguments.out / "nodes.csv", index=False)
    edges.to_csv(arguments.out / "edges.csv", index=False)
    print(f"{len(nodes):,} nodes and {len(edges):,} edges in {arguments.out}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
