"""Exact outputs of nodes of a large graph, computed layer by layer over all edges."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from edgewise.app.train.batches import Batch
from edgewise.app.train.evaluation import Evaluation, EvaluationBatch, EvaluationLoader
from edgewise.app.train.neighbours import NeighbourSampler, neighbour_draw
from edgewise.app.train.splits import Loader, Split
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.layers import GraphLayer, GraphSequential

NUMBERS = 1 << 21
"""Maximum number of features that a block of nodes reads; a node with more is a block by itself."""

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
        network = model.model if isinstance(model, TargetScaling) else model
        stages = stages_of(network) or [Stage(network, len(sampler.fanouts))]
        needed = [self._mask(nodes)]
        for stage in stages[:0:-1]:
            needed.append(self._with_sources(needed[-1], stage.reach))
        for stage in stages[:-1]:
            self._features = self._stored(stage, needed.pop().nonzero()[:, 0])
        self._last, self._last_sampler = stages[-1].layers, self._all_edges(stages[-1])

    @torch.no_grad()
    def __call__(self, nodes: Tensor) -> Tensor:
        """Return the outputs ``[n, ...]`` of some of the nodes, each once."""
        outputs = torch.cat(list(self._outputs(self._last, self._last_sampler, nodes)))
        return self.model.rescaled(outputs) if isinstance(self.model, TargetScaling) else outputs

    def _all_edges(self, stage: Stage) -> NeighbourSampler:
        """Return a sampler that takes all edges on which the output of a stage depends."""
        return self._sampler.with_fanouts([-1] * max(stage.reach, 1))

    def _outputs(
        self, layers: nn.Module, sampler: NeighbourSampler, nodes: Tensor
    ) -> Iterator[Tensor]:
        """Yield the outputs of the layers of a stage for each block of nodes."""
        for block in self._blocks(nodes):
            sample = sampler.sample(block, Generator())
            x = self._features(sample.nodes).to(self._device)
            yield layers(x, sample.graph.to(self._device))[: sample.count]

    def _stored(self, stage: Stage, nodes: Tensor) -> Features:
        """Compute the hidden features of nodes, and return a function that looks them up."""
        store, start = torch.empty(0), 0
        for outputs in self._outputs(stage.layers, self._all_edges(stage), nodes):
            if not start:
                shape = self._sampler.num_nodes, *outputs.shape[1:]
                # NumPy has no bfloat16.
                dtype = torch.promote_types(outputs.dtype, torch.float32)
                store = _empty(shape, dtype, self._folder)
            store[nodes[start : start + len(outputs)]] = outputs.to(store)
            start += len(outputs)
        return store.__getitem__

    def _blocks(self, nodes: Tensor) -> tuple[Tensor, ...]:
        """Divide nodes into blocks that together with their sources have ``NUMBERS`` features."""
        rows = max(1, NUMBERS // max(1, self._features(nodes[:1]).shape[-1]))
        number = (self._sampler.degrees(nodes) + 1).cumsum(0) // rows
        sizes = number.unique_consecutive(return_counts=True)[1]
        blocks: tuple[Tensor, ...] = nodes.split(sizes.tolist())
        return blocks

    def _mask(self, nodes: Tensor) -> Tensor:
        mask = torch.zeros(self._sampler.num_nodes, dtype=torch.bool)
        return mask.index_fill_(0, nodes, True)

    def _with_sources(self, targets: Tensor, steps: int) -> Tensor:
        """Return a mask of the targets and the nodes from which ``steps`` edges lead to them."""
        for _ in range(steps):
            mask = targets.clone()
            for block in self._blocks(targets.nonzero()[:, 0]):
                mask[self._sampler.sources(block).long()] = True
            targets = mask
        return targets


def _empty(shape: tuple[int, ...], dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Return a tensor without values, in an unnamed file of ``folder`` if it is given."""
    if folder is None:
        return torch.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile(dir=folder) as file:
        numpy_dtype = torch.empty(0, dtype=dtype).numpy().dtype
        return torch.from_numpy(np.memmap(file, numpy_dtype, "w+", shape=shape))


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
