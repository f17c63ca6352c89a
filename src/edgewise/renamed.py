"""Old names of classes, arguments and recipe fields, and the names that replaced them.

In code and on the command line, an old name raises an error that gives the new name. In run folders
of earlier versions, old names are still read.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from edgewise.errors import ArgumentError

RENAMED: dict[str, tuple[str, ...]] = {
    "accumulate": ("accumulate_grad_batches",),
    "after": ("num_chunks_after",),
    "average": ("ema_decay",),
    "average_last": ("average_last_epochs",),
    "beams": ("num_beams",),
    "before": ("num_chunks_before",),
    "better": ("mode",),
    "both_ways": ("bidirectional",),
    "buckets": ("num_buckets",),
    "column": ("target",),
    "decoder_feed_forward": ("decoder_ffn_dim",),
    "draws": ("random_attention",),
    # Arguments for modules are still called feed_forward.
    "feed_forward": ("ffn_dim",),
    "feed_forward_ratio": ("ffn_ratio",),
    "hashes": ("num_hashes",),
    "head_first": ("freeze_backbone_epochs",),
    "fitted": ("preprocessing",),
    "hidden": ("ffn_dim", "head_width", "width"),
    "label": ("target",),
    "labels": ("target",),
    "least_rating": ("min_rating",),
    "length": ("max_length", "walk_length"),
    "longest": ("longest_text", "max_distance", "max_length", "max_path_length"),
    "masked": ("mask_fraction",),
    "most": ("max_degree", "num_neighbours"),
    "most_distant": ("max_distance",),
    "num_frequencies": ("encoding_width",),
    "one_way": ("causal",),
    "path": ("max_path_length",),
    "reader": ("backbone",),
    "share": ("mask_fraction",),
    "tag": ("target",),
    "target_vocabulary": ("target_vocab_size",),
    "targets": ("target",),
    "threshold": ("halting_threshold",),
    "vocabulary": ("vocab_size",),
    "vocabulary_size": ("vocab_size",),
    "waves": ("encoding_width",),
}
"""New names by old name. Of several, the first that the class or recipe has is the replacement."""

CLASSES = {
    "edgewise.encodings": {"TransformerXL": "TransformerXLRelative"},
    "edgewise.graphs": {"Reordered": "Permuted"},
    "edgewise.layers": {"Reader": "Backbone", "RecurrentReader": "RecurrentBackbone"},
}
"""New names of classes by old name, for each package that exports them."""

DATA_SIZES = {
    "length": "max_length",
    "longest": "longest_text",
    "target_vocabulary": "target_vocab_size",
    "vocabulary": "vocab_size",
}
"""New names by old name, for model arguments that the data determine; run folders record them."""

VALUES = {"mode": {"higher": "max", "lower": "min"}}
"""New values by old value, for each recipe field whose values were renamed."""

PARAMETERS = {"reader": "backbone"}
"""New names of submodules by old name, as they occur in the names of saved parameters."""


def new_name(old: str, known: Collection[str]) -> str | None:
    """Return the name in ``known`` that replaced ``old``; None if ``old`` was not renamed.

    Names may have dots: ``model.feed_forward`` gives ``model.ffn_dim``.
    """
    if old in known:
        return None
    part, dot, name = old.rpartition(".")
    candidates = (f"{part}{dot}{new}" for new in RENAMED.get(name, ()))
    return next((new for new in candidates if new in known), None)


def with_new_names(values: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return a copy of a run's recorded fields, with new names and values in place of old ones.

    Args:
        values: values of the fields, by old or new name.
        known: valid names.
    """
    found = {new_name(name, known) or name: value for name, value in values.items()}
    for name, value in found.items():
        replaced = VALUES.get(name.rpartition(".")[2], {})
        found[name] = replaced.get(value, value) if isinstance(value, str) else value
    return found


def check_not_renamed(argument: str, known: Collection[str]) -> None:
    """Raise ArgumentError if ``argument`` is the old name of an argument in ``known``."""
    new = new_name(argument, known)
    if new is not None:
        raise _renamed(argument, new)


def _renamed(old: str, new: str) -> ArgumentError:
    return ArgumentError(
        old, expected=f"the new name, {new}", got=f"the old name, {old}", remedy=f"write {new}"
    )


def refuse_old_names(package: dict[str, Any]) -> None:
    """Make the old names of a package's classes, and of their arguments, raise an error.

    For arguments of functions, :func:`edgewise.arguments.checked` raises the error.

    Args:
        package: ``globals()`` of the package.
    """
    if package["__name__"] in CLASSES:
        package["__getattr__"] = functools.partial(_missing_attribute, package["__name__"])
    for name in package["__all__"]:
        value = package.get(name)
        if isinstance(value, type) and "__init__" in vars(value):
            _refuse_old_arguments(value)


def _missing_attribute(package: str, name: str) -> None:
    new = CLASSES[package].get(name)
    # `from package import name` would replace the message of an AttributeError.
    raise (
        _renamed(f"{package}.{name}", new)
        if new
        else AttributeError(f"module {package!r} has no attribute {name!r}")
    )


def _refuse_old_arguments(kind: Any) -> None:
    """Make the constructor of a class raise an error for old argument names, if there are any."""
    build = kind.__init__
    known = inspect.signature(build).parameters.keys()
    if not any(new in known for names in RENAMED.values() for new in names):
        return

    @functools.wraps(build)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() - known:
            check_not_renamed(name, known)
        build(self, *args, **kwargs)

    kind.__init__ = checked


def new_parameter_name(name: str) -> str:
    """Return the current name of a parameter, given its name in saved weights."""
    return re.sub(r"\w+", lambda found: PARAMETERS.get(found[0], found[0]), name)
