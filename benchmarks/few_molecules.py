"""Solubility (ESOL) from few labels, with and without pre-training on molecules without labels.

    python -m benchmarks.few_molecules [--counts 50 100 200] [--seeds 5] [--folder DIR]

For each seed, the network of the recipe attentive-esol, with a linear head and without dropout, is
pre-trained to predict RDKit's descriptors of 16,891 molecules: those of the recipe gps-zinc, and
the molecules of the National Cancer Institute that RDKit contains. Among them are 129 of ESOL's
1,128 molecules, without their solubility. For each number of labels and each seed, which is a
random split and sample of ESOL, the benchmark measures the RMSE on the test molecules of four
methods:

- scratch: the recipe attentive-esol from random weights, trained as in ``benchmarks.few_labels``;
- embeddings: ridge regression on the input of the head of the pre-trained network;
- descriptors: ridge regression on RDKit's descriptors;
- both: ridge regression on embeddings and descriptors.

For each method, the settings have the lowest validation RMSE, averaged over the first two seeds.
Finished pre-trainings in DIR are used again.

Paper: Hu et al., Strategies for pre-training graph neural networks, 2020
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.few_labels import CHOOSING, Measured, Study, paired
from benchmarks.pruning import Results
from edgewise import models
from edgewise.app.files.files import find_raw, not_published
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.molecules.chem import ATOM_WIDTH, BOND_WIDTH, descriptors, parse, rdkit
from edgewise.app.kinds.molecules.data import described_by, packed, read_molecules
from edgewise.app.kinds.molecules.zinc import NAME, PARTS
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.train import (
    Batch,
    CosineSchedule,
    OptimizerSettings,
    PackedGraphs,
    Regression,
    RunFolder,
    Split,
    TrainerSettings,
    fit,
    seed_everything,
)
from edgewise.app.train.folder import METRICS
from edgewise.app.train.folds import Folds, sample_labelled
from edgewise.app.train.standardisation import Standardisation

STUDY = Study(
    find("attentive-esol"),
    find("attentive-esol"),
    metric="rmse",
    sign=-1,
    scale=1,
    grid={"optimizer.lr": (2e-3, 5e-3), "trainer.epochs": (50,)},
    counts=(50, 100, 200),
)
PENALTIES = (10.0, 30.0, 100.0, 300.0, 1000.0)
FURTHEST = 6.0  # Standardised features are clipped to this number of standard deviations.
HELD_OUT = 1000  # Molecules on which the epoch of the pre-training is chosen.


class LinearHead(nn.Linear):
    """Linear head of a molecule transformer; embeddings are better than with its usual head."""

    def forward(self, z: Tensor, _condition: Tensor | None = None) -> Tensor:
        return super().forward(z)


def unlabelled() -> list[str]:
    """Return the SMILES of ZINC's and NCI's molecules, without duplicates."""
    rdkit()
    from rdkit import RDConfig

    files = [f"{split}.csv" for split in PARTS]
    raw = find_raw(NAME, files, not_published(NAME, files))
    zinc = [row["smiles"] for file in files for row in csv.DictReader((raw / file).open())]
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines()
    return list(dict.fromkeys([*zinc, *(line.split()[0] for line in lines if line.strip())]))


def pretrained(folder: Path, graphs: PackedGraphs, targets: Tensor, seed: int) -> nn.Module:
    """Return a network pre-trained on the descriptors ``[G, D]`` of G molecules."""
    seed_everything(seed)
    sizes: dict[str, Any] = {"width": 64, "depth": 4, "heads": 4, "edge_width": BOND_WIDTH}
    model = models.molecule_transformer(ATOM_WIDTH, targets.shape[1], dropout=0.0, **sizes)
    model.head = LinearHead(model.head.lines[0].in_features, targets.shape[1])
    order = torch.randperm(len(targets))
    indices = {"train": order[HELD_OUT:], "val": order[:HELD_OUT], "test": order[:HELD_OUT]}
    loaders = {
        name: split_of(graphs, targets, index).loader(64, seed if name == "train" else None)
        for name, index in indices.items()
    }
    if not RunFolder(folder).has(METRICS):
        fit(
            model,
            Regression(),
            loaders,
            RunFolder(folder),
            optimizer=OptimizerSettings("adamw", lr=4e-3, weight_decay=0.01),
            schedule=CosineSchedule(warmup=0.05),
            trainer=TrainerSettings(12, monitor="val/loss", mode="min", clip_norm=5.0),
        )
    RunFolder(folder).load_weights(model)
    return model


def split_of(graphs: PackedGraphs, targets: Tensor, which: Tensor) -> Split:
    """Return molecules with their targets as a split."""

    def make(index: Tensor) -> Batch:
        x, graph, members, bonds = graphs.take(which[index])
        keywords = {"batch": members, "edge_attr": bonds}
        return Batch((x, graph), targets[which[index]], keywords=keywords)

    return Split(len(which), make)


@torch.no_grad()
def embeddings(model: nn.Module, graphs: PackedGraphs, count: int) -> np.ndarray:
    """Return the input of the head for each of ``count`` molecules, ``[G, F]``."""
    x, graph, members, bonds = graphs.take(torch.arange(count))
    head_inputs: list[Tensor] = []
    with model.head.register_forward_pre_hook(lambda _, inputs: head_inputs.append(inputs[0])):
        model.eval()(x, graph, batch=members, edge_attr=bonds)
    return head_inputs[0].numpy()


def ridge(
    features: Sequence[np.ndarray], target: np.ndarray, table: MoleculeTable, count: int
) -> list[float]:
    """Return the test RMSE for each seed, with the penalty that validation chooses.

    Args:
        features: features ``[G, F]`` of each seed.
        target: values to predict, ``[G]``.
        table: table that determines the splits.
        count: number of labels.
    """
    by_penalty = {
        penalty: [
            errors(x, target, table, count, seed=seed, penalty=penalty)
            for seed, x in enumerate(features)
        ]
        for penalty in PENALTIES
    }
    chosen = min(
        by_penalty.values(), key=lambda rmse: statistics.fmean(val for val, _ in rmse[:CHOOSING])
    )
    return [test for _, test in chosen]


def errors(
    features: np.ndarray,
    target: np.ndarray,
    table: MoleculeTable,
    count: int,
    *,
    seed: int,
    penalty: float,
) -> tuple[float, float]:
    """Return the RMSE of ridge regression on the validation and the test set of a seed."""
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    folds = Folds(table.folds, table.fold, table.val, seed)
    index = folds.split("random", range(len(target)))
    train = index["train"][sample_labelled(len(index["train"]), count, seed, "rows")]
    x = StandardScaler().fit(features[train]).transform(features).clip(-FURTHEST, FURTHEST)
    wrong = (Ridge(alpha=penalty).fit(x[train], target[train]).predict(x) - target) ** 2
    val, test = (float(wrong[index[split]].mean() ** 0.5) for split in ("val", "test"))
    return val, test


def lines(measured: Mapping[int, Mapping[str, list[float]]]) -> Iterator[str]:
    """Yield the table of test errors, by number of labels and method."""
    names = list(next(iter(measured.values())))
    pairs = (("embeddings", "scratch"), ("both", "descriptors"))
    differences = [f"{first} − {second}" for first, second in pairs]
    yield f"| labels | {' | '.join([*names, *differences])} |"
    yield f"|{' ---: |' * (len(names) + 3)}"
    for count, by_method in measured.items():
        cells = ["{:.3f} ± {:.3f}".format(*mean_and_std(by_method[name])) for name in names]
        for first, second in pairs:
            cells.append(
                "{:+.3f} ± {:.3f}, p = {:.2g}".format(*paired(by_method[first], by_method[second]))
            )
        yield f"| {count} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--counts", type=int, nargs="+", default=STUDY.counts, help="numbers of labels"
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--folder", type=Path, default=Path("runs/few-labels"), help="run folders")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()

    unlabelled_molecules = [x for x in map(parse, unlabelled()) if x is not None]
    values = torch.tensor([descriptors(x) for x in unlabelled_molecules], dtype=torch.double)
    targets = described_by(values, Standardisation.of(values)).float()
    table = STUDY.tuning.data
    assert isinstance(table, MoleculeTable)
    columns = read_molecules(table.source()).columns
    measured = [parse(smiles) for smiles in columns[table.smiles]]
    target = np.array([float(value) for value in columns[str(table.target)]])
    folders = [arguments.folder / f"molecules-{seed}" for seed in range(arguments.seeds)]
    unlabelled_graphs, measured_graphs = packed(unlabelled_molecules), packed(measured)
    embedded = [
        embeddings(
            pretrained(folder, unlabelled_graphs, targets, seed), measured_graphs, len(measured)
        )
        for seed, folder in enumerate(folders)
    ]
    described = np.array([descriptors(x) for x in measured])
    features = {
        "embeddings": embedded,
        "descriptors": [described] * arguments.seeds,
        "both": [np.concatenate([x, described], axis=1) for x in embedded],
    }
    results = Results(arguments.folder / "molecules.json")
    results_of_counts: dict[int, dict[str, list[float]]] = {}
    for count in arguments.counts:
        results_of_counts[count] = {
            "scratch": Measured(STUDY, count, folders, results).tested("scratch")
        }
        for name, by_seed in features.items():
            results_of_counts[count][name] = ridge(by_seed, target, table, count)
    print("\n".join(lines(results_of_counts)))
    print(f"{time.process_time() - began:.0f} s of processor time in this call")


if __name__ == "__main__":
    main()
