"""Readers of plain words on the sentences of a tree model's run, for comparison.

    python examples/scripts/words_beside_trees.py lstm runs/tree-lstm-ewt runs/lstm-words --seeds 3
    python examples/scripts/words_beside_trees.py bert runs/tree-transformer-ewt runs/bert-words

They are given the same pieces of each word, and the sentence's length in the place of its tree: an
LSTM that reads both ways, and BERT, small, with learned positions. Data, task and epochs are those
of the run; the rate and the sizes of each were chosen on the sentences to validate on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from edgewise import training
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
from edgewise.recipes import Recipe
from edgewise.runs import load_recipe
from edgewise.runs.seeds import summarise
from edgewise.training.folder import METRICS

LONGEST = 512  # words of a sentence


class Words(nn.Module):
    """A label for each word, from its pieces and those of the words around it.

    Args:
        in_width, out_width: how many pieces are told apart, and how many labels.
        width: of the states.
        positions: added to what is embedded.
        reader: of the states of sentences in a row.
        dropout: of the pieces and the last states, as in the models of trees.

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
        """``[N, out_width]`` from x ``[N, in_width]`` of sentences of so many words."""
        sequences = SequenceBatch.of_features(x, sizes=batch)
        x = self.embed(self.dropout(x))
        if self.positions is not None:
            x = self.positions(x, sequences.positions)
        out: Tensor = self.head(self.dropout(self.backbone(x, sequences)))
        return out


def lstm(in_width: int, out_width: int, width: int = 96, depth: int = 1) -> Words:
    """Both ways, half of each state from either end."""
    reader = RecurrentBackbone(nn.LSTM, width, depth, bidirectional=True)
    return Words(in_width, out_width, width=width, positions=None, reader=reader, dropout=0.2)


def bert(in_width: int, out_width: int, width: int = 96, depth: int = 2) -> Words:
    """The layers of the tree Transformer, told where a word stands and not what it hangs from."""
    layers = [
        TransformerLayer(width, 4, 2 * width, act="gelu", order="pre", dropout=0.2)
        for _ in range(depth)
    ]
    reader = Backbone(TransformerStack(layers, nn.LayerNorm(width), complete()))
    positions = Learned(LONGEST, width)
    return Words(in_width, out_width, width=width, positions=positions, reader=reader, dropout=0.2)


class Chosen(NamedTuple):
    """A model, and its rate."""

    model: Callable[[int, int], Words]
    lr: float


KINDS = {"lstm": Chosen(lstm, 1e-2), "bert": Chosen(bert, 4e-3)}


def main() -> None:
    """Train with the data and the epochs of the run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("run", type=Path, help="of a model of trees")
    parser.add_argument("out", type=Path, help="the run folder, or that of the seeds")
    parser.add_argument("--seeds", type=int, default=0, help="how many, from the run's on")
    arguments = parser.parse_args()
    recipe, chosen = load_recipe(training.RunFolder(arguments.run)), KINDS[arguments.kind]
    if not arguments.seeds:
        print(train(recipe, chosen, arguments.out))
        return
    seeds = range(recipe.seed, recipe.seed + arguments.seeds)
    found = [
        train(replace(recipe, seed=seed), chosen, arguments.out / f"seed-{seed}") for seed in seeds
    ]
    training.RunFolder(arguments.out).write_json(METRICS, summarise(found))


def train(recipe: Recipe, chosen: Chosen, out: Path) -> dict[str, float]:
    """Train once, with the recipe's data, task and epochs."""
    splits = recipe.data.load()
    training.seed_everything(recipe.seed)
    model = chosen.model(**splits.model_arguments)
    training.seed_everything(recipe.seed + 1)  # as a run does
    return training.fit(
        model,
        recipe.task,
        splits.loaders(recipe.seed),
        training.RunFolder(out),
        optimizer=training.OptimizerSettings("adamw", lr=chosen.lr, weight_decay=0.01),
        schedule=recipe.schedule,
        trainer=recipe.trainer,
    )


if __name__ == "__main__":
    main()
