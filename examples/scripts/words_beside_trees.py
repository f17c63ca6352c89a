"""Train an LSTM or a small BERT without syntax trees on the sentences of a tree model's run.

    python examples/scripts/words_beside_trees.py lstm runs/tree-lstm-ewt runs/lstm-words --seeds 3
    python examples/scripts/words_beside_trees.py bert runs/tree-transformer-ewt runs/bert-words

This shows what the trees add. Both models get the same features of each word as the tree model. The
LSTM is bidirectional, and BERT has learned positions. Data, task and number of epochs are those of
the run. The learning rate and the sizes of each model were chosen on the validation set.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from edgewise.app.runs import load_recipe
from edgewise.app.runs.seeds import summarise
from edgewise.app.train import OptimizerSettings, Recipe, RunFolder, fit, seed_everything
from edgewise.app.train.folder import METRICS
from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete
from edgewise.graphs.batch import Sizes
from edgewise.layers import (
    Backbone,
    RecurrentBackbone,
    SequenceBatch,
    TransformerLayer,
    TransformerStack,
)

LONGEST = 512  # Maximum number of words in a sentence.


class Words(nn.Module):
    """Model that predicts a label for each word of a sentence.

    Args:
        in_width: number of features of a word.
        out_width: number of labels.
        width: hidden size.
        positions: module that adds position embeddings, or ``None``.
        reader: backbone that maps the hidden states of packed sentences to hidden states.
        dropout: dropout rate for the features and the last hidden states, as in the tree models.

    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int,
        positions: nn.Module | None,
        reader: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embed, self.positions = nn.Linear(in_width, width), positions
        self.backbone, self.dropout = reader, nn.Dropout(dropout)
        self.head = nn.Linear(width, out_width)

    def forward(self, x: Tensor, _tree: Pattern, *, batch: Sizes) -> Tensor:
        """Return logits ``[N, out_width]`` for word features x ``[N, in_width]``.

        ``batch`` holds the number of words of each sentence.
        """
        sequences = SequenceBatch.of_features(x, sizes=batch)
        x = self.embed(self.dropout(x))
        if self.positions is not None:
            x = self.positions(x, sequences.positions)
        out: Tensor = self.head(self.dropout(self.backbone(x, sequences)))
        return out


def lstm(in_width: int, out_width: int, width: int = 96, depth: int = 1) -> Words:
    """Return a model with a bidirectional LSTM; each direction has half of the hidden state."""
    reader = RecurrentBackbone(nn.LSTM, width, depth, bidirectional=True)
    return Words(in_width, out_width, width=width, positions=None, reader=reader, dropout=0.2)


def bert(in_width: int, out_width: int, width: int = 96, depth: int = 2) -> Words:
    """Return a model with the layers of the tree Transformer, but with positions and no tree."""
    layers = [
        TransformerLayer(width, 4, 2 * width, act="gelu", order="pre", dropout=0.2)
        for _ in range(depth)
    ]
    reader = Backbone(TransformerStack(layers, nn.LayerNorm(width), complete()))
    positions = Learned(LONGEST, width)
    return Words(in_width, out_width, width=width, positions=positions, reader=reader, dropout=0.2)


class Chosen(NamedTuple):
    """Function that makes a model, and its learning rate."""

    model: Callable[[int, int], Words]
    lr: float


KINDS = {"lstm": Chosen(lstm, 1e-2), "bert": Chosen(bert, 4e-3)}


def main() -> None:
    """Train a model once or for several seeds, with the data and the epochs of the run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=KINDS, help="model to train")
    parser.add_argument("run", type=Path, help="run folder of a tree model")
    parser.add_argument("out", type=Path, help="folder for the new run, or for one run per seed")
    parser.add_argument(
        "--seeds", type=int, default=0, help="number of seeds, starting at the seed of the run"
    )
    arguments = parser.parse_args()
    recipe, chosen = load_recipe(RunFolder(arguments.run)), KINDS[arguments.kind]
    if not arguments.seeds:
        print(train(recipe, chosen, arguments.out))
        return
    seeds = range(recipe.seed, recipe.seed + arguments.seeds)
    found = [
        train(replace(recipe, seed=seed), chosen, arguments.out / f"seed-{seed}") for seed in seeds
    ]
    RunFolder(arguments.out).write_json(METRICS, summarise(found))


def train(recipe: Recipe, chosen: Chosen, out: Path) -> dict[str, float]:
    """Train a model once with the data, task and epochs of the recipe; return the metrics."""
    splits = recipe.data.load()
    seed_everything(recipe.seed)
    model = chosen.model(**splits.model_arguments)
    seed_everything(recipe.seed + 1)  # `edgewise train` does the same after the model.
    return fit(
        model,
        recipe.task,
        splits.loaders(recipe.seed),
        RunFolder(out),
        optimizer=OptimizerSettings("adamw", lr=chosen.lr, weight_decay=0.01),
        schedule=recipe.schedule,
        trainer=recipe.trainer,
    )


if __name__ == "__main__":
    main()
