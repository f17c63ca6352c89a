"""Factors of a network and naive Bayes, and the fraction that each part of a hybrid model has."""

from __future__ import annotations

import torch
from torch import nn

from edgewise.app.train.folder import NOTES, RunFolder
from edgewise.app.train.forest import NetworkAndForest
from edgewise.app.train.splits import Loader
from edgewise.app.train.task import Task
from edgewise.app.train.text.naive_bayes import NEAR_ZERO, CombinedClassifier
from edgewise.explain.parts import answer_parts, fractions, parts_text, recorded_parts

PARTS = "parts of the predictions"
"""Name of the note with the fractions of the parts."""
CHOSEN = "predictions"
"""Name of the note with the predictions that the validation set has chosen."""


Combined = CombinedClassifier | NetworkAndForest


@torch.no_grad()
def fit_scales(model: Combined, val: Loader, task: Task) -> None:
    """Fit the weights of the network and of the other part to the validation set, in place."""
    device = next(model.parameters()).device
    batches = [batch.to(device) for batch in val]
    network, other = (
        torch.cat([part(*batch.inputs, **batch.keywords) for batch in batches]).float()
        for part in (model.network, model.other)
    )
    model.fit_weights(network, other, torch.cat([batch.target for batch in batches]), task)


@torch.no_grad()
def keep_parts(folder: RunFolder, model: nn.Module, val: Loader) -> None:
    """Write the fraction of each part of a hybrid model on the validation set to ``notes.json``,
    or the predictions that the validation set has chosen.
    """
    if isinstance(model, NetworkAndForest):
        _write_note(folder, CHOSEN, model.chosen())
        return
    model.eval()
    device, added = next(model.parameters()).device, []
    for loaded in val:
        batch = loaded.to(device)
        with recorded_parts(model) as calls:
            model(*batch.inputs, **batch.keywords)
        if not calls:
            return
        added += [answer_parts(parts) for parts in calls]
    columns = {name: torch.cat([parts[name] for parts in added]) for name in added[0]}
    fraction = fractions(columns)
    note = f"{parts_text(fraction)} (mean absolute score, on the validation set)"
    if fraction.get("network", 1.0) < NEAR_ZERO:
        note += ". --data.naive_bayes false trains the network alone"
    _write_note(folder, PARTS, note)


def _write_note(folder: RunFolder, name: str, note: str) -> None:
    notes = folder.read_json(NOTES) if folder.has(NOTES) else {}
    folder.write_json(NOTES, notes | {name: note})


def parts_note(folder: RunFolder) -> str:
    """Return the line that :func:`keep_parts` wrote, or an empty text for other models."""
    notes = folder.read_json(NOTES) if folder.has(NOTES) else {}
    return next((f"{name}: {notes[name]}" for name in (PARTS, CHOSEN) if name in notes), "")
