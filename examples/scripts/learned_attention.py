"""Learned attention spans and learned sparsity of heads in small language models.

    python examples/scripts/learned_attention.py runs/learned_attention          # print the tables
    python examples/scripts/learned_attention.py runs/learned_attention --plot   # also plot them

The models predict characters of Shakespeare and are trained for a few hundred steps. The first
table compares learned spans on texts of 256 characters: heads that start with a span of 256, heads
that start with 0, and heads that start with 0 and have a penalty on the span in the loss. The
second table compares softmax, 1.5-entmax and entmax with a learned α for each head, on texts of 64
characters. Models that are already in the folder are not trained again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import models
from edgewise.app.kinds import RECIPES
from edgewise.app.kinds.language import Shakespeare
from edgewise.app.runs import Run, train
from edgewise.app.train import Recipe
from edgewise.layers import LearnedEntmax, MultiHeadAttention
from edgewise.models.adaptive_span import SpanAttention, radii_of

CONTEXT = 256
SIZES: dict[str, Any] = {"width": 64, "depth": 3, "heads": 4, "ffn_dim": 256, "dropout": 0.0}
SPANS: dict[str, dict[str, Any]] = {
    "from 256": {"begin": CONTEXT, "penalty": 0.0},
    "from 0": {"penalty": 0.0},
    "from 0, at a price": {"penalty": 5e-6},
}
NORMALISERS = ["softmax", "entmax", "learned"]
BASE = RECIPES["gpt-shakespeare"]


def span_recipe(options: dict[str, Any]) -> Recipe:
    """Return a recipe for a model with learned spans: 600 steps with 4 texts of 256 characters."""
    model = partial(models.adaptive_span, **SIZES, span=CONTEXT, **options)
    return recipe(model, Shakespeare(context=CONTEXT, stride=128, batch_size=4, test=0.02), 600)


def sparse_recipe(normaliser: str) -> Recipe:
    """Return a recipe for a GPT with this normaliser: 400 steps with 8 texts of 64 characters."""
    model = partial(models.gpt, **SIZES, max_length=64, normaliser=normaliser)
    return recipe(model, Shakespeare(context=64, stride=32, batch_size=8, test=0.02), 400)


def recipe(model: partial[Any], text: Shakespeare, steps: int) -> Recipe:
    return replace(
        BASE,
        model=model,
        data=replace(text, windows=text.batch_size * steps),
        optimizer=replace(BASE.optimizer, lr=4e-3),
        trainer=replace(BASE.trainer, epochs=1),
    )


def trained(recipe: Recipe, folder: Path) -> Run:
    torch.manual_seed(0)
    train(recipe, folder, resume=(folder / "recipe.json").exists())
    return ew.load(folder)


@torch.no_grad()
def zeros(run: Run) -> Tensor:
    """Return the fraction of attention weights that are 0 on test texts, ``[layers, heads]``."""
    found = []

    def look(layer: MultiHeadAttention, given: tuple[Any, ...]) -> None:
        weights = layer.weights(*given[:2])  # Shape [B, E, H].
        found.append((weights == 0).float().mean((0, 1)))

    layers = [m for m in run.model.modules() if isinstance(m, MultiHeadAttention)]
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    batch = next(iter(run.recipe.data.load().loaders(0)["test"]))
    run.model(*batch.inputs)
    for hook in hooks:
        hook.remove()
    return torch.stack(found)


def alphas(model: nn.Module) -> Tensor:
    """Return the learned α of entmax, ``[layers, heads]``."""
    return torch.stack([m.alpha.detach() for m in model.modules() if isinstance(m, LearnedEntmax)])


def main() -> None:
    folder = Path(sys.argv[1])
    spans = {name: trained(span_recipe(given), folder / name.replace(" ", "-").replace(",", ""))
             for name, given in SPANS.items()}  # fmt: skip
    print("| initial span | test loss | mean span | edges per token and head |")
    print("| --- | ---: | ---: | ---: |")
    for name, run in spans.items():
        layers = [m for m in run.model.modules() if isinstance(m, SpanAttention)]
        mean = torch.stack([m.spans for m in layers]).mean().item()
        pairs = sum(min(r, CONTEXT - 1) + 1 for radii in radii_of(layers) for r in radii)
        count = sum(m.heads for m in layers)
        print(f"| {name} | {run.metrics['test/loss']:.3f} | {mean:.0f} | {pairs / count:.0f} |")
    sparse = {name: trained(sparse_recipe(name), folder / name) for name in NORMALISERS}
    shares = {name: zeros(run) for name, run in sparse.items()}
    print("\n| normaliser | test loss | weights that are 0 | in each layer |")
    print("| --- | ---: | ---: | --- |")
    for name, run in sparse.items():
        by_layer = ", ".join(f"{share:.0%}" for share in shares[name].mean(1).tolist())
        loss = run.metrics["test/loss"]
        print(f"| {name} | {loss:.3f} | {shares[name].mean():.0%} | {by_layer} |")
    if "--plot" in sys.argv:
        learned = [m.spans.detach() for m in spans["from 0, at a price"].model.modules()
                   if isinstance(m, SpanAttention)]  # fmt: skip
        plot(torch.stack(learned), alphas(sparse["learned"].model), shares["learned"])


def plot(spans: Tensor, alpha: Tensor, share: Tensor) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8), layout="constrained")
    values = {
        "span, in characters": spans,
        "learned α": alpha,
        "fraction of weights that are 0": share,
    }
    for axes, (title, grid) in zip(figure.subplots(1, 3), values.items(), strict=True):
        axes.imshow(grid, cmap="Blues", aspect="auto", vmin=1 if "α" in title else 0,
                    vmax=2 if "α" in title else float(grid.max()))  # fmt: skip
        for layer in range(grid.shape[0]):
            for head in range(grid.shape[1]):
                number = float(grid[layer, head])
                text = f"{number:.0f}" if "span" in title else f"{number:.2f}"
                dark = number > 0.6 * float(grid.max()) and "α" not in title
                axes.text(head, layer, text, ha="center", va="center",
                          color="white" if dark else "black")  # fmt: skip
        axes.set(title=title, xlabel="head", ylabel="layer")
        axes.set(xticks=range(grid.shape[1]), yticks=range(grid.shape[0]))
    figure.savefig(Path(__file__).parents[2] / "docs/background" / "learned_attention.png", dpi=100)


if __name__ == "__main__":
    main()
