"""Exact outputs of nodes of a large graph, computed layer by layer over all edges."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.batches import Batch
from edgewise.app.train.evaluation import Evaluation, EvaluationBatch, EvaluationLoader
from edgewise.app.train.neighbours import NeighbourSampler, check_nodes, neighbour_draw
from edgewise.app.train.splits import Loader, Split
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.layers import GraphLayer, GraphSequential

NUMBERS = 1 << 21
"""Approximate maximum of numbers in memory at the widest layer for a block: nodes that are computed
together, and their sources. One node with its sources may exceed it."""

SOURCE_WIDTH = 8
"""The same for the search of sources, which has about this many integers for each edge."""

Features = Callable[[Tensor], Tensor]
"""Function that returns the features ``[n, F]`` of nodes ``[n]``."""


class Stage(NamedTuple):
    """Layers whose output for a node depends on the nodes up to ``reach`` steps away."""

    layers: nn.Module
    reach: int


def stages_of(model: nn.Module) -> list[Stage] | None:
    """Divide a model into stages with one layer each that uses edges; ``None`` if a layer depends
    on nodes at an unknown or unlimited number of steps.
    """
    if not isinstance(model, GraphLayer):
        return None
    stages: list[Stage] = []
    modules: list[nn.Module] = []
    reach = 0
    for module in model.stages():
        steps = module.reach if isinstance(module, GraphLayer) else 0
        if steps is None:
            return None
        if reach and steps:
            stages.append(Stage(GraphSequential(*modules), reach))
            modules, reach = [], 0
        modules.append(module)
        reach += steps
    return [*stages, Stage(GraphSequential(*modules), reach)]


class LayerwiseOutputs:
    """Outputs of a model for nodes of a large graph, equal to those on the whole graph.

    Each layer is computed for blocks of nodes, from all edges into them. Memory holds one block
    with its neighbours, and the hidden features of two layers, which are in files if ``folder`` is
    given. Hidden features are computed once, and only for nodes on which the outputs of ``nodes``
    depend. A model whose stages are unknown is called with all edges over as many steps as the
    sampler has fanouts.

    Args:
        model: model in evaluation mode, whose weights do not change between calls.
        sampler: sampler of the whole graph.
        features: input features of nodes.
        nodes: nodes ``[M]`` for which the object can be called.
        folder: folder for temporary files.

    Raises:
        ArgumentError: the model is in training mode, or called for other nodes than ``nodes``.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> from edgewise.app.train import LayerwiseOutputs, NeighbourSampler
        >>> graph, x = graphs.window(2).bind(100), torch.randn(100, 8)
        >>> model, nodes = models.gcn(8, 3).eval(), torch.arange(50)
        >>> outputs = LayerwiseOutputs(model, NeighbourSampler(graph, [2, 2]), x.__getitem__, nodes)
        >>> torch.allclose(outputs(nodes), model(x, graph)[:50], atol=1e-6)
        True
    """

    @torch.no_grad()
    def __init__(
        self,
        model: nn.Module,
        sampler: NeighbourSampler,
        features: Features,
        nodes: Tensor,
        folder: Path | None = None,
    ) -> None:
        self.model, self._sampler, self._features, self._folder = model, sampler, features, folder
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._check_mode()
        check_nodes("nodes", nodes, sampler.num_nodes)
        network = model.model if isinstance(model, TargetScaling) else model
        stages = stages_of(network) or [Stage(network, len(sampler.fanouts))]
        self._mask = torch.zeros(sampler.num_nodes, dtype=torch.bool).index_fill_(0, nodes, True)
        needed = [self._mask]
        for stage in stages[:0:-1]:
            needed.append(self._with_sources(needed[-1], stage.reach))
        for stage in stages[:-1]:
            self._features = self._stored(stage, needed.pop().nonzero()[:, 0])
        self._last, self._last_sampler = stages[-1].layers, self._all_edges(stages[-1])

    @torch.no_grad()
    def __call__(self, nodes: Tensor) -> Tensor:
        """Return the outputs ``[n, ...]`` of some of the nodes, each once."""
        self._check_mode()
        check_nodes("nodes", nodes, self._sampler.num_nodes)
        is_other = ~self._mask[nodes]
        if is_other.any():
            raise ArgumentError(
                "nodes",
                expected="nodes for which this LayerwiseOutputs was created",
                got=f"node {int(nodes[is_other][0])}",
                remedy="create it with all nodes whose outputs you need",
            )
        outputs = torch.cat(list(self._outputs(self._last, self._last_sampler, nodes)))
        return self.model.rescaled(outputs) if isinstance(self.model, TargetScaling) else outputs

    def _check_mode(self) -> None:
        if self.model.training:
            raise ArgumentError(
                "model",
                expected="a model in evaluation mode",
                got="a model in training mode",
                remedy="call model.eval()",
            )

    def _all_edges(self, stage: Stage) -> NeighbourSampler:
        """Return a sampler that takes all edges on which the output of a stage depends."""
        return self._sampler.with_fanouts([-1] * max(stage.reach, 1))

    def _outputs(
        self, layers: nn.Module, sampler: NeighbourSampler, nodes: Tensor
    ) -> Iterator[Tensor]:
        """Yield the outputs of the layers of a stage for each block of nodes; the first block has
        one node, or none if there are none.
        """

        def outputs(block: Tensor) -> Tensor:
            sample = sampler.sample(block, Generator())
            x = self._features(sample.nodes).to(self._device)
            result: Tensor = layers(x, sample.graph.to(self._device))
            return result[: sample.count]

        with _recorded_widths(layers) as widths:
            yield outputs(nodes[:1])
        width = max([self._features(nodes[:1]).shape[-1], *widths])
        yield from map(outputs, self._blocks(nodes[1:], width))

    def _stored(self, stage: Stage, nodes: Tensor) -> Features:
        """Compute the hidden features of nodes, and return a function that looks them up."""
        store, start = torch.empty(0), 0
        for outputs in self._outputs(stage.layers, self._all_edges(stage), nodes):
            if not start:
                shape = self._sampler.num_nodes, *outputs.shape[1:]
                store = _empty(shape, outputs.dtype, self._folder)
            store[nodes[start : start + len(outputs)]] = outputs.to(store)
            start += len(outputs)
        return store.__getitem__

    def _blocks(self, nodes: Tensor, width: int) -> tuple[Tensor, ...]:
        """Divide nodes into blocks that together with their sources have ``NUMBERS`` features, if
        each has ``width``.
        """
        rows = max(1, NUMBERS // max(1, width))
        number = (self._sampler.degrees(nodes) + 1).cumsum(0) // rows
        sizes = number.unique_consecutive(return_counts=True)[1]
        blocks: tuple[Tensor, ...] = nodes.split(sizes.tolist())
        return blocks

    def _with_sources(self, targets: Tensor, steps: int) -> Tensor:
        """Return a mask of the targets and the nodes from which ``steps`` edges lead to them."""
        for _ in range(steps):
            mask = targets.clone()
            for block in self._blocks(targets.nonzero()[:, 0], SOURCE_WIDTH):
                mask[self._sampler.sources(block).long()] = True
            targets = mask
        return targets


def _empty(shape: tuple[int, ...], dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Return a tensor without values, in an unnamed file of ``folder`` if it is given."""
    if folder is None:
        return torch.empty(shape, dtype=dtype)
    # As bytes, because NumPy has no bfloat16.
    byte_shape = *shape[:-1], shape[-1] * dtype.itemsize
    with tempfile.TemporaryFile(dir=folder) as file:
        return torch.from_numpy(np.memmap(file, np.uint8, "w+", shape=byte_shape)).view(dtype)


@contextmanager
def _recorded_widths(layers: nn.Module) -> Iterator[list[int]]:
    """Record the number of features of the outputs of all modules of ``layers``."""
    widths: list[int] = []

    def record(_module: nn.Module, _inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.dim():
            widths.append(output.shape[-1])

    hooks = [module.register_forward_hook(record) for module in layers.modules()]
    try:
        yield widths
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True, kw_only=True)
class LayerwiseBatch(EvaluationBatch):
    """Batch of nodes whose outputs are computed layer by layer.

    Attributes:
        nodes: the nodes, in the order of ``target``.
        evaluation: function that returns the :class:`LayerwiseOutputs` of a model.
        neighbourhood: function that returns a batch of these nodes with features and edges.
    """

    nodes: Tensor
    evaluation: Evaluation[LayerwiseOutputs]
    neighbourhood: Callable[[], Batch]

    def outputs(self, model: nn.Module) -> Tensor:
        return self.evaluation(model)(self.nodes)


@dataclass(frozen=True, kw_only=True)
class LayerwiseSplit(Split):
    """Split of nodes of a large graph for evaluation. Its loaders compute the outputs layer by
    layer; ``make`` returns neighbourhoods with all edges.
    """

    nodes: Tensor
    target: Tensor
    outputs_of: Callable[[nn.Module], LayerwiseOutputs]

    @classmethod
    def of(
        cls,
        sampler: NeighbourSampler,
        features: Features,
        target: Tensor,
        nodes: Tensor,
        folder: Path | None = None,
    ) -> LayerwiseSplit:
        """Create a split of nodes ``[M]``; ``target`` has a row for each node of the graph."""
        every = sampler.with_fanouts([-1] * len(sampler.fanouts))
        draw = neighbour_draw(every, features, target, nodes)
        return cls(
            len(nodes),
            lambda index: draw(index, Generator()),
            nodes=nodes,
            target=target[nodes],
            outputs_of=partial(
                LayerwiseOutputs, sampler=sampler, features=features, nodes=nodes, folder=folder
            ),
        )

    def loader(self, batch_size: int, seed: int | None) -> Loader:  # noqa: ARG002
        def make(index: Tensor) -> Batch:
            return LayerwiseBatch(
                (),
                self.target[index],
                nodes=self.nodes[index],
                evaluation=Evaluation(self.outputs_of),
                neighbourhood=partial(self.make, index),
            )

        return EvaluationLoader(make, self.count, batch_size)
