"""Recipe on images of the user."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

images = Recipe(
    name="images",
    summary="Vision Transformer on your images, one folder per class: --data.path images/",
    # Patches of 4 pixels learned more slowly on a small folder, at four times the cost.
    model=partial(models.vit, patch=8, width=128, depth=6, heads=4, ffn_dim=256, dropout=0.1),
    data=data.image_folder(flip=True, warp=0.1),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings(name="adamw", lr=1e-3, weight_decay=0.05),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=30, clip_norm=1.0),
)
