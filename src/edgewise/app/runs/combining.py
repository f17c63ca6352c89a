"""Callback that fits the scales of naive Bayes in a text classifier to the validation set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from edgewise.app.train.folder import RunFolder
from edgewise.app.train.loader import Loader
from edgewise.app.train.preprocessing import kept_preprocessing
from edgewise.app.train.text.naive_bayes import CombinedClassifier

if TYPE_CHECKING:
    import lightning.pytorch as lightning


def combining(model: nn.Module, val: Loader) -> tuple[lightning.Callback, ...]:
    """Return a callback that calls :func:`fit_scales` before each validation, if it is needed."""
    if not isinstance(model, CombinedClassifier):
        return ()
    import lightning.pytorch as lightning

    classifier = model

    class Combining(lightning.Callback):
        def on_validation_epoch_start(self, *_: Any) -> None:
            fit_scales(classifier, val)

    return (Combining(),)


def fitted_factors(folder: RunFolder) -> dict[str, float]:
    """Return the fitted factors of the logits of a run's network and of naive Bayes, by name.

    The dict is empty if the model has no naive Bayes part.
    """
    preprocessing = kept_preprocessing(folder)
    names = () if preprocessing is None else preprocessing.values
    if not any(name.startswith("naive_bayes.") for name in names):
        return {}
    factors = folder.read_weights().get("naive_bayes.scales", torch.empty(0)).tolist()
    return dict(zip(("network", "naive Bayes"), factors, strict=False))


@torch.no_grad()
def fit_scales(model: CombinedClassifier, val: Loader) -> None:
    """Fit the factors of the network and of naive Bayes to the validation set, in place."""
    device = next(model.parameters()).device
    batches = [batch.to(device) for batch in val]
    logits = [(model.network(*b.inputs), model.naive_bayes(*b.inputs)) for b in batches]
    network, counts = (torch.cat(tensors).float() for tensors in zip(*logits, strict=True))
    model.naive_bayes.fit_scales((network, counts), torch.cat([b.target for b in batches]))
