"""Explanations of predictions of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from edgewise.app.kinds.images.predict import OnImages
from edgewise.app.kinds.images.reasons import _of_image
from edgewise.app.kinds.language.predict import Continuations
from edgewise.app.kinds.language.reasons import _of_beginning
from edgewise.app.kinds.molecules.predict import HiddenAtoms, MoleculeProperties, PenalisedLogP
from edgewise.app.kinds.molecules.reasons import _of_molecule
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.kinds.translation.reasons import _of_translation
from edgewise.app.predict.pages import _of_nodes, _of_text
from edgewise.app.predict.texts import OnTexts
from edgewise.explain.explanation import Explanation
from edgewise.explain.losses import warn_if_unused
from edgewise.explain.module_names import naming_the_run


def _of_run(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    warn_if_unused(run.model)
    predictor = run.predictor
    explain = next((one for kind, one in KINDS.items() if isinstance(predictor, kind)), _of_nodes)
    value = predictor.given(value)
    predictor.prepare(value)  # This raises an error if the input is invalid.
    with (
        torch.no_grad(),
        naming_the_run(run, "a run whose model computes attention over its inputs"),
    ):
        return explain(run, value, recording)


KINDS: dict[type, Callable[[Any, Any, Mapping[str, Any]], Explanation]] = {
    Continuations: _of_beginning,
    Translations: _of_translation,
    OnTexts: _of_text,
    MoleculeProperties: _of_molecule,
    PenalisedLogP: _of_molecule,
    HiddenAtoms: _of_molecule,
    OnImages: _of_image,
}
"""Functions that explain a prediction, by class of the predictor; the default is ``_of_nodes``."""


ORDERED = (OnTexts, OnImages, Forecasts)
"""Classes of predictors whose nodes are tokens, patches or time steps."""


def has_order(run: Any) -> bool:
    """Return whether the nodes of a run have an order, which gives distances between them."""
    return isinstance(run.predictor, ORDERED)
