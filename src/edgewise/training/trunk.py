"""The trunk: the weights of a model that carry over to another task, all but its head's."""

from __future__ import annotations

from collections.abc import Iterable

TRUNK = "trunk."
"""How the names of the parameters below a text model's head begin."""
SCALED = "model."
"""How those of a model begin whose outputs are put into the unit of its targets."""
HEAD = "head."
"""How those of a graph model's head begin."""


def trunk_names(names: Iterable[str]) -> dict[str, str]:
    """The weights of the trunk, and what they are called without what is around it.

    Of a text model all below ``trunk.``; of a graph model with a ``head.`` all others, with their
    targets scaled or not. Of other models none, as nothing says what would carry over.

    Args:
        names: of all parameters, or of all weights that are saved.

    """
    names = list(names)
    below = {name: name.removeprefix(TRUNK) for name in names if name.startswith(TRUNK)}
    if below:
        return below
    scaled = [name for name in names if name.startswith(SCALED)]
    own = {name: name.removeprefix(SCALED) for name in scaled or names}
    if not any(name.startswith(HEAD) for name in own.values()):
        return {}
    return {name: short for name, short in own.items() if not short.startswith(HEAD)}
