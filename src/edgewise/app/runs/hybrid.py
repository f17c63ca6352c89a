"""Factors of a network and naive Bayes, and the fraction that each part of a hybrid model has."""

from __future__ import annotations

import torch
from torch import nn

from edgewise.app.train.folder import NOTES, RunFolder
from edgewise.app.train.splits import Loader
from edgewise.app.train.text.naive_bayes import NEAR_ZERO, CombinedClassifier
from edgewise.explain.parts import answer_parts, fractions, parts_text, recorded_parts

PARTS = "parts of the predictions"
"""Name of the note with the fractions of the parts."""


@torch.no_grad()
def fit_scales(model: CombinedClassifier, val: Loader) -> None:
    """Fit the factors of the network and of naive Bayes to the validation set, in place."""
    device = next(model.parameters()).device
    batches = [batch.to(device) for batch in val]
    network = torch.cat([model.network(*batch.inputs) for batch in batches]).float()
    counts = torch.cat([model.naive_bayes(*batch.inputs) for batch in batches]).float()
    model.naive_bayes.fit_scales((network, counts), torch.cat([b.target for b in batches]))


@torch.no_grad()
def keep_parts(folder: RunFolder, model: nn.Module, val: Loader) -> None:
    """Write the fraction of each part of a hybrid model on the validation set to ``notes.json``."""
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
    notes = folder.read_json(NOTES) if folder.has(NOTES) else {}
    folder.write_json(NOTES, notes | {PARTS: note})


def parts_note(folder: RunFolder) -> str:
    """Return the line that :func:`keep_parts` wrote, or an empty text for other models."""
    note = folder.read_json(NOTES).get(PARTS, "") if folder.has(NOTES) else ""
    return f"{PARTS}: {note}" if note else ""
