"""Recipe of node classification on a graph of the user."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

nodes = Recipe(
    name="nodes",
    summary="GraphSAGE classifies nodes: --data.nodes nodes.csv --data.edges edges.csv",
    model=partial(models.graphsage, width=64, depth=2, dropout=0.5),
    data=data.node_files(),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings("adam", lr=0.01, weight_decay=5e-4),
    schedule=training.ConstantSchedule(),
    trainer=training.TrainerSettings(epochs=300, patience=100, monitor="val/loss", mode="min"),
)
