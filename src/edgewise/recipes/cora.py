"""Recipes on the citation network Cora, public split: published 81.5 % (GCN) and 83.0 % (GAT)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

# The accuracy on 500 papers ties and jumps; the loss on them tells epochs apart.
BY_LOSS = training.Trainer(epochs=200, monitor="val/loss", better="lower")

gcn_cora = Recipe(
    name="gcn-cora",
    summary="Graph convolutional network on Cora: 82 % over ten seeds",
    model=partial(models.gcn, hidden=16, depth=2, dropout=0.5),
    data=data.planetoid(name="Cora"),
    task=tasks.classification(),
    # Only the first convolution decays; layer 0 is the dropout before it.
    optimizer=training.Optimizer("adam", lr=0.01, weight_decay=5e-4, decay_only=r"^layers\.1\."),
    schedule=training.constant(),
    trainer=BY_LOSS,
)

gat_cora = Recipe(
    name="gat-cora",
    summary="Graph attention network on Cora: 83 % over ten seeds",
    model=partial(models.gat, hidden=8, heads=8, output_heads=1, dropout=0.6),
    data=data.planetoid(name="Cora"),
    task=tasks.classification(),
    optimizer=training.Optimizer("adam", lr=0.005, weight_decay=5e-4),
    schedule=training.constant(),
    trainer=replace(BY_LOSS, epochs=300, patience=100),
)

grand_cora = Recipe(
    name="grand-cora",
    summary="Random diffusions that must agree, on Cora (published: 85.4 %)",
    model=partial(models.grand, hidden=32, hops=8, views=4),
    data=data.planetoid(name="Cora", unlabelled=True),
    task=tasks.consistency(weight=1.0, temperature=0.5),
    optimizer=training.Optimizer("adam", lr=0.02, weight_decay=5e-4),
    schedule=training.cosine(warmup=0.0),
    trainer=replace(BY_LOSS, epochs=500),
)
