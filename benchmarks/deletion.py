"""Effects of parts that are deleted from the input itself, beside the contributions of each method.

    python -m benchmarks.deletion RUN [--input FILE] [--cases 100]

RUN predicts a class of texts, recordings or 8 × 8 digits, a property of molecules, or a series. The
parts are deleted one at a time, without using the graph of the model:

* word: a new text without it.
* atom: a new molecule without it, whose neighbours get hydrogens. Atoms without which the molecule
  is not connected are left out.
* tenth of a second: zeros instead of its samples (silent), or a recording without them (cut).
* patch: its mean over images (mean), or black.
* value of a series: the mean of the history, for the first and the last forecast.

The effects on the log-odds of the class, or on the number, are compared with the contributions of
each method by Spearman's rank correlation and by the fraction of equal signs (mean ± standard
deviation over inputs), and by how often the part with the largest absolute contribution has the
largest absolute effect, or one of the three largest.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

import edgewise
from benchmarks.fidelity import METHODS, inputs_of
from edgewise._utils.errors import ArgumentError
from edgewise.app.explain import cases
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.kinds.molecules.predict import MoleculeProperties
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.sounds.files import Recording, read_recording
from edgewise.app.kinds.sounds.predict import SoundClasses
from edgewise.app.predict.cases import log_odds, model_call
from edgewise.explain.attribution import Case, contributions

FEWEST = 3
"""Minimum number of deleted parts of an input."""
Effects = dict[str, tuple[Tensor, Tensor]]
"""Parts ``[R]`` and the decrease ``[R]`` of the score without each, by the kind of deletion."""


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


def recordings_without(recording: Recording, tenths: int) -> dict[str, dict[int, Recording]]:
    """Return the recording with each tenth of a second silent, and without it."""
    samples, rate = recording
    silent, cut = {}, {}
    for tenth in range(tenths):
        start, stop = round(tenth * 0.1 * rate), round((tenth + 1) * 0.1 * rate)
        before, after = samples[:start], samples[stop:]
        zeros = torch.zeros(len(samples) - len(before) - len(after))
        silent[tenth] = Recording(torch.cat([before, zeros, after]), rate)
        cut[tenth] = Recording(torch.cat([before, after]), rate)
    return {"silent": silent, "cut": cut}


def effects(predictor: Any, value: Any) -> Iterator[tuple[Case, Effects]]:
    """Yield cases of an input, with the effects of deleting parts from it."""
    explained = cases(predictor, value)
    if isinstance(predictor, Forecasts):
        yield from _of_steps(predictor, value, explained)
        return
    (case,) = islice(explained, 1)  # Of several properties, the first.
    examples: dict[str, dict[int, Any]]
    if isinstance(predictor, MoleculeProperties):
        rest = molecules_without(str(predictor.show(value)))
        examples = {"deleted": {part: predictor.prepare(text) for part, text in rest.items()}}
    elif isinstance(predictor, SoundClasses):
        deleted = recordings_without(read_recording(Path(value)), len(case.labels))
        values = predictor.preprocessing.values
        examples = {
            name: {part: predictor.recipe.data.to_tokens(x, values) for part, x in rest.items()}
            for name, rest in deleted.items()
        }
    elif isinstance(predictor, ImageClasses):
        examples = _of_patches(predictor, value, len(case.labels))
    else:
        rest = texts_without(list(case.labels)) if " ".join(case.labels) == value else {}
        examples = {"deleted": {part: predictor.prepare(text) for part, text in rest.items()}}
    with torch.no_grad():
        answer = model_call(predictor, predictor.prepare(value))[1].argmax(1)
        by_deletion = {}
        for name, without in examples.items():
            if len(without) >= FEWEST:
                out = model_call(predictor, *without.values())[1]
                rows = log_odds(out, answer.expand(len(out))) if case.is_odds else out[:, 0]
                by_deletion[name] = torch.tensor([*without]), case.score() - rows
        yield case, by_deletion


def _of_patches(predictor: Any, image: Any, count: int) -> dict[str, dict[int, Tensor]]:
    """Return the image with each patch replaced by its mean over digits, and by black."""
    digits = islice(inputs_of_digits(predictor), 40)
    mean = torch.stack([predictor.prepare(digit) for digit in digits]).mean(0)
    black, x = predictor.prepare(image.point(lambda _: 0)), predictor.prepare(image)
    side = x.shape[-1] // round(count**0.5)
    replaced: dict[str, dict[int, Tensor]] = {"mean": {}, "black": {}}
    for name, fill in (("mean", mean), ("black", black)):
        for patch in range(count):
            top, left = (side * n for n in divmod(patch, x.shape[-1] // side))
            where = slice(top, top + side), slice(left, left + side)
            replaced[name][patch] = x.clone()
            replaced[name][patch][..., *where] = fill[..., *where]
    return replaced


def inputs_of_digits(predictor: Any) -> Iterator[Any]:
    """Yield the digits of :func:`benchmarks.fidelity.inputs_of`."""
    yield from inputs_of(argparse.Namespace(predictor=predictor), None)  # type: ignore[arg-type]


def _of_steps(
    predictor: Forecasts, values: Any, explained: list[Case]
) -> Iterator[tuple[Case, Effects]]:
    """Yield the first and the last forecast of a history, with its decrease without each step."""
    with torch.no_grad():
        (history,), out = model_call(predictor, predictor.prepare(values))
        steps = torch.arange(history.shape[-1])
        replaced = history.repeat(len(steps), 1)
        replaced[steps, steps] = history.mean()
        decrease = out - predictor.model(replaced)
    for ahead in (0, -1):
        yield explained[ahead], {"mean": (steps, decrease[:, ahead])}


def comparison(members: Tensor, deleted: Tensor) -> tuple[float, float, float, float]:
    """Return rank correlation, fraction of equal signs, and whether the strongest member is the
    first, and one of the first three, by deletion. Equal effects of all parts have no ranks, NaN.
    """
    strongest = deleted[members.abs().argmax()].abs()
    rank = 1 + int((deleted.abs() > strongest + 1e-4 * deleted.abs().max()).sum())
    is_same = (members.sign() == deleted.sign()).float().mean()
    if deleted.eq(deleted[0]).all():
        correlation = torch.nan
    elif members.eq(members[0]).all():
        correlation = 0.0
    else:
        correlation = float(spearmanr(members, deleted).statistic)
    return correlation, float(is_same), float(rank == 1), float(rank <= 3)


def main() -> None:
    """Print the agreement of each method with deletion."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--input", type=Path, metavar="FILE", help="inputs")
    parser.add_argument("--cases", type=int, default=100, help="number of inputs")
    arguments = parser.parse_args()
    run = edgewise.load(arguments.run)
    rows = defaultdict(list)
    count = 0
    for value in inputs_of(run, arguments.input):
        try:
            explained = [(case, by) for case, by in effects(run.predictor, value) if by]
        except ArgumentError:
            continue
        for case, by_deletion in explained:
            for method in METHODS:
                members = contributions(case, method).members
                for name, (parts, deleted) in by_deletion.items():
                    rows[name, method].append(comparison(members[parts], deleted))
        count += bool(explained)
        if count == arguments.cases:
            break
    print(f"{arguments.run.name}: {count} inputs")
    print(f"{'deletion':8} {'method':20} {'Spearman':>15} {'equal signs':>15} first  of three")
    for (name, method), values in rows.items():
        table = torch.tensor(values)
        table = table[~table.isnan().any(1)]
        (rank, signs, first, three), spreads = table.mean(0).tolist(), table.std(0).tolist()
        print(
            f"{name:8} {method:20} {rank:6.3f} ± {spreads[0]:.3f} {signs:8.3f} ± {spreads[1]:.3f}"
            f" {first:6.2f} {three:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
