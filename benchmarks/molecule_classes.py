"""ROC-AUC of the recipe molecules on toxicity and side effects, beside trees alone.

    python -m benchmarks.molecule_classes DIR [--sets clintox sider tox21] [--folds 5]

DIR has the files of Wu et al. as the GitHub repository chemprop/chemprop stored them, in the folder
``data`` of commit b83635bcddaddcdb91d453128edec9f2be0d25cf. Their SHA-256 are checked:
``clintox.csv`` (1,478 molecules, 2 columns of classes), ``sider.csv`` (1,427 and 27) and
``tox21.csv`` (7,831 and 12). A scaffold is in one of five folds only.

The table has the mean ROC-AUC over the columns on the test fold, mean and standard deviation over
the first ``--folds`` folds, of:

- molecules: the recipe, with all columns in one run, and what the validation set has chosen;
- network, trees: the two parts of this run, of which the trees are fitted to all training rows;
- ECFP forest: scikit-learn's random forest of 500 trees on Morgan fingerprints of radius 2 with
  2,048 bits, for each column.

Paper: Wu et al., MoleculeNet: a benchmark for molecular machine learning, 2018
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import edgewise
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules.chem import parse
from edgewise.app.kinds.molecules.data import read_molecules
from edgewise.app.runs.hybrid import parts_note
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.train import Recipe, RunFolder, Split
from edgewise.app.train.column_baselines import columns_of, fit_columns
from edgewise.app.train.forest import NetworkAndForest

SHA256 = {
    "clintox": "cc561402d058a0d996a9f5e5d02bc20f6652b7003525b32c3598b8da4b24e9b7",
    "sider": "71efc6ac4ca82d6545bc512509863281be0f17234afd7adaf71a71899988302e",
    "tox21": "b58cc1f683e78e3c7a1bf7116e9aac0119804018d100f7b8cdb0857941c31aca",
}
TREES, RADIUS, BITS = 500, 2, 2048


def recipe_of(path: Path, fold: int) -> Recipe:
    """Return the recipe molecules for all columns of a file, after checking the file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256[path.stem]:
        raise SystemExit(f"{path}: expected SHA-256 {SHA256[path.stem]}, got {digest}")
    with path.open(newline="") as file:
        columns = next(csv.reader(file))[1:]
    data = {"path": str(path), "target": tuple(columns), "split": "scaffold", "fold": fold}
    values = {f"data.{name}": value for name, value in data.items()}
    return runs.with_values(find("molecules"), {**values, "data.invalid": "skip"})


def roc_auc(scores: Tensor, target: Tensor) -> float:
    """Return the mean ROC-AUC over the columns that have both classes."""
    values = []
    for score, y in zip(scores.unbind(1), target.unbind(1), strict=True):
        has_value = ~y.isnan()
        if len(y[has_value].unique()) > 1:
            values.append(roc_auc_score(y[has_value], score[has_value]))
    return float(np.mean(values))


@torch.no_grad()
def logits(model: nn.Module, split: Split) -> Tensor:
    batches = split.loader(64, None)
    return torch.cat([model.eval()(*batch.inputs, **batch.keywords) for batch in batches])


def fingerprints(smiles: Iterable[str]) -> np.ndarray:
    generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    return np.stack([generator.GetFingerprintAsNumPy(parse(text)) for text in smiles])


def measured(path: Path, fold: int, folder: Path) -> tuple[dict[str, float], str]:
    """Return the ROC-AUC of each method on a fold, and what validation has chosen."""
    recipe = recipe_of(path, fold)
    runs.train(recipe, folder, resume=(folder / "recipe.json").is_file())
    splits = recipe.data.load()
    targets = {
        name: torch.cat([batch.target for batch in split.loader(64, None)])
        for name, split in (("train", splits.train), ("test", splits.test))
    }
    table, lines = read_molecules(path), splits.preprocessing
    smiles = dict(zip(table.lines, table.columns["smiles"], strict=True))
    test = lines["test_lines"].tolist()
    held_out = {*test, *lines["val_lines"].tolist()}
    train = [line for line, text in smiles.items() if line not in held_out and parse(text)]
    assert len(train) == len(targets["train"])
    forest = fit_columns(
        lambda _classes: RandomForestClassifier(TREES, random_state=0),
        columns_of(splits, recipe.for_targets(splits.targets)),
        fingerprints(smiles[line] for line in train),
        targets["train"].numpy(),
    )
    model = edgewise.load(folder).model
    assert isinstance(model, NetworkAndForest)
    scores = {
        "molecules": RunFolder(folder).read_tensors("held_out.safetensors")["test_outputs"],
        "network": logits(model.network, splits.test),
        "trees": logits(model.forest, splits.test),
        "ECFP forest": forest(fingerprints(smiles[line] for line in test)),
    }
    auc = {name: roc_auc(columns, targets["test"]) for name, columns in scores.items()}
    print(f"{path.stem}, fold {fold}: {auc}; {parts_note(RunFolder(folder))}", flush=True)
    return auc, parts_note(RunFolder(folder)).split(": ", 1)[1].split(" (")[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DIR", help="folder of the three files")
    parser.add_argument("--sets", nargs="+", choices=SHA256, default=list(SHA256))
    parser.add_argument("--folds", type=int, default=5, help="number of folds to measure")
    parser.add_argument("--folder", type=Path, default=Path("runs/classes"), help="run folders")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.sets:
        results, chosen = zip(
            *(
                measured(arguments.data / f"{name}.csv", fold, arguments.folder / f"{name}-{fold}")
                for fold in range(arguments.folds)
            ),
            strict=True,
        )
        cells = [
            "{:.3f} ± {:.3f}".format(*mean_and_std([result[method] for result in results]))
            for method in results[0]
        ]
        counts = ", ".join(f"{count} × {what}" for what, count in Counter(chosen).items())
        rows.append(f"| {name} | {' | '.join(cells)} | {counts} |")
    head = ["data set", *results[0], "chosen"]
    print("\n".join([f"| {' | '.join(head)} |", f"| --- |{' ---: |' * 4} --- |", *rows]))


if __name__ == "__main__":
    main()
