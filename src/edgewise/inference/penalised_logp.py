"""Penalised logP of molecules, by models of ZINC."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.data.molecules.zinc import ZINC, molecule_graph
from edgewise.data.packed import PackedGraphs
from edgewise.inference.molecules import read_smiles
from edgewise.inference.predictor import Answer, Predictor
from edgewise.tasks import Regression


class PenalisedLogP(Predictor):
    """What a model of ZINC takes for the penalised logP of a molecule, given as SMILES.

    A number without a unit; :func:`edgewise.data.molecules.zinc.penalised_logp` computes the truth.
    """

    data, task, input = ZINC, Regression, "a molecule as SMILES"
    batch_size = 256

    def columns(self) -> tuple[str, ...]:
        return ("smiles",)

    def prepare(self, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        return molecule_graph(read_smiles(value))

    def answer(self, examples: list[tuple[Tensor, Tensor, Tensor]]) -> list[Answer]:
        assert isinstance(self.recipe.data, ZINC)
        graphs = PackedGraphs.of(*map(list, zip(*examples, strict=True)))
        batch = self.recipe.data.inputs(graphs, torch.arange(len(graphs)))
        outputs = self.model(*batch.inputs, **batch.keywords)[:, 0].tolist()
        return [{"penalised_logp": value} for value in outputs]
