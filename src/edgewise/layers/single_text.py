"""Base class of text backbones without cross-attention, and errors for what they do not accept."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.layers.text import Memory, SequenceBatch


class SingleTextBackbone(nn.Module):
    """Base class of text backbones without cross-attention; subclasses implement :meth:`run`.

    Attributes:
        name: name of the model, for error messages.
        takes_graph: whether a call may replace the attention graph.
        caches: whether a cache can continue a text.
        why_no_cache: reason why the model has no cache, for error messages.
    """

    name: str
    takes_graph = False
    caches = False
    why_no_cache = "reads a text as a whole"

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Return the states of x, of the same shape except for the feature size.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing, positions and cache; none by default.
            graph: attention graph, instead of the default.
            memory: must be None, because there is no cross-attention.

        Raises:
            ArgumentError: ``graph``, ``memory`` or a cache is given to a model that does not accept
                it.
        """
        if not self.takes_graph:
            refuse_graph(self.name, graph)
        sequences = sequences or SequenceBatch.of_features(x)
        if not self.caches:
            refuse_cache(self.name, sequences, memory, self.why_no_cache)
        refuse_memory(self.name, memory)
        return self.run(x, sequences, graph)

    def run(self, x: Tensor, sequences: SequenceBatch, graph: Pattern | None) -> Tensor:
        """Return the states of the features x; the arguments are those of :meth:`forward`."""
        raise NotImplementedError


def refuse_memory(name: str, memory: Memory | None) -> None:
    """Raise ArgumentError if ``memory`` is given to a model without cross-attention."""
    if memory is not None:
        raise ArgumentError(
            "memory",
            expected=f"None, because {name} reads one text",
            got=type(memory).__name__,
            remedy="use transformer for a pair of texts",
        )


def refuse_cache(
    name: str,
    sequences: SequenceBatch,
    memory: Memory | None = None,
    why: str = "reads a text as a whole",
) -> None:
    """Raise ArgumentError if a cache or a memory is given to a model that supports neither.

    Args:
        name: name of the model.
        sequences: sequences of the call, with the cache.
        memory: sequence for cross-attention.
        why: reason why the model has no cache, which follows its name in the error message.
    """
    for argument, state in (("cache", sequences.cache), ("memory", memory)):
        if state is not None:
            raise ArgumentError(
                argument,
                expected=f"None, because {name} {why}",
                got=type(state).__name__,
                remedy="use a causal model, such as gpt, or transformer for a pair of texts; "
                "models with causal attention also generate with generate(..., cached=False)",
            )


def refuse_graph(name: str, graph: Pattern | None) -> None:
    """Raise ArgumentError unless ``graph`` is None, for models that build their own graph."""
    if graph is not None:
        raise ArgumentError(
            "graph",
            expected=f"None, because {name} builds its own graph",
            got=type(graph).__name__,
            remedy="use bert, gpt or transformer, which take a graph",
        )
