"""Scales of the network and of naive Bayes in a text classifier, fitted to the validation set."""

from __future__ import annotations

import torch

from edgewise.app.train.folder import WEIGHTS, RunFolder
from edgewise.app.train.splits import Loader
from edgewise.app.train.text.naive_bayes import CombinedClassifier


@torch.no_grad()
def fit_scales(model: CombinedClassifier, val: Loader) -> None:
    """Fit the factors of the network and of naive Bayes to the validation set, in place."""
    device = next(model.parameters()).device
    batches = [batch.to(device) for batch in val]
    network = torch.cat([model.network(*batch.inputs) for batch in batches]).float()
    counts = torch.cat([model.naive_bayes(*batch.inputs) for batch in batches]).float()
    model.naive_bayes.fit_scales((network, counts), torch.cat([b.target for b in batches]))


def fitted_factors(folder: RunFolder) -> dict[str, float]:
    """Return the factors of network and naive Bayes, by name; empty without naive Bayes."""
    scales = folder.read_tensors(WEIGHTS).get("naive_bayes.scales")
    names = ("network", "naive Bayes")
    return {} if scales is None else dict(zip(names, scales.tolist(), strict=True))
