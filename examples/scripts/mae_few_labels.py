"""Compare pre-training by masked autoencoding with training from scratch, on few labels.

python examples/scripts/mae_few_labels.py mnist --epochs 2 --tuning-epochs 40 [--seeds 3]
python examples/scripts/mae_few_labels.py cifar10 --epochs 10 --tuning-epochs 40 [--seeds 5]

An autoencoder is trained on the training images (60,000 of MNIST, or 10,000 of CIFAR-10) without
their labels. Then its encoder with a new head is trained on one label in a hundred (600 or 100).
For comparison, the same model is trained on the same labels from the initial weights of the
autoencoder, with the same batches, order and number of epochs. Each of the two uses the learning
rate that is best on 1,000 other images. The script prints the accuracy on the test images (10,000
or 2,000). ``--json OUT`` writes OUT-scratch.json and OUT-pretrained.json for docs/results.py.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from edgewise.app.kinds import DATA
from edgewise.app.train import Split
from edgewise.models import mae

CHOSEN_ON = 1000
RATES = (5e-4, 2e-3)
SIZES = {"patch": 4, "width": 64, "depth": 4, "heads": 4, "ffn_dim": 128}


def images_and_labels(*splits: Split) -> tuple[Tensor, Tensor]:
    """Return all images of these splits, and their labels."""
    batches = [split.make(torch.arange(split.count)) for split in splits]
    images = torch.cat([batch.inputs[0] for batch in batches])
    return images, torch.cat([batch.target for batch in batches])


def optimised(
    model: nn.Module, rate: float, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Return AdamW with a schedule: warm-up in a tenth of the steps, then cosine decay."""
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )


def pretrained(model: nn.Module, images: Tensor, epochs: int) -> float:
    """Train the autoencoder ``model``, and return the mean loss of the last epoch."""
    batches = len(images) // 64
    optimizer, schedule = optimised(model, 1e-3, epochs * batches)
    for _ in range(epochs):
        losses = []
        for index in torch.randperm(len(images))[: batches * 64].split(64):
            noise = torch.rand(len(index), model.patches.num_patches)
            loss = model.loss(images[index], noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return statistics.mean(losses)


def tuned(model: nn.Module, images: Tensor, labels: Tensor, rate: float, epochs: int) -> nn.Module:
    """Train the classifier ``model`` with the learning rate ``rate``, and return it."""
    torch.manual_seed(0)  # All trainings use the same batches.
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
    """Train with each learning rate, and return the best classifier and its rate.

    The images at the first 1,000 of ``index`` are used to compare the rates, the others to train.
    """
    learned, chosen_on = index[CHOSEN_ON:], index[:CHOSEN_ON]
    found = []
    for rate in RATES:
        model = tuned(copy.deepcopy(start), images[learned], labels[learned], rate, epochs)
        found.append((accuracy(model, images[chosen_on], labels[chosen_on]), rate, model))
    _, rate, model = max(found, key=lambda one: one[:2])
    return model, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", choices=("mnist", "cifar10"), help="data set")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--epochs", type=int, required=True, help="epochs of the autoencoder")
    parser.add_argument("--tuning-epochs", type=int, required=True, help="epochs on the labels")
    parser.add_argument("--json", metavar="OUT", help="write OUT-scratch.json, OUT-pretrained.json")
    options = parser.parse_args()
    if min(options.seeds, options.epochs, options.tuning_epochs) < 1:
        parser.error("--seeds, --epochs and --tuning-epochs must be at least 1")
    splits = DATA[options.data]().load()
    images, labels = images_and_labels(splits.train, splits.val)
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    images, tests = (images - mean) / std, images_and_labels(splits.test)
    tests = (tests[0] - mean) / std, tests[1]
    channels, side = images.shape[1:3]
    results: dict[str, list[float]] = {"scratch": [], "pretrained": []}
    spent: dict[str, list[float]] = {name: [] for name in results}
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        index = torch.randperm(len(images))[: CHOSEN_ON + len(images) // 100]
        model = mae(side, channels, **SIZES)
        head = nn.Linear(SIZES["width"], splits.model_arguments["out_width"])
        for name, accuracies in results.items():
            began, loss = time.process_time(), ""
            if name == "pretrained":
                loss = f", loss {pretrained(model, images, options.epochs):.3f}"
            start = copy.deepcopy(model).classifier(head.out_features, pool="mean")
            start[-1].load_state_dict(head.state_dict())
            final, rate = best(start, images, labels, index, options.tuning_epochs)
            accuracies.append(accuracy(final, *tests))
            spent[name].append(time.process_time() - began)
            print(f"seed {seed}, {name}: {accuracies[-1]:.4f} (rate {rate}{loss})", flush=True)
    for name, found in results.items():
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        print(f"{name}: {100 * statistics.mean(found):.2f} ± {100 * spread:.2f} %")
        if options.json:
            measured = {
                "test/accuracy": {"mean": statistics.mean(found), "std": spread, "values": found},
                "cpu_seconds": sum(spent[name]),
            }
            path = Path(f"{options.json}-{name}.json")
            path.write_text(json.dumps({"metrics": measured}))


if __name__ == "__main__":
    main()
