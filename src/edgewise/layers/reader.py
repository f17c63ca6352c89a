"""Sequences through a stack of layers: padded or packed, in one go or step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.biases import add_terms
from edgewise.encodings import packed_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, batch, complete
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache


@dataclass(frozen=True, eq=False)
class Memory:
    """Another sequence that a decoder reads, such as an encoder's output or an image's patches.

    Attributes:
        states: ``[..., S, width]``.
        mask: ``[B, S]``, 0 where a state is padding; ``None`` where none is.
        sizes: how many of the S states each member of a packed batch has.
    """

    states: Tensor
    mask: Tensor | None = None
    sizes: Sizes | None = None

    def terms(self, targets: int, sizes: Sizes | None) -> dict[str, Any]:
        """What a decoder layer wants to know, for so many targets, packed with these sizes."""
        if (sizes is None) != (self.sizes is None):
            raise ArgumentError(
                "sizes",
                expected="source and target both packed, or both padded",
                got="sizes for one of them",
                remedy="pass sizes for both, or an attention mask for both",
            )
        pattern = complete() if sizes is None else batch(complete(), sizes, self.sizes)
        graph = pattern.bind(targets, self.states.shape[-2]).to(self.states.device)
        bias = padding_bias(self.mask, graph, self.states)
        return {"source": self.states, "source_graph": graph, "source_bias": bias}

    def repeated(self, times: int) -> Memory:
        """The same with every member of the batch so many times in a row."""
        mask = None if self.mask is None else self.mask.repeat_interleave(times, 0)
        return Memory(self.states.repeat_interleave(times, 0), mask)


class Reader(nn.Module):
    """A stack of layers on a graph, with what sequences need: padding, packing, and a cache.

    Args:
        stack: called ``stack(x, graph, **terms)``, with the terms of a Transformer layer.
        graph: the pattern that it reads, where a call gives no other.
        relative: positions on the edges; :data:`edgewise.encodings.RELATIVE`.
    """

    def __init__(
        self, stack: nn.Module, graph: Pattern, *, relative: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.stack, self.graph, self.relative = stack, graph, relative

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """States of x, ``[..., T, width]``.

        Args:
            x: ``[B, T, width]``, or a packed batch ``[N, width]`` with ``sizes``.
            attention_mask: ``[B, T]``, 0 where a node is padding, which nobody reads; with a
                cache, the nodes that it holds come first.
            sizes: how many of the N nodes each sequence of a packed batch has.
            positions: ``[..., T]``, for rotary layers; by default 0, 1, ... in each sequence.
            graph: who reads whom, in place of the reader's own pattern.
            memory: another sequence to read.
            cache: what earlier calls computed; the nodes of x come after it.

        Raises:
            ArgumentError: a mask or sizes that do not fit x, or both; a graph of other sizes.
        """
        count, past = x.shape[-2], cache.length if cache is not None else 0
        positions = positions_of(x, attention_mask, sizes, positions, past)
        pattern = self.graph if graph is None else graph
        if sizes is not None and not isinstance(pattern, Graph):
            pattern = batch(pattern, sizes)
        bound = pattern.bind(count, past + count).to(x.device)
        terms: dict[str, Any] = dict(self.relative(bound)) if self.relative is not None else {}
        terms["bias"] = add_terms(terms.get("bias"), padding_bias(attention_mask, bound, x))
        if memory is not None:
            terms.update(memory.terms(count, sizes))
        states: Tensor = self.stack(x, bound, positions=positions, cache=cache, **terms)
        if cache is not None:
            cache.length += count
        return states


def positions_of(
    x: Tensor,
    mask: Tensor | None,
    sizes: Sizes | None,
    positions: Tensor | None = None,
    past: int = 0,
) -> Tensor | None:
    """The positions given, else those that sizes or a cache imply; ``None`` for 0, 1, ...

    Raises:
        ArgumentError: a mask or sizes that do not fit x ``[..., T, width]``.
    """
    check_layout(x, mask, sizes, past)
    if positions is not None:
        return positions
    if sizes is not None:
        return packed_positions(sizes).to(x.device)
    return torch.arange(past, past + x.shape[-2], device=x.device) if past else None


def padding_bias(mask: Tensor | None, graph: Graph, like: Tensor) -> Tensor | None:
    """``[B, E, 1]``: -inf on the edges out of padding; ``None`` where there is no padding."""
    if mask is None or bool(mask.all()):
        return None
    reads = mask.bool()[:, graph.source, None]
    return torch.zeros(reads.shape, dtype=like.dtype, device=like.device).masked_fill(
        ~reads, -torch.inf
    )


def check_layout(x: Tensor, mask: Tensor | None, sizes: Sizes | None, past: int) -> None:
    """Mask and sizes fit the features."""
    count = x.shape[-2]
    if mask is not None and tuple(mask.shape) != (*x.shape[:-2], past + count):
        raise ArgumentError(
            "attention_mask",
            expected=f"shape {[*x.shape[:-2], past + count]}, as the tokens have",
            got=f"shape {list(mask.shape)}",
            remedy="give 1 for every token and 0 for padding, cached tokens first",
        )
    if sizes is None:
        return
    if x.dim() != 2 or mask is not None or past or int(torch.as_tensor(sizes).sum()) != count:
        raise ArgumentError(
            "sizes",
            expected="the lengths of the sequences on one packed axis, without mask or cache",
            got=f"sizes that sum to {int(torch.as_tensor(sizes).sum())} for {list(x.shape[:-1])}"
            f" tokens{', a mask' if mask is not None else ''}{', a cache' if past else ''}",
            remedy="concatenate the sequences, or pad them and pass attention_mask",
        )
