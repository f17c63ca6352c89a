"""Effects of ``removed`` beside those of really deleting the word or atom from the input.

    python -m benchmarks.deletion RUN --input FILE [--cases 100]

RUN predicts a class of texts, or a property of molecules. ``removed`` masks a part in the graph of
the model: no node attends to it. Deletion writes a new text without the word, or a new molecule
without the atom, whose neighbours get hydrogens, and predicts again. Atoms without which the
molecule is not connected are left out. For each input, the effects on the log-odds of the class, or
on the property, are compared by Spearman's rank correlation and by the fraction of equal signs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

import edgewise
from benchmarks.fidelity import inputs_of
from edgewise._utils.errors import ArgumentError
from edgewise.app.explain import cases
from edgewise.app.kinds.molecules.predict import MoleculeProperties
from edgewise.app.predict.cases import log_odds, model_call
from edgewise.explain.attribution import without


def texts_without(words: list[str]) -> dict[int, str]:
    """Return the text without each word, by the position of the word."""
    return {i: " ".join(words[:i] + words[i + 1 :]) for i in range(len(words))}


def molecules_without(smiles: str) -> dict[int, str]:
    """Return the SMILES without each atom, by its index, where one valid molecule remains."""
    from rdkit import Chem, rdBase

    molecule = Chem.MolFromSmiles(smiles)
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    rest = {}
    with rdBase.BlockLogs():
        for atom in range(molecule.GetNumAtoms()):
            edited = Chem.RWMol(molecule)
            for neighbour in edited.GetAtomWithIdx(atom).GetNeighbors():
                neighbour.SetNoImplicit(False)
            edited.RemoveAtom(atom)
            text = Chem.MolToSmiles(edited)
            if text and "." not in text and Chem.MolFromSmiles(text) is not None:
                rest[atom] = text
    return rest


def effects(predictor: Any, value: Any) -> tuple[Tensor, Tensor] | None:
    """Return the decrease of the score by ``removed`` and by deletion of each part, ``[R]`` each.

    Returns None if fewer than three parts can be deleted, or a text is not its words.
    """
    (case,) = cases(predictor, value)
    if isinstance(predictor, MoleculeProperties):
        rest = molecules_without(str(predictor.show(value)))
    else:
        rest = texts_without(list(case.labels)) if " ".join(case.labels) == value else {}
    if len(rest) < 3:
        return None
    removed = torch.nn.functional.one_hot(torch.tensor([*rest]), len(case.labels)).bool()
    with torch.no_grad():
        out = model_call(predictor, predictor.prepare(value))[1]
        rows = model_call(predictor, *map(predictor.prepare, rest.values()))[1]
        masked = torch.cat([case.score() - without(case, part) for part in removed])
        if case.is_odds:
            return masked, case.score() - log_odds(rows, out.argmax(1).expand(len(rows)))
        return masked, case.score() - rows[:, 0]


def comparisons(run: edgewise.app.runs.Run, path: Path) -> Iterator[tuple[float, float]]:
    """Yield the rank correlation and the fraction of equal signs for each input of a file."""
    for value in inputs_of(run, path):
        try:
            pair = effects(run.predictor, value)
        except ArgumentError:
            continue
        if pair is not None:
            masked, deleted = pair
            is_same = masked.sign() == deleted.sign()
            yield float(spearmanr(masked, deleted).statistic), float(is_same.float().mean())


def main() -> None:
    """Print mean and standard deviation of both measures over the inputs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--input", type=Path, metavar="FILE", required=True, help="inputs")
    parser.add_argument("--cases", type=int, default=100, help="number of inputs")
    arguments = parser.parse_args()
    run = edgewise.load(arguments.run)
    rows = torch.tensor(list(islice(comparisons(run, arguments.input), arguments.cases)))
    rows = rows[~rows.isnan().any(1)]
    (rank, signs), (rank_spread, signs_spread) = rows.mean(0).tolist(), rows.std(0).tolist()
    print(f"{arguments.run.name}: {len(rows)} inputs")
    print(f"Spearman correlation {rank:.3f} ± {rank_spread:.3f}, median {rows[:, 0].median():.3f}")
    print(f"equal signs {signs:.3f} ± {signs_spread:.3f}")


if __name__ == "__main__":
    main()
