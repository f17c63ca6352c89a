"""Choice of the attention heads to prune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from edgewise.arguments import check_share
from edgewise.errors import ArgumentError


def least_important(
    scores: Mapping[str, Tensor], fraction: float, layers: Mapping[str, Sequence[int]] | None = None
) -> dict[str, list[int]]:
    """Return the least important heads of a model, for :func:`edgewise.explain.prune`.

    As in Michel et al. (2019), the scores of a layer are divided by their Euclidean norm, and heads
    are removed in the order of these scores. Each layer keeps at least one head.

    Args:
        scores: importance ``[H]`` of the heads of each layer, of
            :func:`edgewise.explain.importance`.
        fraction: fraction of all heads to remove, rounded to a number of heads.
        layers: heads of each layer that can be removed, of
            :func:`edgewise.explain.layers_with_heads`; all by default. Layers that only ``scores``
            has are left as they are. In a pruned layer, the scores are those of its heads in order.

    Raises:
        ArgumentError: no layer has two heads, or the fraction is not reached with one head left in
            each layer.
    """
    check_share("fraction", fraction, "choose for example 0.2")
    names = {
        name: list(range(len(own)) if layers is None else layers[name])
        for name, own in scores.items()
        if layers is None or name in layers
    }
    every = []
    for name, heads in names.items():
        relative = scores[name] / scores[name].norm().clamp(min=1e-30)
        every += [(float(value), name, head) for value, head in zip(relative, heads, strict=True)]
    wanted = round(fraction * len(every))
    most = sum(len(heads) - 1 for heads in names.values())
    if wanted > most or not most:
        raise ArgumentError(
            "fraction",
            expected=f"a fraction of at most {most / max(len(every), 1):.2f}, which leaves one "
            f"head in each of {len(names)} layers",
            got=f"{fraction:g} of {len(every)} heads",
            remedy="choose a smaller fraction" if most else "choose a model with several heads",
        )
    chosen: dict[str, list[int]] = {}
    for _, name, head in sorted(every):
        if sum(map(len, chosen.values())) == wanted:
            break
        if len(chosen.get(name, ())) < len(names[name]) - 1:
            chosen.setdefault(name, []).append(head)
    return {name: sorted(chosen[name]) for name in names if name in chosen}
