"""Names of the backbone weights of a model, which can be transferred to another task."""

from __future__ import annotations

from collections.abc import Iterable

TRUNK = "trunk."
"""Prefix of the backbone parameters of a text model."""
WRAPPED = ("model.", "network.")
"""Prefixes of the parameters of a model whose outputs are rescaled or combined with a forest's."""
HEAD = "head."
"""Prefix of the head parameters of a graph model."""


def trunk_names(names: Iterable[str]) -> dict[str, str]:
    """Map full names of backbone weights to names in the backbone; empty if it is unknown."""
    names = list(names)
    inner_names = {
        name: name.removeprefix(prefix)
        for prefix in WRAPPED
        for name in names
        if name.startswith(prefix)
    } or {name: name for name in names}
    below = {
        n: short.removeprefix(TRUNK) for n, short in inner_names.items() if short.startswith(TRUNK)
    }
    if below:
        return below
    if not any(name.startswith(HEAD) for name in inner_names.values()):
        return {}
    return {name: short for name, short in inner_names.items() if not short.startswith(HEAD)}
