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
    """Map full names of backbone weights to names in the backbone; empty if it is unknown."""
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
