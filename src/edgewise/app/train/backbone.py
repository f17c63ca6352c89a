"""Names of the backbone weights of a model, which can be transferred to another task."""

from __future__ import annotations

from collections.abc import Iterable

TRUNK = "trunk."
"""Prefix of the backbone parameters of a text model."""
SCALED = "model."
"""Prefix of the parameters of a model that is wrapped to rescale its outputs."""
HEAD = "head."
"""Prefix of the head parameters of a graph model."""


def trunk_names(names: Iterable[str]) -> dict[str, str]:
    """Return a dict from the full names of the backbone weights to their names in the backbone.

    In a text model, the backbone weights are those whose name begins with ``trunk.``. In a graph
    model that has weights ``head.``, they are all other weights. For other models, the backbone is
    not known, and the result is empty.
    """
    names = list(names)
    scaled = [name for name in names if name.startswith(SCALED)]
    inner_names = {name: name.removeprefix(SCALED) for name in scaled or names}
    below = {
        n: short.removeprefix(TRUNK) for n, short in inner_names.items() if short.startswith(TRUNK)
    }
    if below:
        return below
    if not any(name.startswith(HEAD) for name in inner_names.values()):
        return {}
    return {name: short for name, short in inner_names.items() if not short.startswith(HEAD)}
