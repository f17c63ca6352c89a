"""Train a small convolutional network on the images of a Vision Transformer's run, to compare them.

The first argument is the folder of that run; the second is the folder for the new run.

python examples/scripts/convolutions_beside.py runs/cifar-small runs/cifar-convolutions
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import nn

from edgewise.app.runs import load_recipe
from edgewise.app.train import RunFolder, fit, seed_everything


def convolutions(channels: int, out_width: int, width: int = 32) -> nn.Sequential:
    """Return a network of three stages with two convolutions each.

    Each stage has twice as many channels as the previous one, and half its height and width.
    """
    layers: list[nn.Module] = []
    for stage in range(3):
        wide = width * 2**stage
        for fan_in in (channels, wide):
            layers += [nn.Conv2d(fan_in, wide, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(wide), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, out_width))


def main() -> None:
    """Train the network with the data, optimizer and number of epochs of the run."""
    recipe = load_recipe(RunFolder(Path(sys.argv[1])))
    splits = recipe.data.load()
    sizes = {n: splits.model_arguments[n] for n in ("channels", "out_width")}
    seed_everything(recipe.seed)
    metrics = fit(
        convolutions(**sizes),
        recipe.task,
        splits.loaders(recipe.seed),
        RunFolder(Path(sys.argv[2])),
        optimizer=recipe.optimizer,
        schedule=recipe.schedule,
        trainer=recipe.trainer,
    )
    for name, value in metrics.items():
        print(f"{name} {value:.4f}")


if __name__ == "__main__":
    main()
