"""Attribution of one output of a model that is not a run to its nodes, tokens and edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.explain.attribution import Case, Contributions, Method, contributions
from edgewise.explain.explanation import grid_of
from edgewise.explain.removal import merges_patches, without_patches
from edgewise.explain.texts import decoder_inputs, distinct_target


def attributions(
    model: nn.Module,
    *inputs: Any,
    target: int | tuple[int, ...] | None = None,
    labels: Sequence[str] | None = None,
    method: Method = "auto",
    **keywords: Any,
) -> Contributions:
    """Attribute an output of a model to the nodes or tokens of its input, and to edges.

    The first input is token ids ``[..., N]``, an image ``[1, C, H, W]``, or node features
    ``[..., N, width]`` followed by a graph (or the ``edge_index`` of PyTorch Geometric), whose
    edges are explained as well. The score is the output itself, such as a logit.

    Args:
        model: a model that attends or aggregates with Edgewise, such as one of
            :mod:`edgewise.models`, a PyTorch Geometric model with the layers of
            :mod:`edgewise.interop.pyg`, or a ``transformers`` model with
            ``attn_implementation="edgewise"``.
        inputs: arguments of the model.
        target: index of the output, such as ``(node, class)`` or a class; by default the largest
            output, which needs an output of one row. A single integer indexes the last axis.
        labels: names of the N nodes, tokens or patches, by default their numbers.
        method: method of :func:`edgewise.explain.contributions`.
        keywords: keyword arguments of the model.

    Raises:
        ArgumentError: there are not as many labels as nodes, the output has several rows and
            ``target`` names none, the model does not attend over the nodes or embeds no patches of
            the image, or a decoder computes its own ids from those of the source.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, models
        >>> model, graph = models.gcn(16, 3).eval(), graphs.window(1).bind(10)
        >>> scores = explain.attributions(model, torch.randn(10, 16), graph, target=(4, 2))
        >>> scores.pairs.shape, scores.edges.shape, scores.members.shape
        (torch.Size([2, 9]), torch.Size([9]), torch.Size([10]))
    """
    first = inputs[0] if inputs else None
    if not isinstance(first, Tensor) or first.dim() < 1:
        raise ArgumentError(
            "inputs",
            expected="node features [..., N, width] or token ids [..., N]",
            got=describe(first),
            remedy="pass the arguments of the model in their order",
        )
    is_image = first.is_floating_point() and first.dim() == 4
    by_edge = first.is_floating_point() and not is_image
    count = first.shape[-2 if by_edge else -1]
    grid = grid_of(model) if is_image else None
    if grid is not None:
        count = math.prod(grid)
    elif is_image:
        raise ArgumentError(
            "model",
            expected="an image model with a PatchEmbedding of Edgewise, such as vit",
            got=type(model).__name__,
            remedy="convert a model of transformers with edgewise.interop.huggingface.load",
        )
    labels = list(map(str, range(count) if labels is None else labels))
    if len(labels) != count:
        raise ArgumentError(
            "labels",
            expected=f"{count} names, one for each node or token",
            got=f"{len(labels)} names",
            remedy="pass one name for each node or token, or omit labels",
        )

    decoder_ids, length = keywords.get("decoder_input_ids"), 0
    if isinstance(decoder_ids, Tensor):
        length = decoder_ids.shape[-1]
        for name in ("decoder_input_ids", "decoder_attention_mask"):
            if isinstance(keywords.get(name), Tensor):
                keywords[name] = distinct_target(keywords[name], count)

    def outputs(first: Tensor = first) -> Tensor:
        out = model(first, *inputs[1:], **keywords)
        out = out if isinstance(out, Tensor) else out[0]
        if length and out.dim() > 1 and out.shape[-2] > length:
            out = out[..., :length, :]  # the output of the further id of distinct_target
        return out.squeeze(0) if isinstance(target, int) or target is None else out

    with torch.no_grad(), decoder_inputs(model, keywords) as ids:
        out = outputs()
    if not length and any(len(decoder_row) == count for decoder_row in ids):
        raise ArgumentError(
            "decoder_input_ids",
            expected="the ids that the decoder reads",
            got="none, so that the decoder reads as many tokens as the encoder",
            remedy="pass decoder_input_ids, which are then not mistaken for source tokens",
        )
    if target is None and out.dim() == 1:
        target = int(out.argmax())
    index = (target,) if isinstance(target, int) else target
    if index is None or len(index) != out.dim():
        raise ArgumentError(
            "target",
            expected=f"the index of one number of the output {list(out.shape)}",
            got=repr(target),
            remedy="pass for example target=(node, class)",
        )

    def without(patches: Tensor | None, _: Tensor | None) -> Tensor:
        assert grid is not None
        assert patches is not None
        return outputs(without_patches(first, patches, grid))[index].reshape(1)

    own = None
    if by_edge and len(index) > 1 and out.shape[-2] == count:
        own = torch.tensor([index[-2] % count])
    case = Case(
        lambda: outputs()[index].reshape(1),
        torch.arange(count),
        labels,
        own=own,
        by_edge=by_edge,
        is_odds=False,
        class_token=is_image,
        score_without=without if grid is not None and merges_patches(model) else None,
    )
    return contributions(case, method)
