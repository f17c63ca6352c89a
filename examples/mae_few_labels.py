"""Masked autoencoding of MNIST's images, then one label in a hundred: beside the same from scratch.

python examples/mae_few_labels.py [--seeds 3] [--epochs 3] [--tuning-epochs 60]

An autoencoder is trained on the 60,000 training images without their labels. Its encoder with a new
head, and the same model with the weights that the autoencoder began with, are then trained on the
same 600 labels, with the same rates, batches, order and number of epochs; each takes the learning
rate that is best on 1,000 other images. What is printed is the accuracy on the 10,000 test images.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
from torch import Tensor, nn

from edgewise.data.images.mnist import read_mnist
from edgewise.models import mae

LABELLED, CHOSEN_ON = 600, 1000
RATES = (5e-4, 2e-3)
SIZES = {"patch": 4, "width": 64, "depth": 4, "heads": 4, "feed_forward": 128}


def images_and_labels(part: str) -> tuple[Tensor, Tensor]:
    images, labels = read_mnist(part)
    return (images[:, None].float() / 255 - 0.1307) / 0.3081, labels


def optimised(
    model: nn.Module, rate: float, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW, with a tenth of the steps to warm up and a cosine from there."""
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )


def pretrained(model: nn.Module, images: Tensor, epochs: int) -> float:
    """The autoencoder after so many epochs; gives the mean loss of the last."""
    batches = len(images) // 256
    optimizer, schedule = optimised(model, 2e-3, epochs * batches)
    for _ in range(epochs):
        losses = []
        for index in torch.randperm(len(images))[: batches * 256].split(256):
            noise = torch.rand(len(index), model.patches.num_patches)
            loss = model.loss(images[index], noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return statistics.mean(losses)


def tuned(model: nn.Module, images: Tensor, labels: Tensor, rate: float, epochs: int) -> nn.Module:
    """The classifier after so many epochs on these labels."""
    torch.manual_seed(0)  # one order of the batches for all
    optimizer, schedule = optimised(model, rate, epochs * -(-len(images) // 100))
    for _ in range(epochs):
        for index in torch.randperm(len(images)).split(100):
            loss = nn.functional.cross_entropy(model(images[index]), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    found = torch.cat([model(part).argmax(1) for part in images.split(500)])
    return float((found == labels).float().mean())


def best(
    start: nn.Module, images: Tensor, labels: Tensor, index: Tensor, epochs: int
) -> tuple[nn.Module, float]:
    """The classifier with the rate that is best on images that it was not trained on."""
    learned, chosen_on = index[:LABELLED], index[LABELLED:]
    found = []
    for rate in RATES:
        model = tuned(copy.deepcopy(start), images[learned], labels[learned], rate, epochs)
        found.append((accuracy(model, images[chosen_on], labels[chosen_on]), rate, model))
    _, rate, model = max(found, key=lambda one: one[:2])
    return model, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tuning-epochs", type=int, default=60)
    parser.add_argument("--images", type=int, default=60000)
    options = parser.parse_args()
    images, labels = images_and_labels("train")
    tests = images_and_labels("test")
    results: dict[str, list[float]] = {"scratch": [], "pre-trained": []}
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        index = torch.randperm(len(images))[: LABELLED + CHOSEN_ON]
        model = mae(28, 1, decoder_width=32, decoder_depth=2, **SIZES)
        head = nn.Linear(SIZES["width"], 10)
        began = time.perf_counter()
        for name, accuracies in results.items():
            loss = ""
            if name == "pre-trained":
                loss = f", loss {pretrained(model, images[: options.images], options.epochs):.3f}"
            start = copy.deepcopy(model).classifier(10, pool="mean")
            start[-1].load_state_dict(head.state_dict())
            final, rate = best(start, images, labels, index, options.tuning_epochs)
            accuracies.append(accuracy(final, *tests))
            taken = time.perf_counter() - began
            print(
                f"seed {seed}, {name}: {accuracies[-1]:.4f} (rate {rate}{loss}, {taken:.0f} s)",
                flush=True,
            )
    for name, found in results.items():
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        print(f"{name}: {100 * statistics.mean(found):.2f} ± {100 * spread:.2f} %")


if __name__ == "__main__":
    main()
