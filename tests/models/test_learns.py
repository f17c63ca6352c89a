"""Each model beats the best constant prediction on held-out real data, after seconds of training.

A model that ignores its inputs predicts at best a constant: the frequencies of the classes or
tokens (unigrams), or the mean. Every parameter must also receive a gradient, because a model may
beat the constant without its attention. ``make learns`` tests all models; the test suite tests
those in ``FAST``.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from edgewise import models
from edgewise.app.kinds import find
from edgewise.app.runs import with_values
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import Batch
from tests.places import ROOT, needs


@dataclass(frozen=True)
class Case:
    """Data and training of a model.

    Attributes:
        recipe: recipe with the data and the loss.
        folder: folder of ``EDGEWISE_DATA`` that the data need, or "".
        values: fields of the recipe that differ.
        steps: number of training steps.
        lr: learning rate of Adam.
        below: largest allowed fraction of the loss of the best constant.
    """

    recipe: str
    folder: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    steps: int = 60
    lr: float = 3e-3
    below: float = 0.9


def shakespeare(**options: Any) -> Case:
    # A batch of 12 texts of 64 characters. Bigrams have 0.75 of the loss of unigrams.
    values = {f"model.{name}": value for name, value in options.items()}
    return Case("gpt-shakespeare", "tinyshakespeare", values, steps=100, lr=2e-3)


CORA = Case(
    "gcn-cora",
    "Cora",
    {"optimizer.decay_only": "", "data.normalize": False},
    steps=40,
    lr=2e-3,
    below=0.95,  # With 140 labels, longer training lowers the error and raises the loss.
)
PAIRS = Case("pairs", "multi30k", {"data.vocab_size": 1000, "model.width": 128}, below=0.97)
USERS = Case("interactions", "gowalla", steps=120, lr=1e-2, below=0.95)
REVIEWS = Case("sst2", "SST2", {"data.vocab_size": 2000}, steps=200, lr=1e-3, below=0.98)
OF_KIND = {
    "nodes of a graph": CORA,
    "whole graphs": Case("gin-esol", "esol"),
    "trees": Case("tree-lstm-ewt", "UD_English-EWT", {"data.train_rows": 300}, steps=30),
    "features of tokens": Case("digits", steps=100),
    "images": Case("digits", steps=100),
    "images without labels": Case("digits"),
    "image to text": Case("caption-digits", "MNIST"),
    "series": Case("forecast", values={"model.depth": 1}, steps=100, below=1.0),
    "text": shakespeare(),
    "text to text": PAIRS,
    "links": Case("sage-facebook", "ego_facebook", steps=20, lr=1e-2),
    "links by relation": Case(
        "rgcn-wn18rr", "WN18RR", {"model.dropout": 0.0}, steps=30, lr=3e-2, below=0.99
    ),
    "recommendation": USERS,
    "tables with keys": Case(
        "shop", values={"data.customers": 600, "model.width": 32}, steps=150, below=0.99
    ),
}
OF_MODEL = {
    "gcnii": replace(CORA, values={**CORA.values, "model.depth": 8, "model.dropout": 0.2}),
    "grand": Case("grand-cora", "Cora", steps=100, lr=1e-2),
    # The filter improves the order of the items, but its scores are not trained for this loss.
    "lightgcn": replace(USERS, values={"model.low_pass": 0.0}),
    **dict.fromkeys(
        ("rgcn", "hgt", "typed_transformer"),
        Case("rgcn-aifb", "AIFB", {"optimizer.decay_only": ""}, steps=40, lr=1e-2),
    ),
    **dict.fromkeys(
        ("gated_gcn", "grit", "token_gt"), Case("gin-esol", "esol", {"model.depth": 3})
    ),
    "multi_graph_transformer": Case("gin-esol", "esol", {"model.heads": 4}),
    **dict.fromkeys(("bert", "bigbird", "universal"), shakespeare(graph="causal()")),
    "roberta": shakespeare(graph="causal()", max_length=66),
    **dict.fromkeys(("performer", "bp_transformer"), shakespeare(causal=True)),
    "t5": replace(PAIRS, steps=220, lr=1e-2),  # It learns slowly at first.
    # Four layers stay at unigrams for the first 100 steps.
    **dict.fromkeys(("rnn", "lstm", "gru"), replace(shakespeare(depth=1), steps=250, lr=1e-2)),
    # These two have no causal form.
    "linformer": REVIEWS,
    "longformer": REVIEWS,
}
"""Models that need other settings than their kind."""

FAST = ("gcn", "graph_gin", "vit", "transformer_encoder", "mae")
LAST_EDGES = ("edge_output", "edge_norm", "edge_network")
NO_GRADIENT = {
    # As in the papers, the last layer computes edges that nothing reads.
    "edge_transformer": tuple(f"layers.1.{part}" for part in LAST_EDGES),
    "laplacian_transformer": tuple(f"layers.2.{part}" for part in LAST_EDGES),
    # This bias adds the same number to all scores of a query, so softmax ignores it.
    "longformer": ("hub_key.bias",),
}
"""Parameters without a gradient, by model, as parts of their names."""


class RowClassifier(nn.Module):
    """Encoder of the rows of an image, as tokens, with a linear head on their mean."""

    def __init__(self, make: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.widen, self.encoder, self.head = nn.Linear(8, 32), make(32), nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(self.widen(images[:, 0])).mean(-2))
        return out


@dataclass(frozen=True)
class Problem:
    """A model with its loss, its training batches without end, and its validation batches."""

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    train: Iterator[Batch]
    val: list[Batch]

    def run(self, batch: Batch) -> Tensor:
        return self.loss(
            batch.select_outputs(self.model(*batch.inputs, **batch.keywords)), batch.target
        )

    @torch.no_grad()
    def validate(self, predict: Callable[[Batch], Tensor]) -> float:
        terms = [(predict(batch), len(batch.target)) for batch in self.val]
        return float(sum(loss * count for loss, count in terms) / sum(n for _, n in terms))


def digits() -> tuple[Tensor, Tensor]:
    images, classes = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    order = torch.randperm(len(x))
    return x[order], torch.tensor(classes)[order]


def on_digits(name: str) -> Problem:
    x, classes = digits()
    make = models.MODELS[name]
    if name in models.TOKEN_MODELS:
        inputs, targets = (x,), classes
        model: nn.Module = RowClassifier(make)
        loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    else:
        model, loss = make(8, 1), F.mse_loss
        noise = torch.rand(len(x), model.patches.num_patches)
        inputs, targets = (x, noise), model.targets(x, noise)
    batches = [
        Batch(tuple(i[k : k + 64] for i in inputs), targets[k : k + 64])
        for k in range(0, len(x), 64)
    ]
    return Problem(model, loss, chain.from_iterable(repeat(batches[8:])), batches[:8])


def own_files(recipe: str, folder: Path) -> dict[str, Any]:
    """Write the first rows of a large data set, for a recipe of the user's own files."""
    if recipe == "pairs":
        paths = [folder / f"pairs.{language}" for language in ("en", "de")]
        for path in paths:
            with gzip.open(ROOT / "multi30k" / "raw" / f"train{path.suffix}.gz", "rt") as lines:
                path.write_text("".join(islice(lines, 3000)))
        return {"data.path": str(paths[0]), "data.target_path": str(paths[1])}
    if recipe == "interactions":
        lines = (ROOT / "gowalla" / "raw" / "train.txt").read_text().splitlines()[:500]
        rows = [f"{line.split()[0]},{item}" for line in lines for item in line.split()[1:]]
        path = folder / "visits.csv"
        path.write_text("\n".join(["user,item", *rows]))
        return {"data.path": str(path)}
    return {}


def of_recipe(name: str, case: Case, folder: Path) -> Problem:
    values = {"model": name, **case.values, **own_files(case.recipe, folder)}
    recipe = with_values(find(case.recipe), values)
    model, splits = prepare(recipe)
    loaders = splits.loaders(0)

    def train() -> Iterator[Batch]:
        for epoch in range(1000):
            loaders["train"].set_epoch(epoch)
            yield from loaders["train"]

    loss = recipe.for_targets(splits.targets, splits.class_counts).task.loss
    return Problem(model, loss, train(), list(islice(loaders["val"], 8)))


def problem_of(name: str, folder: Path) -> Problem:
    if name in (*models.TOKEN_MODELS, *models.IMAGE_AUTOENCODERS):
        return on_digits(name)
    return of_recipe(name, case_of(name), folder)


def constant_loss(problem: Problem, seen: list[Tensor]) -> float:
    """Return the validation loss of the best constant on the training targets ``seen``."""
    with torch.no_grad():
        batch = problem.val[0]
        shape = batch.select_outputs(problem.model(*batch.inputs, **batch.keywords)).shape
    target = seen[0]
    if target.dim() == len(shape) + 1:  # Forecasts: the targets hold the seasonal naive forecast.
        return problem.validate(lambda b: problem.loss(b.target[..., 1], b.target))
    if target.is_floating_point() and len(shape) > 1:
        mean = torch.cat(seen).mean(0)
        return problem.validate(lambda b: problem.loss(mean.expand_as(b.target), b.target))
    if target.dim() == 1 and len(shape) == 2:
        labels = torch.cat(seen)
        count = torch.bincount(labels[labels >= 0], minlength=shape[1]) + 1.0
        unigrams = (count / count.sum()).log()
        return problem.validate(
            lambda b: problem.loss(unigrams.expand(len(b.target), -1), b.target)
        )
    # Links and recommended items: all candidates score the same.
    return problem.validate(
        lambda b: problem.loss(
            torch.zeros(b.target.shape if len(shape) == 1 else (len(b.target), shape[1])), b.target
        )
    )


def kind_of(name: str) -> str:
    return next(kind for kind, table in models.KINDS.items() if name in table)


def case_of(name: str) -> Case:
    return OF_MODEL.get(name, OF_KIND[kind_of(name)])


def cases() -> list[Any]:
    found = []
    for name in models.MODELS:
        folder = case_of(name).folder
        marks = [needs(folder)] if folder else []
        if name not in FAST:
            marks.append(pytest.mark.learns)
        found.append(pytest.param(name, marks=marks, id=name))
    return found


def learn(
    name: str, folder: Path, change: Callable[[nn.Module], object] = lambda _: None
) -> tuple[float, float, list[str]]:
    """Train a model, after ``change``.

    Returns:
        The validation losses of the model and of the best constant, and the names of the parameters
        without a gradient.
    """
    torch.manual_seed(0)
    case, problem = case_of(name), problem_of(name, folder)
    change(problem.model)
    optimizer = torch.optim.Adam(problem.model.parameters(), lr=case.lr)
    idle = {n: p for n, p in problem.model.named_parameters() if p.requires_grad}
    seen: list[Tensor] = []
    problem.model.train()
    for step, batch in enumerate(islice(problem.train, case.steps)):
        for group in optimizer.param_groups:
            group["lr"] = case.lr * min(1.0, (step + 1) / 20, 2 * (1 - step / case.steps))
        optimizer.zero_grad()
        problem.run(batch).backward()
        nn.utils.clip_grad_norm_(problem.model.parameters(), 1.0)
        optimizer.step()
        idle = {n: p for n, p in idle.items() if p.grad is None or not p.grad.any()}
        seen.append(batch.target)
    problem.model.eval()
    return problem.validate(problem.run), constant_loss(problem, seen), list(idle)


@pytest.mark.slow("graph_gin", "transformer_encoder", "vit", "mae")
@pytest.mark.parametrize("name", cases())
def test_beats_the_best_constant(name: str, tmp_path: Path) -> None:
    loss, constant, idle = learn(name, tmp_path)
    assert loss < case_of(name).below * constant, f"loss {loss:.3f}, best constant {constant:.3f}"
    known = NO_GRADIENT.get(name, ())
    unknown = [n for n in idle if not any(part in n for part in known)]
    assert not unknown, "parameters without a gradient"


@pytest.mark.slow
def test_a_model_with_a_zeroed_output_is_found(tmp_path: Path) -> None:
    def zero(model: nn.Module) -> None:
        model.register_forward_hook(lambda _module, _inputs, out: 0 * out)

    loss, constant, _ = learn("vit", tmp_path, zero)
    assert loss >= case_of("vit").below * constant


@pytest.mark.slow
def test_a_model_with_a_detached_attention_is_found(tmp_path: Path) -> None:
    def detach(model: nn.Module) -> None:
        for name, part in model.named_modules():
            if name.endswith("attention.sublayer"):
                part.register_forward_hook(lambda _module, _inputs, out: out.detach())

    _, _, idle = learn("vit", tmp_path, detach)
    assert idle
    assert all(".attention." in name for name in idle)
