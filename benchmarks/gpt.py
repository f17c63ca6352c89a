"""Time of a training step of the recipe `gpt-shakespeare`, in Edgewise and in plain PyTorch.

    EDGEWISE_DATA=../shared/data python benchmarks/gpt.py [--rounds N] [--steps N] [--train]

First, the losses and gradients of both models with the same weights must agree. Then training steps
(forward, loss, backward, clipping, AdamW) of both alternate. The result is the step time of plain
PyTorch divided by that of Edgewise: above 1, Edgewise is faster. Each round gives the ratio of the
median steps, and the result is the median over rounds. Times are wall times, so the machine should
be idle. With `--train`, the plain model is trained to the end instead, and its test loss is
printed.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.app.kinds import find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import Batch, Recipe


class PlainBlock(nn.Module):
    """Transformer layer of GPT-2, with the norms before attention and FFN."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).split(width, dim=-1)
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (query, key, value)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PlainGPT(nn.Module):
    """GPT in plain PyTorch, with tied embedding and output weights."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(PlainBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def plain_copy(model: nn.Module) -> PlainGPT:
    """Return a model in plain PyTorch with the weights of an Edgewise model."""
    mine = {name.removeprefix("trunk."): value for name, value in model.state_dict().items()}
    vocabulary, width = mine["embedding.tokens.weight"].shape
    depth = sum(name.endswith("qkv.weight") for name in mine)
    heads = model.trunk.backbone.stack.layers[0].attention.sublayer.heads
    length = mine["embedding.positions.table"].shape[0]
    plain = PlainGPT(vocabulary, length, width, depth, heads)
    weights = {
        "tokens.weight": mine["embedding.tokens.weight"],
        "positions.weight": mine["embedding.positions.table"],
        "norm.weight": mine["backbone.stack.norm.weight"],
        "norm.bias": mine["backbone.stack.norm.bias"],
    }
    for i in range(depth):
        ours, theirs = f"backbone.stack.layers.{i}", f"blocks.{i}"
        for kind in ("weight", "bias"):
            for theirs_name, ours_name in (
                ("qkv", "attention.sublayer.qkv"),
                ("out", "attention.sublayer.output"),
                ("up", "feed_forward.sublayer.0"),
                ("down", "feed_forward.sublayer.3"),
                ("norm1", "attention.norm"),
                ("norm2", "feed_forward.norm"),
            ):
                weights[f"{theirs}.{theirs_name}.{kind}"] = mine[f"{ours}.{ours_name}.{kind}"]
    plain.load_state_dict(weights)
    return plain


def check_same(model: nn.Module, plain: PlainGPT, batch: Batch) -> None:
    """Check that losses and gradients of the embedding agree, with weights multiplied by 3."""
    model, plain = copy.deepcopy(model), copy.deepcopy(plain)
    with torch.no_grad():
        for parameter in (*model.parameters(), *plain.parameters()):
            parameter.mul_(3)  # Small weights would hide a wrong activation function.
    losses = []
    for scores in (model(*batch.inputs, **batch.keywords), of_plain(plain, batch)):
        loss = F.cross_entropy(scores, batch.target)
        loss.backward()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
    gradients = model.trunk.embedding.tokens.weight.grad, plain.tokens.weight.grad
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def of_plain(plain: PlainGPT, batch: Batch) -> Tensor:
    """Return the plain model's logits for the tokens that have targets."""
    scores = plain(batch.inputs[0].ids).flatten(0, 1)
    return batch.select_outputs(scores)


def stepper(
    recipe: Recipe, model: nn.Module, call: Callable[[Batch], Tensor]
) -> Callable[[Batch], Tensor]:
    """Return a function that makes one training step of ``model`` on a batch and returns the loss.

    ``call`` returns the outputs of the model for a batch.
    """
    optimizer = recipe.optimizer.build(model)
    parameters = list(model.parameters())

    def step(batch: Batch) -> Tensor:
        optimizer.zero_grad()
        loss = recipe.task.loss(call(batch), batch.target)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, recipe.trainer.clip_norm)
        optimizer.step()
        return loss.detach()

    return step


def train_plain(recipe: Recipe, plain: PlainGPT, loaders: dict) -> float:
    """Train the plain model with the settings of the recipe, and return its test loss."""
    optimizer = recipe.optimizer.build(plain)
    total, step = recipe.trainer.epochs * len(loaders["train"]), 0
    for epoch in range(recipe.trainer.epochs):
        loaders["train"].set_epoch(epoch)
        for batch in loaders["train"]:
            for group in optimizer.param_groups:
                group["lr"] = recipe.optimizer.lr * recipe.schedule.factor(step, total)
            optimizer.zero_grad()
            F.cross_entropy(of_plain(plain, batch), batch.target).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), recipe.trainer.clip_norm)
            optimizer.step()
            step += 1
    with torch.no_grad():
        losses = [
            F.cross_entropy(of_plain(plain, b), b.target, reduction="sum") for b in loaders["test"]
        ]
    return float(sum(losses)) / sum(len(b.target) for b in loaders["test"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="number of rounds")
    parser.add_argument("--steps", type=int, default=20, help="steps of each model per round")
    parser.add_argument(
        "--train", action="store_true", help="train the plain model to the end, without timing"
    )
    options = parser.parse_args()
    recipe = find("gpt-shakespeare")
    model, splits = prepare(recipe)
    loaders = splits.loaders(recipe.seed)
    model.train()
    plain = plain_copy(model)
    batches = [batch for batch, _ in zip(loaders["train"], range(options.steps), strict=False)]
    check_same(model, plain, batches[0])
    if options.train:
        print(f"plain PyTorch: test/loss {train_plain(recipe, plain, loaders):.4f}")
        return
    steps = {
        "ours": stepper(recipe, model, lambda batch: model(*batch.inputs, **batch.keywords)),
        "plain": stepper(recipe, plain, lambda batch: of_plain(plain, batch)),
    }
    medians: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(options.rounds + 1):
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for batch in batches:  # Alternate, so that other load affects both models equally.
            for name in sorted(steps, reverse=bool(len(taken["ours"]) % 2)):
                start = time.perf_counter()
                steps[name](batch)
                taken[name].append(time.perf_counter() - start)
        if round_number:  # The first round is a warm-up.
            for name, seconds in taken.items():
                medians[name].append(statistics.median(seconds))
    ratios = sorted(p / o for o, p in zip(medians["ours"], medians["plain"], strict=True))
    for name, seconds in medians.items():
        print(f"{name:6} {1e3 * statistics.median(seconds):7.2f} ms per step")
    print(
        f"plain / ours {statistics.median(ratios):.3f} "
        f"(from {ratios[0]:.3f} to {ratios[-1]:.3f} over {options.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
