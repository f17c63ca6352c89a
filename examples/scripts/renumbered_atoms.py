"""How much five models change their prediction if the atoms of a molecule are renumbered.

    python examples/scripts/renumbered_atoms.py                     # CO2 in ionic liquids
    python examples/scripts/renumbered_atoms.py --plot figure.png   # also draw the changes
    python examples/scripts/renumbered_atoms.py --csv mine.csv --smiles smiles --target solubility

Each model learns to predict the mean target of each molecule. The input of an MLP is the adjacency
matrix with the atoms, that of a CNN is RDKit's drawing, that of an RNN the atoms in their order,
that of a graph network the atoms and bonds, and that of a Transformer the set of atoms. Then the
atoms of test molecules are renumbered and their drawings are rotated, which changes no molecule.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import graphs
from edgewise.layers import RecurrentBackbone
from edgewise.models import graph_gnn, transformer_encoder

ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "B", "Br", "I")
LIQUIDS = "ionic_liquids/raw/co2_solubility_chen2024.csv.gz"
SIDE, WIDTH, TURNS = 96, 32, 6


def read_table(path: Path, smiles: str, target: str) -> dict[str, float]:
    """Return the mean target of each SMILES in a CSV file, which may be compressed."""
    values = defaultdict(list)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for row in csv.DictReader(file):
            values[row[smiles]].append(float(row[target]))
    return {text: sum(found) / len(found) for text, found in values.items()}


def atoms_and_bonds(molecule: Any) -> tuple[Tensor, graphs.Graph]:
    """Return the one-hot elements of atoms ``[atoms, elements]``, and the graph of bonds."""
    x = [[float(atom.GetSymbol() == name) for name in ELEMENTS] for atom in molecule.GetAtoms()]
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    both = torch.tensor([*pairs, *[(j, i) for i, j in pairs]], dtype=torch.long)
    return torch.tensor(x), graphs.edges(both.reshape(-1, 2).T, len(x))


def drawing(molecule: Any, turned: float) -> Tensor:
    """Return the pixels ``[1, side, side]`` of a drawing in grey, rotated by ``turned`` degrees."""
    from rdkit.Chem import Draw

    options = Draw.MolDrawOptions()
    options.rotate = turned
    image = Draw.MolToImage(molecule, size=(SIDE, SIDE), options=options).convert("L")
    return torch.tensor(1 - np.array(image) / 255, dtype=torch.float32)[None]


def matrix(x: Tensor, graph: graphs.Graph, largest: int) -> Tensor:
    """Return adjacency matrix and elements as one vector, padded to ``largest`` atoms."""
    both = torch.cat([graph.dense().float(), x.new_zeros(len(x), largest - len(x)), x], 1)
    return F.pad(both, (0, 0, 0, largest - len(x))).flatten()


class OfAtoms(nn.Module):
    """Model that predicts one number from the hidden states of the atoms.

    Args:
        backbone: module that maps hidden states ``[N, width]`` to hidden states.
        last: use the state of the last atom instead of the mean over atoms.
    """

    def __init__(self, backbone: nn.Module, *, last: bool) -> None:
        super().__init__()
        self.embed, self.read = nn.Linear(len(ELEMENTS), WIDTH), nn.Linear(WIDTH, 1)
        self.backbone, self.last = backbone, last

    def forward(self, x: Tensor) -> Tensor:
        states = self.backbone(self.embed(x))
        out: Tensor = self.read(states[-1] if self.last else states.mean(0))
        return out


def models(largest: int) -> dict[str, tuple[nn.Module, Callable[[Any, float], tuple[Any, ...]]]]:
    """Return each model, and a function from a molecule and an angle to the model's inputs.

    ``largest`` is the number of atoms of the largest molecule.
    """
    pixels = ((SIDE - 5) // 2 + 1 - 5) // 2 + 1
    cnn = nn.Sequential(
        nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 8, 5, 2), nn.ReLU(), nn.Flatten(0)
    )
    mlp = nn.Sequential(nn.Linear(largest * (largest + len(ELEMENTS)), 64), nn.ReLU())
    gnn = graph_gnn(len(ELEMENTS), 1, width=WIDTH, depth=3)
    rnn = OfAtoms(RecurrentBackbone(nn.RNN, WIDTH, 1), last=True)
    attention = transformer_encoder(WIDTH, depth=2, heads=4, ffn_dim=64, order="pre")
    return {
        "MLP on the adjacency": (
            mlp.append(nn.Linear(64, 1)),
            lambda molecule, _: (matrix(*atoms_and_bonds(molecule), largest),),
        ),
        "CNN on the drawing": (
            cnn.append(nn.Linear(8 * pixels**2, 1)),
            lambda molecule, turned: (drawing(molecule, turned),),
        ),
        "RNN over the atoms": (rnn, lambda molecule, _: atoms_and_bonds(molecule)[:1]),
        "GNN": (gnn, lambda molecule, _: atoms_and_bonds(molecule)),
        "Transformer": (
            OfAtoms(attention, last=False),
            lambda molecule, _: atoms_and_bonds(molecule)[:1],
        ),
    }


def train(model: nn.Module, inputs: Sequence[Any], target: Tensor, epochs: int) -> None:
    """Train a model on one molecule at a time; an optimizer step follows every 16 molecules."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(16):
            optimizer.zero_grad()
            answers = torch.cat([model(*inputs[i]).flatten() for i in chosen.tolist()])
            F.l1_loss(answers, target[chosen]).backward()
            optimizer.step()


def measured(table: dict[str, float], epochs: int) -> dict[str, tuple[float, list[float]]]:
    """Return for each model the mean absolute test error, and its changes on test molecules.

    A change says how much the prediction for a molecule changes at most if it is renumbered.
    """
    from rdkit import Chem

    torch.manual_seed(0)
    names = list(table)
    names = [names[i] for i in torch.randperm(len(names)).tolist()]
    molecules = [Chem.MolFromSmiles(name) for name in names]
    target = torch.tensor([table[name] for name in names])
    tested = max(1, len(names) // 5)
    orders = [
        [torch.randperm(molecule.GetNumAtoms()).tolist() for _ in range(TURNS)]
        for molecule in molecules[:tested]
    ]
    found = {}
    for name, (model, of) in models(max(one.GetNumAtoms() for one in molecules)).items():
        train(model, [of(one, 0.0) for one in molecules[tested:]], target[tested:], epochs)
        answers, changes = [], []
        with torch.no_grad():
            for molecule, own in zip(molecules[:tested], orders, strict=True):
                moved = [
                    float(model.eval()(*of(Chem.RenumberAtoms(molecule, order), 60.0 * turn)))
                    for turn, order in enumerate(own, 1)
                ]
                answers.append(float(model(*of(molecule, 0.0))))
                changes.append(max(abs(one - answers[-1]) for one in moved))
        error = float((torch.tensor(answers) - target[:tested]).abs().mean())
        found[name] = error, changes
    return found


def main() -> None:
    """Train and test the models, print a table, and draw it with ``--plot``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--csv", type=Path, help=f"CSV file (default: EDGEWISE_DATA/{LIQUIDS})")
    parser.add_argument("--smiles", default="Canonical SMILES", help="SMILES column")
    parser.add_argument("--target", default="Mole", help="column of the target")
    parser.add_argument("--epochs", type=int, default=10, help="training epochs (default: 10)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="save a figure to FILE")
    arguments = parser.parse_args()
    path = arguments.csv or Path(os.environ.get("EDGEWISE_DATA", "."), LIQUIDS)
    found = measured(read_table(path, arguments.smiles, arguments.target), arguments.epochs)
    print("| model | mean absolute error | median change | largest change |")
    print("| --- | ---: | ---: | ---: |")
    for name, (error, changes) in found.items():
        middle = float(torch.tensor(changes).median())
        print(f"| {name} | {error:.3f} | {middle:.1g} | {max(changes):.1g} |")
    if arguments.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 3), layout="constrained")
        axes = figure.add_subplot(xscale="log", xlabel="change of the answer")
        for place, (_, changes) in enumerate(found.values()):
            axes.scatter(changes, [place] * len(changes), alpha=0.5)
        axes.set_yticks(range(len(found)), list(found))
        figure.savefig(arguments.plot, dpi=100)


if __name__ == "__main__":
    main()
