"""Recipe on a table of molecules and a property."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

molecules = Recipe(
    name="molecules",
    summary="Molecule transformer on your table of SMILES and a property: --data.path mine.csv",
    model=partial(models.molecule_transformer, width=64, depth=4, heads=4, dropout=0.1),
    # All measurements of a molecule are in the same split. The training time hardly depends on the
    # size of the file: epochs of small files are short, and those of large files sample rows.
    data=data.molecule_table(split="molecule", descriptors=True, batch_size=32, epoch_rows=10_000),
    task=tasks.Regression(),
    optimizer=training.OptimizerSettings("adamw", lr=1e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.05),
    trainer=training.TrainerSettings(
        epochs=60, monitor="val/rmse", mode="min", ema_decay=0.99, clip_norm=5.0
    ),
)
