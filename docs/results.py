"""Write docs/background/results.md: the measured metrics of every recipe, with references.

python docs/results.py                        # write the page from docs/background/results.json
python docs/results.py --runs DIR             # first add the finished runs DIR/RECIPE
python docs/results.py --runs DIR --train     # first train recipes that are not measured
python docs/results.py --runs DIR --baselines # first measure baselines that are not measured
python docs/results.py --check                # check whether the page is stale (exit code 1)

A recipe has its own protocol and reference (edgewise.app.train.Protocol), so a new recipe needs no
change here. Results of a recipe whose fields have changed are not shown. Results with fewer seeds
or folds than the protocol are marked stale, and --train measures the missing ones.

The baselines of a recipe are read from DIR/RECIPE-baseline, where `edgewise baseline RECIPE` writes
them. Recipes with the same data and the same metric have the same baselines, measured once.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import EdgewiseError
from edgewise.app import runs
from edgewise.app.cli.baseline import EXAMPLES, FILE, measure
from edgewise.app.kinds import RECIPES, find
from edgewise.app.runs import fields_of, lower_is_better
from edgewise.app.runs.baseline_results import AUGMENTATION, baselines_for
from edgewise.app.runs.hybrid import parts_note
from edgewise.app.runs.record import differences
from edgewise.app.runs.seeds import summarise
from edgewise.app.train import NoBaselineError, Recipe, RunFolder
from edgewise.app.train.folder import METRICS, RECIPE, finite

DOCS = Path(__file__).resolve().parent / "background"
MEASURED, PAGE = DOCS / "results.json", DOCS / "results.md"
HEAD = """# Measured results

This page lists the results of all recipes, compared with simple baselines and published numbers.
`make results` writes this page.

- **recipe**: the name to pass to `edgewise train`. A name in italics is a variant of the recipe
  above it; its column *protocol* lists only the differences from that recipe. *Behind X* means that
  the baseline X is better in at least one metric of the row. The commands below each table
  reproduce it.
- **model**: the architecture, alone or as a *hybrid with X*: the predictions of the network are
  combined with X, or the network also reads X. If the scores of two parts are added, the fraction
  of each part in the predictions (its mean absolute score on the validation set) follows where it
  was measured.
- **ours**: Edgewise's result on the test set, mean ± standard deviation over seeds or folds.
- **parts**: for a hybrid, the result of the network without X, and of X without the network or of a
  simple method that reads only X.
- **baseline**: the simple method that is best on the validation set, with its result on the same
  test sets, as measured by [`edgewise baseline RECIPE`](../howto/baselines.md). p is the p-value of
  a paired t-test for the first metric, over the folds. Without folds it is over the test examples;
  the results of several seeds are first averaged for each example. *Not measured* means that
  baselines exist but were not run. The cell is empty for variants, and for tasks without a simple
  method.
- **published**: a published result on the same data and split, and its source; the rule for the
  epoch may differ. *Not reached* means that ours is worse. *None* means that no published result is
  comparable.
- **protocol**: split sizes (training / validation / test), rule that chooses the epoch, and seeds
  or folds.
- **minutes**: processor time on one core for training, validation and test of all seeds or folds.
  If a row needs several commands, this is the time of the last command.

The [notes](notes.md) list experiments that are not in a recipe.
"""
SECTIONS = {
    "Citation networks": """\
The public split of Cora has 140 labelled training papers, 500 validation and 1,000 test papers.""",
    "Whole graphs and molecules": """\
With *folds*, each fold is the test set once, and the epoch is chosen without the test fold.
Published results that choose the epoch on the test folds are several percentage points higher and
not comparable. The published numbers for ZINC are for the molecules of the benchmark ZINC-12k; our
results are for other molecules of ZINC, and after fewer epochs.""",
    "Synthetic graphs": """\
These recipes measure the [limits of graph networks](expressiveness.md). Every epoch samples new
training graphs. Models whose names end in -5 and -6 are trained on trees of depth 5 and 6 after
training on trees of depth 3.""",
    "Links and recommendation": "",
    "Sequences": "",
    "Images": "",
    "Recordings": "",
    "Others": "",
}
"""Titles in order, with an introduction; the data of a recipe determine its section."""


def begun_on_shallow_trees(
    recipe: str, name: str, options: str = "", what: str = "", *, depth: int = 5, epochs: int = 4
) -> tuple[str, tuple[str, str]]:
    """Return an entry of BESIDE: NeighborsMatch initialised with weights from depth 3."""
    start, here = f"{name}-3-of-{depth}", f"{name}-{depth}"
    command, rate = f"edgewise train {recipe} {options}", "--optimizer.lr 0.005"
    return here, (
        f"{what}depth {depth}, chance {100 / 2**depth:.1f} %; one seed",
        f"{command}--data.depth 3 --data.symbols {2**depth} --trainer.epochs {epochs} {rate}"
        f" --out {start}\n"
        f"{command}--data.depth {depth} --from {start} {rate} --out {here}",
    )


BESIDE = {
    "gcn-cora": {
        "gcn-citeseer": (
            "public split of CiteSeer; published: 70.3 %; seeds 0 to 9",
            "edgewise train gcn-cora --data.name CiteSeer --seeds 10 --out gcn-citeseer",
        ),
        "gcn-cora-two-views": (
            "with the loss of two views that `graph-bert-cora` has; seeds 0 to 9",
            "edgewise train graph-bert-cora --model gcn --model.width 16 --model.depth 2"
            " --model.dropout 0.5 --data.normalize true --optimizer.weight_decay 5e-4"
            r" --optimizer.decay_only '^layers\.1\.' --trainer.epochs 200 --seeds 10"
            " --out gcn-cora-two-views",
        ),
    },
    "gat-cora": {
        "gat-citeseer": (
            "public split of CiteSeer; published: 72.5 ± 0.7 %; seeds 0 to 9",
            "edgewise train gat-cora --data.name CiteSeer --seeds 10 --out gat-citeseer",
        ),
    },
    "grand-cora": {
        "grand-citeseer": (
            "public split of CiteSeer, the authors' hops, views, temperature, weight and learning "
            "rate; published: 75.4 ± 0.4 %; seeds 0 to 9",
            "edgewise train grand-cora --data.name CiteSeer --model.hops 2 --model.views 2"
            " --model.dropout 0.0 --task.temperature 0.3 --task.weight 0.7 --optimizer.lr 0.01"
            " --seeds 10 --out grand-citeseer",
        ),
        "grand-cora-published": (
            "the authors' learning rate of 0.01, constant, at most 5,000 epochs with patience 200; "
            "seeds 0 to 4",
            "edgewise train grand-cora --optimizer.lr 0.01 --schedule.floor 1 --trainer.epochs 5000"
            " --trainer.patience 200 --seeds 5 --out grand-cora-published",
        ),
    },
    **{
        name: {
            f"{name}-one-view": (
                "one view instead of two, so without the consistency loss; seeds 0 to 9",
                f"edgewise train {name} --task.views 1 --seeds 10 --out {name}-one-view",
            ),
            f"{name}-without": (
                "one view and no propagation of outputs, settings tuned for this variant;"
                " seeds 0 to 9",
                f"edgewise train {name} --task.views 1 --model.output_hops 0 {options} --seeds 10"
                f" --out {name}-without",
            ),
        }
        for name, options in (
            (
                "magna-cora",
                "--data.normalize true --optimizer.weight_decay 5e-4 --trainer.epochs 200"
                " --trainer.patience 100",
            ),
            ("graph-bert-cora", "--optimizer.weight_decay 5e-4 --trainer.epochs 60"),
            *(
                (
                    f"{name}-cora",
                    "--data.normalize true --model.width 64 --model.attention_dropout 0"
                    " --optimizer.name adamw --optimizer.weight_decay 0.05",
                )
                for name in ("gps", "exphormer")
            ),
        )
    },
    "ionic-liquids-co2": {
        "ionic-liquids-without": (
            "without descriptors from RDKit",
            "edgewise train ionic-liquids-co2 --data.descriptors false --folds"
            " --out ionic-liquids-without",
        ),
        "ionic-liquids-rows": (
            "rows split at random as in Jian et al., but with validation rows; one fold",
            "edgewise train ionic-liquids-co2 --data.split random --out ionic-liquids-rows",
        ),
    },
    "attentive-esol": {
        "graph-network-esol": (
            "with the model `graph_network`, one seed",
            "edgewise train attentive-esol --model graph_network --folds --out graph-network-esol",
        ),
    },
    "gps-esol": {
        "gps-esol-single": (
            "one seed instead of the mean prediction of three",
            "edgewise train gps-esol --folds --out gps-esol-single",
        ),
    },
    "gps-zinc": {
        "gps-zinc-100": (
            "10 layers of width 64, as in the paper, and 100 epochs",
            "edgewise train gps-zinc --model.depth 10 --trainer.epochs 100 --out gps-zinc-100",
        ),
    },
    "sage-facebook": {
        f"sage-facebook-{seed}": (
            f"random split {seed} of the edges instead of split 0",
            f"edgewise train sage-facebook --data.split_seed {seed} --out sage-facebook-{seed}",
        )
        for seed in (1, 2)
    }
    | {
        "sage-facebook-network": (
            "without features of the pair, settings tuned for this variant; seeds 0 to 2",
            "edgewise train sage-facebook --model.overlap false --model.decoder network"
            " --trainer.epochs 40 --seeds 3 --out sage-facebook-network",
        ),
    },
    "lightgcn-gowalla": {
        "lightgcn-gowalla-network": (
            "without the filter; one seed",
            "edgewise train lightgcn-gowalla --model.low_pass 0 --out lightgcn-gowalla-network",
        ),
        "lightgcn-gowalla-filter": (
            "a weight with which only the filter counts",
            "edgewise train lightgcn-gowalla --model.low_pass 1e6 --trainer.epochs 1"
            " --out lightgcn-gowalla-filter",
        ),
    },
    "gcn-minesweeper": {
        "gcn-tolokers": (
            "tolokers, 5 layers, 300 epochs; 3 folds",
            "edgewise train gcn-minesweeper --data.name tolokers --model.depth 5"
            " --trainer.epochs 300 --folds --out gcn-tolokers",
        ),
    },
    "gps-rings": {
        "distance-rings": (
            "number of nodes at each distance as features; seeds 0 to 2",
            "edgewise train gps-rings --model.position distance --seeds 3 --out distance-rings",
        ),
    },
    "gps-match": dict(
        begun_on_shallow_trees("gps-match", "gps-match", depth=depth, epochs=2) for depth in (5, 6)
    ),
    "gat-match": dict(
        [
            begun_on_shallow_trees("gat-match", "gat-match", "--model.depth 6 "),
            *(
                begun_on_shallow_trees(
                    "gat-match",
                    f"{layer}-match",
                    f"--model.layer {layer} --model.last complete --model.depth 2 ",
                    f"one {layer} layer on the tree and one on all nodes; ",
                )
                for layer in ("gatv2", "transformer")
            ),
        ]
    ),
    **{
        name: dict([begun_on_shallow_trees(name, name, "--model.depth 6 ")])
        for name in ("gcn-match", "gin-match")
    },
    **{
        f"vit-{name}": {
            f"convolutions-vit-{name}": (
                f"network of six convolutions, {weights} weights",
                "python examples/scripts/convolutions_beside.py "
                f"vit-{name} convolutions-vit-{name}",
            ),
            **{
                f"mae-{name}-{start}": (
                    f"ViT trained on {labels} labelled images, {how}; seeds 0 to {seeds - 1}",
                    f"python examples/scripts/mae_few_labels.py {name} --epochs {epochs}"
                    f" --tuning-epochs 40 --seeds {seeds} --json mae-{name}",
                )
                for start, how in (
                    ("scratch", "from random weights"),
                    (
                        "pretrained",
                        "pre-trained as a masked autoencoder",
                    ),
                )
            },
        }
        for name, weights, labels, epochs, seeds in (
            ("cifar10", "288,746", 100, 10, 5),
            ("mnist", "288,170", 600, 2, 3),
        )
    },
    "gpt-shakespeare": {
        "shakespeare-bp": (
            "BP-Transformer, 3 epochs; one seed",
            "edgewise train gpt-shakespeare --model bp_transformer --model.causal true"
            " --trainer.epochs 3 --out shakespeare-bp",
        ),
        **{
            f"shakespeare-{epochs}": (
                f"GPT, {epochs} epochs: {beside} as *shakespeare-bp*; one seed",
                f"edgewise train gpt-shakespeare --trainer.epochs {epochs}"
                f" --out shakespeare-{epochs}",
            )
            for epochs, beside in ((3, "the same number of steps"), (6, "about the same time"))
        },
    },
    "sketches": {
        "sketches-without": (
            "without attention layers (depth 0); seeds 0 to 2",
            "edgewise train sketches --model.depth 0 --seeds 3 --out sketches-without",
        ),
        **{
            f"sketches-{name}": (
                f"{what}; 30 epochs, seeds 0 to 2",
                f"edgewise train sketches --data.joined {name} --data.batch_size 25"
                " --model.width 60 --model.depth 3 --model.dropout 0 --task.label_smoothing 0"
                f" --optimizer.lr 3e-3 --trainer.epochs 30 --seeds 3 --out sketches-{name}",
            )
            for name, what in (
                ("multi", "nodes are points, on three graphs as in the paper"),
                ("complete", "nodes are points, on the complete graph"),
            )
        },
    },
    **{
        name: {
            f"{name}-chain": (
                f"with a chain of the words instead of the tree{chain}; one seed",
                f"edgewise train {name} --data.links chain {options}--out {name}-chain",
            ),
            f"{kind}-words": (
                f"without the tree: {words}",
                f"python examples/scripts/words_beside_trees.py {kind} {name} {kind}-words{seeds}",
            ),
        }
        for name, chain, options, kind, words, seeds in (
            (
                "tree-lstm-ewt",
                "",
                "",
                "lstm",
                "bidirectional LSTM on the words, 256,163 weights; seeds 0 to 2",
                " --seeds 3",
            ),
            (
                "tree-transformer-ewt",
                ", learning rate 2e-3",
                "--optimizer.lr 2e-3 ",
                "bert",
                "small BERT, 399,011 weights; one seed",
                "",
            ),
        )
    },
    "transformer-multi30k": {
        **{
            f"multi30k-{epochs}-epochs": (
                f"{epochs} epochs instead of 12",
                f"edgewise train transformer-multi30k --trainer.epochs {epochs}"
                f" --out multi30k-{epochs}-epochs",
            )
            for epochs in (3, 6)
        },
        "multi30k-20-epochs": (
            "20 epochs, dropout 0.3, weights averaged over the last five epochs, bf16",
            "edgewise train transformer-multi30k --model.dropout 0.3 --trainer.epochs 20"
            " --trainer.average_last_epochs 5 --trainer.precision bf16 --out multi30k-20-epochs",
        ),
        "multi30k-small-batches": (
            "batches of 1,024 tokens instead of 4,096, dropout 0.3",
            "edgewise train transformer-multi30k --data.batch_size 1024 --model.dropout 0.3"
            " --out multi30k-small-batches",
        ),
        "multi30k-published": (
            "Transformer-Tiny's size: 4 + 4 layers, width 128, vocabulary of 10,000, dropout 0.3;"
            " 24 epochs, learning rate 2e-3, weights averaged over the last five epochs",
            "edgewise train transformer-multi30k --model.width 128 --model.depth 4"
            " --model.ffn_dim 256 --model.dropout 0.3 --data.vocab_size 10000"
            " --optimizer.lr 2e-3 --trainer.epochs 24 --trainer.average_last_epochs 5"
            " --out multi30k-published",
        ),
    },
    "xl-war-and-peace": {
        **{
            f"war-and-peace-8-{steps}": (
                f"without memory, {steps:,} steps instead of 1,000",
                "edgewise train xl-war-and-peace --model.memory 0 --data.consecutive false"
                f" --data.stride 4 --data.windows {96 * steps} --out war-and-peace-8-{steps}",
            )
            for steps in (1400, 1850)
        },
        "xl-war-and-peace-64": (
            "segments of 64 characters, memory of 128, the same number of steps",
            "edgewise train xl-war-and-peace --model.memory 128 --data.context 64"
            " --data.batch_size 12 --data.windows 3000 --trainer.epochs 4"
            " --out xl-war-and-peace-64",
        ),
        "war-and-peace-64": (
            "segments of 64 characters without memory, 1.2 times as many steps",
            "edgewise train xl-war-and-peace --model.memory 0 --data.consecutive false"
            " --data.context 64 --data.stride 32 --data.batch_size 12 --data.windows 3600"
            " --trainer.epochs 4 --out war-and-peace-64",
        ),
    },
    "long-war-and-peace": {
        "war-and-peace-full": (
            "full attention, 0.7 times as many steps",
            'edgewise train long-war-and-peace --model.graph "causal()" --data.windows 70'
            " --out war-and-peace-full",
        ),
    },
    "duplication": {
        "duplication-1": (
            "one round of hashing instead of four",
            "edgewise train duplication --model.num_hashes 1 --out duplication-1",
        ),
    },
    "recall": {
        "recall-window": (
            "window without the hub",
            'edgewise train recall --model.graph "window(8)" --out recall-window',
        ),
        "recall-narrow": (
            "initial weights with standard deviation 0.02, as in BERT",
            "edgewise train recall --model.init_std 0.02 --out recall-narrow",
        ),
        "recall-bp": (
            "BP-Transformer, texts of 256 tokens, key at least 128 tokens away",
            "edgewise train recall --model bp_transformer --data.length 256 --data.distance 128"
            " --out recall-bp",
        ),
        "recall-bp-far": (
            "BP-Transformer, first trained on texts of 32, 128 and 384 tokens; one seed",
            "edgewise train recall --model bp_transformer --data.length 32 --data.distance 16"
            " --trainer.epochs 8 --out recall-bp-32\n"
            "edgewise train recall --model bp_transformer --from recall-bp-32 --data.length 128"
            " --data.distance 64 --out recall-bp-128\n"
            "edgewise train recall --model bp_transformer --from recall-bp-128 --data.length 384"
            " --data.distance 256 --trainer.epochs 2 --out recall-bp-384\n"
            "edgewise train recall --model bp_transformer --from recall-bp-384 --trainer.epochs 1"
            " --out recall-bp-far",
        ),
    },
    "sst2": {
        "sst2-bp": (
            "BP-Transformer; one seed",
            "edgewise train sst2 --model bp_transformer --data.naive_bayes false --out sst2-bp",
        ),
        "sst2-network": (
            "without naive Bayes; seeds 0 to 2",
            "edgewise train sst2 --data.naive_bayes false --seeds 3 --out sst2-network",
        ),
        "sst2-naive-bayes": (
            "naive Bayes on tokens and pairs of adjacent tokens, without a network",
            "python -m benchmarks.naive_bayes sst2 --json sst2-naive-bayes.json",
        ),
        "sst2-scratch": (
            "without naive Bayes, with rotary positions; seeds 0 to 2",
            "edgewise train sst2 --data.tokenizer runs/bert-wikitext/seed-0"
            " --data.naive_bayes false --model.positions rotary --seeds 3 --out sst2-scratch",
        ),
        "sst2-pretrained": (
            "like *sst2-scratch*, initialised with the weights of `bert-wikitext`; seeds 0 to 2",
            "edgewise train sst2 --from runs/bert-wikitext/seed-0 --seeds 3 --out sst2-pretrained",
        ),
        "sst2-few": (
            "like *sst2-scratch*, on 692 of the 6,920 sentences, 10 epochs; seeds 0 to 4",
            "edgewise train sst2 --data.tokenizer runs/bert-wikitext/seed-0"
            " --data.naive_bayes false --model.positions rotary --data.labelled 692"
            " --trainer.epochs 10 --seeds 5 --out sst2-few",
        ),
        "sst2-few-pretrained": (
            "like *sst2-pretrained*, on 692 sentences, 10 epochs; seeds 0 to 4",
            "edgewise train sst2 --from runs/bert-wikitext/seed-0 --data.labelled 692"
            " --trainer.epochs 10 --seeds 5 --out sst2-few-pretrained",
        ),
    },
}
"""Baselines and variants of a recipe by name: description and command. The result is
DIR/NAME.json, or the run folder DIR/NAME."""
BESIDE["vit-cifar10"]["vit-cifar10-convolutions"] = (
    "with the convolutional tokenizer of compact Transformers, 177,354 weights; seeds 0 to 2",
    "edgewise train vit-cifar10 --model.stem convolutions --seeds 3 --out vit-cifar10-convolutions",
)
BESIDE["tree-lstm-ewt"]["tree-lstm-ewt-leaves"] = (
    "only from the leaves to the root; seeds 0 to 2",
    "edgewise train tree-lstm-ewt --model.bidirectional false --seeds 3 --out tree-lstm-ewt-leaves",
)
NAMES = {
    **{"mae": "MAE", "rmse": "RMSE", "r2": "R²", "auc": "AUC", "mrr": "MRR", "ndcg@20": "nDCG@20"},
    "roc_auc": "ROC-AUC",
    **{"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bleu": "BLEU"},
    **{"exact": "exact captions", "seasonal_ratio": "MAE relative to repeating the last season"},
}

ADDED = {
    "data.naive_bayes": "naive Bayes",
    "model.low_pass": "a low-pass filter",
    "data.descriptors": "descriptors from RDKit",
    "model.overlap": "common neighbours and degrees",
    "model.output_hops": "propagation of the outputs",
}
"""Fields of recipes whose models are hybrids, and what they add to the architecture."""
BASELINE = "baseline"
_PROPAGATION = {
    f"{name}-cora": {"network": f"{name}-cora-without", "": BASELINE}
    for name in ("magna", "gps", "exphormer", "graph-bert")
}
PARTS = {
    "sst2": {"network": "sst2-network", "naive Bayes": "sst2-naive-bayes"},
    "ionic-liquids-co2": {"network": "ionic-liquids-without", "": BASELINE},
    "sage-facebook": {"network": "sage-facebook-network", "": BASELINE},
    "lightgcn-gowalla": {
        "network": "lightgcn-gowalla-network",
        "filter": "lightgcn-gowalla-filter",
    },
    **_PROPAGATION,
}
"""Parts of hybrid models alone: by recipe, a variant in BESIDE or BASELINE."""

BASELINES = "baselines"
"""Key of the baselines in results.json: by recipe, with the fields of the data."""

Measured = dict[str, dict[str, Any]]


def measured_again(recipe: Recipe, folder: RunFolder, train: bool) -> Any:
    """Return the metrics of a finished run of the current recipe, or None."""
    if train:
        runs.measure(recipe, folder.path, resume=folder.has(RECIPE))
    if not folder.has(METRICS):
        return None
    measurement: dict[str, Any] = {
        "recipe": folder.read_json(RECIPE),
        "metrics": folder.read_metrics(),
    }
    notes = (parts_note(run) for run in (folder, RunFolder(folder.path / "seed-0")))
    if note := next(filter(None, notes), ""):
        measurement["parts"] = note.partition(": ")[2].partition(" (")[0]
    return measurement if is_current(recipe, measurement) else None


def has_numbers(measurement: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Return whether all of these metrics were measured and are numbers."""
    several = (finite(measurement["metrics"]).get(name) for name in names)
    return None not in [value["mean"] if isinstance(value, dict) else value for value in several]


def is_current(recipe: Recipe, measurement: dict[str, Any]) -> bool:
    """Return whether these are the metrics of the protocol, for the fields of the recipe."""
    if recipe.protocol is None or not has_numbers(measurement, recipe.protocol.metrics):
        return False
    try:
        return not differences(runs.from_record(measurement["recipe"]), recipe)
    except EdgewiseError:  # a field that no longer exists
        return False


def model_text(recipe: Recipe, measurement: dict[str, Any]) -> str:
    """Return the architecture of a recipe, what it is combined with, and the measured fractions."""
    values = fields_of(recipe)
    added = [part for name, part in ADDED.items() if name in values and values[name].value]
    hybrid = f", hybrid with {' and '.join(added)}" if added else ""
    fractions = f" ({measurement['parts']})" if "parts" in measurement else ""
    return f"`{recipe.model.func.__name__}`{hybrid}{fractions}"


def parts_alone(recipe: Recipe, measured: Measured, baseline: str) -> str:
    """Return the results of the parts of a hybrid model alone; empty for other models."""
    assert recipe.protocol is not None
    cells = []
    for part, name in PARTS.get(recipe.name, {}).items():
        result = baseline if name == BASELINE else ""
        if name in measured and has_numbers(measured[name], recipe.protocol.metrics):
            result = numbers(measured[name]["metrics"], recipe.protocol.metrics)
        result = result or "not measured"
        cells.append(f"{part}: {result}" if part else result)
    return "; ".join(cells)


def runs_of(recipe: Recipe, metrics: dict[str, Any]) -> tuple[int, int]:
    """Return the number of seeds or folds of these metrics, and that of the protocol."""
    protocol = recipe.protocol
    assert protocol is not None
    first = metrics[protocol.metrics[0]]
    count = len(first["values"]) if isinstance(first, dict) else 1
    folds = fields_of(recipe)["data.folds"].value if protocol.folds else 0
    return count, folds or protocol.seeds or 1


def is_whole(recipe: Recipe, measurement: dict[str, Any]) -> bool:
    """Return whether the measurement is current and has all seeds or folds of the protocol."""
    count, num_runs = runs_of(recipe, measurement["metrics"])
    return count == num_runs and is_current(recipe, measurement)


def fields_of_baseline(record: dict[str, Any], kind: str, metrics: list[str]) -> dict[str, Any]:
    """Return what determines the baselines of a recipe: its data, and the metric that chooses.

    Args:
        record: record of the recipe, as in the run folder.
        kind: name of the kind of recipe.
        metrics: names of the metrics of the task.
    """
    # Baselines read the whole training graph, not samples of it. They use neither the naive Bayes
    # nor the randomised trees of a hybrid model.
    sampled = {"batch_size", "fanouts", "negatives", "by_user"}
    ignored = {"fold", "naive_bayes", "forest", *sampled, *AUGMENTATION}
    data = {name: value for name, value in record["data"].items() if name not in ignored}
    monitored = record["trainer"]["monitor"].partition("/")[2]
    chosen = monitored if monitored in metrics else (metrics or ["loss"])[0]
    return {"data": data, "kind": kind, "metric": chosen}


def own_fields(recipe: Recipe) -> dict[str, Any] | None:
    """Return :func:`fields_of_baseline` of a recipe, or None if its task has no baseline."""
    try:
        kind = baselines_for(recipe).name
    except NoBaselineError:
        return None
    return fields_of_baseline(runs.to_record(recipe), kind, list(recipe.task.metrics()))


def baseline_of(recipe: Recipe, measured: Measured) -> dict[str, Any] | None:
    """Return the measured baseline of a recipe, or that of a recipe with the same data."""
    fields = own_fields(recipe)
    if fields is None:
        return None
    folds = recipe.protocol is not None and recipe.protocol.folds
    baselines = measured.get(BASELINES, {})
    candidates = [baselines[recipe.name]] if recipe.name in baselines else [*baselines.values()]
    same = (
        candidate
        for candidate in candidates
        if candidate["fields"] == fields and candidate["folds"] == folds
    )
    return next(same, None)


def collect_baseline(recipe: Recipe, measured: Measured, folder: Path, measures: bool) -> None:
    """Add the best baseline of ``baseline.json`` in a folder, if it is of the current fields.

    Args:
        recipe: the recipe.
        measured: measurements, which receive the baseline.
        folder: folder of ``baseline.json``.
        measures: whether to measure the baselines first, unless they are known.
    """
    fields, protocol = own_fields(recipe), recipe.protocol
    if fields is None or protocol is None:
        return
    if measures and baseline_of(recipe, measured) is None and not (folder / FILE).is_file():
        print(measure(recipe, folder, folds=protocol.folds))
    if not (folder / FILE).is_file():
        return
    record = json.loads((folder / FILE).read_text())
    metrics = list(recipe.task.metrics())
    if fields_of_baseline(record["recipe"], fields["kind"], metrics) != fields:
        return
    number = [entry["name"] for entry in record["baselines"]].index(record["best"])
    best = record["baselines"][number]
    several = [fold[number]["metrics"] for fold in record.get("folds", ())]
    measured.setdefault(BASELINES, {})[recipe.name] = {
        "fields": fields,
        "folds": bool(several),
        "name": best["name"],
        "setting": best["setting"],
        "metrics": summarise(several) if several else best["metrics"],
        "cpu_seconds": round(sum(entry["seconds"] for entry in record["baselines"]), 1),
    }


def collect_paired(recipe: Recipe, measured: Measured, folder: Path) -> None:
    """Add the p-value of a paired test of a run and its baseline over the test examples.

    Nothing is added with folds, or if a folder lacks the metrics of each test example.

    Args:
        recipe: the recipe.
        measured: measurements, which have the run and the baseline and receive the p-value.
        folder: folder of the runs and baselines. `edgewise train` writes quick baselines to the
            folder of the run.
    """
    best = baseline_of(recipe, measured)
    if best is None or recipe.protocol is None or recipe.protocol.folds:
        return
    metric = recipe.protocol.metrics[0].removeprefix("test/")
    try:
        run = runs.per_example_metrics(folder / recipe.name)
    except EdgewiseError:
        return
    for path in sorted(folder.glob(f"*/{EXAMPLES}")):
        baseline_run = RunFolder(path.parent)
        record = baseline_run.read_json(FILE)
        chosen = next(entry for entry in record["baselines"] if entry["name"] == record["best"])
        if any(chosen[key] != best[key] for key in ("name", "setting", "metrics")):
            continue
        try:
            p = runs.paired_tests(run, baseline_run.read_tensors(EXAMPLES))[metric].p
        except (EdgewiseError, KeyError):
            continue
        measured[recipe.name]["paired"] = {"baseline": best["metrics"], "p": p}
        return


def mean(value: Any) -> float:
    """Return a number, or the mean of several."""
    return float(value["mean"] if isinstance(value, dict) else value)


def is_behind(recipe: Recipe, metrics: dict[str, Any], baseline: dict[str, Any]) -> bool:
    """Return whether the baseline is better in a metric of the row."""
    assert recipe.protocol is not None
    for name in recipe.protocol.metrics:
        if name in baseline["metrics"]:
            gain = mean(metrics[name]) - mean(baseline["metrics"][name])
            if (gain > 0) if lower_is_better(recipe, name) else (gain < 0):
                return True
    return False


def collect(
    measured: Measured, runs: Path, names: list[str], train: bool, baselines: bool = False
) -> None:
    """Add the metrics of the run folders, and of the baselines."""
    for name in names:
        recipe, folder = RECIPES[name], RunFolder(runs / name)
        if recipe.protocol is None:
            continue
        is_measured = name in measured and is_whole(recipe, measured[name])
        measurement = measured_again(recipe, folder, train and not is_measured)
        if measurement is not None:
            measured[name] = measurement
        collect_baseline(recipe, measured, runs / f"{name}-baseline", baselines)
        if measurement is not None:
            collect_paired(recipe, measured, runs)
        for other in BESIDE.get(name, {}):
            if (runs / f"{other}.json").is_file():
                measured[other] = json.loads((runs / f"{other}.json").read_text())
            elif (run := RunFolder(runs / other)).has(METRICS):
                measured[other] = {"metrics": run.read_metrics()}


def page(measured: Measured) -> str:
    """Return the text of the page."""
    shown: dict[str, list[Recipe]] = {title: [] for title in SECTIONS}
    owed = []
    for name, recipe in RECIPES.items():
        if recipe.protocol and name in measured and is_current(recipe, measured[name]):
            shown.setdefault(recipe.data.section, []).append(recipe)
        elif recipe.protocol:  # recipes on the user's data have no protocol
            owed.append(name)
    sections = [section(title, recipes, measured) for title, recipes in shown.items() if recipes]
    if owed:
        listed = ", ".join(f"`{name}`" for name in owed)
        sections.append(
            f"## Not measured\n\nThese recipes have no current measurement: {listed}.\n"
        )
    return "\n".join([HEAD, *sections])


def section(title: str, chosen: list[Recipe], measured: Measured) -> str:
    """Return a section: a table, and the commands that reproduce it."""
    rows, commands = [], []
    for recipe in chosen:
        protocol = recipe.protocol
        assert protocol is not None
        commands.append(f"edgewise train {recipe.name} {protocol.options}".rstrip())
        metrics = measured[recipe.name]["metrics"]
        ours = numbers(metrics, protocol.metrics)
        how = f"{protocol.says}; {repeats(recipe, metrics)}"
        model = model_text(recipe, measured[recipe.name])
        baseline = baseline_of(recipe, measured)
        alone, simple, behind = "", "", ""
        if baseline is not None:
            shared = tuple(name for name in protocol.metrics if name in baseline["metrics"])
            alone = f"{baseline['name']}: {numbers(baseline['metrics'], shared)}"
            simple = alone + p_value(measured[recipe.name], baseline, shared[0])
            behind = f"Behind {baseline['name']}: " * is_behind(recipe, metrics, baseline)
        elif own_fields(recipe) is not None:
            simple = "not measured"
        called = f"{behind}`{recipe.name}`"
        parts = parts_alone(recipe, measured, alone)
        row = [called, model, ours, parts, simple, protocol.reference, how, minutes(metrics)]
        rows.append(row)
        for name, (how, command) in BESIDE.get(recipe.name, {}).items():
            if name in measured and has_numbers(measured[name], protocol.metrics):
                metrics = measured[name]["metrics"]
                values = numbers(metrics, protocol.metrics)
                rows.append([f"*{name}*", "", values, "", "", "", how, minutes(metrics)])
                commands.append(command)
    head = ["recipe", "model", "ours", "parts", "baseline", "published", "protocol", "minutes"]
    table = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    about = [SECTIONS[title], ""] if SECTIONS.get(title) else []
    commands = list(dict.fromkeys(commands))  # one command may measure two rows
    return "\n".join([f"## {title}", "", *about, *table, "", "```", *commands, "```", ""])


def p_value(measurement: dict[str, Any], baseline: dict[str, Any], name: str) -> str:
    """Format the p-value of the paired t-test; empty if it was not measured.

    Args:
        measurement: measurement of the recipe.
        baseline: measurement of its baseline.
        name: metric, for a test over folds.
    """
    if not baseline["folds"]:
        paired = measurement.get("paired", {"baseline": None})
        return formatted(paired["p"]) if paired["baseline"] == baseline["metrics"] else ""
    ours, simple = (
        metrics[name]["values"] for metrics in (measurement["metrics"], baseline["metrics"])
    )
    if len({round(a - b, 9) for a, b in zip(ours, simple, strict=True)}) == 1:
        return ""
    return formatted(runs.paired_test(torch.tensor(ours), torch.tensor(simple)).p)


def formatted(p: float) -> str:
    """Format a p-value, such as ``; p = 0.46``."""
    return f"; p = {p:.2f}" if p >= 0.01 else "; p < 0.01"


def numbers(metrics: dict[str, Any], names: tuple[str, ...]) -> str:
    """Format metrics, such as ``MAE 0.0275 ± 0.0040, R² 0.9490 ± 0.0100``."""
    return ", ".join(f"{label(name)} {number(name, metrics[name])}" for name in names)


def label(name: str) -> str:
    """Return the label of a metric, such as ``MAE`` for ``test/mae``."""
    short = name.rpartition("/")[2]
    return NAMES.get(short, short)


def number(name: str, value: Any) -> str:
    """Format one number, or mean ± standard deviation."""
    several = value if isinstance(value, dict) else {"mean": value}
    values = [several[x] for x in ("mean", "std") if x in several]
    if name.endswith("bleu"):
        return " ± ".join(f"{x:.1f}" for x in values)
    if name.endswith(("accuracy", "exact")):
        return " ± ".join(f"{100 * x:.2f}" for x in values) + " %"
    return " ± ".join(f"{x:.4f}" for x in values)


def repeats(recipe: Recipe, metrics: dict[str, Any]) -> str:
    """Return the seeds or folds of the mean, marked stale if the protocol has others."""
    count, num_runs = runs_of(recipe, metrics)
    assert recipe.protocol is not None
    folds = recipe.protocol.folds
    if count != num_runs:
        again = f"`python docs/results.py --runs DIR --train {recipe.name}`"
        return f"**stale: {count} of {num_runs} {'folds' if folds else 'seeds'}**, {again}"
    if folds:
        seeds = f", mean prediction of {recipe.protocol.seeds} seeds" * bool(recipe.protocol.seeds)
        return f"{count} folds{seeds}"
    return f"seeds 0 to {count - 1}" if recipe.protocol.seeds else "one seed"


def minutes(metrics: dict[str, Any]) -> str:
    """Return the processor time of all runs in minutes."""
    spent = metrics.get("cpu_seconds")
    if spent is None:  # older runs did not record it
        return "not recorded"
    total = sum(spent["values"]) if isinstance(spent, dict) else spent
    return f"{total / 60:.1f}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "recipes", nargs="*", help="names of recipes (default: all with a protocol)"
    )
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="folder of finished runs, DIR/RECIPE"
    )
    parser.add_argument(
        "--train", action="store_true", help="first train recipes that are not measured"
    )
    parser.add_argument(
        "--baselines", action="store_true", help="first measure baselines that are not measured"
    )
    parser.add_argument(
        "--check", action="store_true", help="only check whether the page is current"
    )
    arguments = parser.parse_args()
    measured: Measured = json.loads(MEASURED.read_text()) if MEASURED.is_file() else {}
    if arguments.check:
        stale = not PAGE.is_file() or PAGE.read_text() != page(measured)
        print("results.md is stale: run `python docs/results.py`" if stale else "up to date")
        return int(stale)
    if arguments.runs is not None:
        names = [find(name).name for name in arguments.recipes] or list(RECIPES)
        try:
            collect(measured, arguments.runs, names, arguments.train, arguments.baselines)
        except EdgewiseError as error:
            print(error, file=sys.stderr)
            return 2
        MEASURED.write_text(json.dumps(finite(dict(sorted(measured.items()))), indent=1) + "\n")
    PAGE.write_text(page(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
