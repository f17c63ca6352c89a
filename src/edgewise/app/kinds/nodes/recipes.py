"""Recipes of node classification: Cora with its public split, and the user's own graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.nodes.aifb import Aifb
from edgewise.app.kinds.nodes.arrays import NodeArrays
from edgewise.app.kinds.nodes.files import NodeFiles
from edgewise.app.kinds.nodes.heterophilous import Heterophilous
from edgewise.app.kinds.nodes.planetoid import Planetoid
from edgewise.app.kinds.nodes.task import Consistency
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import ConstantSchedule, CosineSchedule
from edgewise.app.train.tasks.classification import Classification

# The best epoch is chosen by loss, because many epochs have the same accuracy on the 500
# validation papers.
BY_LOSS = TrainerSettings(epochs=200, monitor="val/loss", mode="min")


def _ten_seeds(reference: str) -> Protocol:
    return Protocol(
        ("test/accuracy",), reference, "public split, best epoch by validation loss", seeds=10
    )


gcn_cora = Recipe(
    name="gcn-cora",
    summary="Graph convolutional network on Cora: mean accuracy 82 % over ten seeds",
    model=partial(models.gcn, width=16, depth=2, dropout=0.5),
    data=Planetoid(name="Cora"),
    task=Classification(),
    # Weight decay applies to the first convolution only; layer 0 is the dropout before it.
    optimizer=OptimizerSettings("adam", lr=0.01, weight_decay=5e-4, decay_only=r"^layers\.1\."),
    schedule=ConstantSchedule(),
    trainer=BY_LOSS,
    protocol=_ten_seeds("81.5 % (Kipf and Welling, 2017)"),
)

gat_cora = replace(
    gcn_cora,
    name="gat-cora",
    summary="Graph attention network on Cora: mean accuracy 83 % over ten seeds",
    model=partial(models.gat, head_width=8, heads=8, output_heads=1, dropout=0.6),
    optimizer=OptimizerSettings("adam", lr=0.005, weight_decay=5e-4),
    trainer=replace(BY_LOSS, epochs=2000, patience=100),
    protocol=_ten_seeds("83.0 ± 0.7 % (Veličković et al., 2018)"),
)

# The models below have residual connections, with which they memorise the words of the 140 training
# papers. Propagating the outputs over the citations reduces this. The outputs must also agree under
# two random dropout masks, for papers without labels too. Word counts are not divided by their sum,
# because they would then be smaller than the bias of the first layer.
_COUNTS = Planetoid(name="Cora", normalize=False, unlabelled=True)
_TWO_VIEWS = Consistency(weight=1.0, temperature=0.7, views=2)

magna_cora = replace(
    gcn_cora,
    name="magna-cora",
    summary="MAGNA on Cora: multi-hop attention by diffusion, and propagation of the outputs",
    model=partial(models.magna, width=64, depth=2, hops=6, alpha=0.1, dropout=0.5, output_hops=10),
    data=_COUNTS,
    task=_TWO_VIEWS,
    optimizer=OptimizerSettings("adam", lr=2e-3, weight_decay=5e-3),
    trainer=replace(BY_LOSS, epochs=60),
    protocol=_ten_seeds("85.4 ± 0.6 % (Wang et al., 2021; width 512, 6 blocks); not reached"),
)

grand_cora = Recipe(
    name="grand-cora",
    summary="GRAND on Cora, consistency of random views: mean accuracy 84.6 % over ten seeds",
    model=partial(models.grand, width=32, hops=8, views=4),
    data=Planetoid(name="Cora", unlabelled=True),
    task=Consistency(weight=1.0, temperature=0.5),
    optimizer=OptimizerSettings("adam", lr=0.02, weight_decay=5e-4),
    schedule=CosineSchedule(warmup=0.0),
    trainer=replace(BY_LOSS, epochs=500),
    protocol=_ten_seeds("85.4 % (Feng et al., 2020); not reached"),
)

gcnii_cora = replace(
    gcn_cora,
    name="gcnii-cora",
    summary="GCNII on Cora: 64 graph convolutions with initial residual connections",
    model=partial(models.gcnii, width=64, depth=64, alpha=0.1, decay=0.5, dropout=0.6),
    optimizer=OptimizerSettings(
        "adam", lr=0.01, weight_decay=0.01, decay_only=r"^layers\.", other_weight_decay=5e-4
    ),
    trainer=replace(BY_LOSS, epochs=1500, patience=100),
    protocol=replace(_ten_seeds("85.5 % (Chen et al., 2020)"), seeds=3),
)

gps_cora = Recipe(
    name="gps-cora",
    summary="GPS on Cora: message passing on citations and attention to all papers",
    model=partial(
        models.gps,
        local="gcn",
        position="none",
        width=32,
        depth=2,
        heads=2,
        norm="layer",
        pool="none",
        dropout=0.7,
        attention_dropout=0.5,
        output_hops=10,
    ),
    data=_COUNTS,
    task=_TWO_VIEWS,
    optimizer=OptimizerSettings("adam", lr=5e-3, weight_decay=1e-2),
    schedule=ConstantSchedule(),
    trainer=replace(BY_LOSS, epochs=60),
    protocol=_ten_seeds("none"),
)

exphormer_cora = replace(
    gps_cora,
    name="exphormer-cora",
    summary="Exphormer on Cora: attention on citations, an expander graph and a virtual node",
    model=partial(models.exphormer, **gps_cora.model.keywords),
    protocol=_ten_seeds("none"),
)

graph_bert_cora = replace(
    gcn_cora,
    name="graph-bert-cora",
    summary="Graph-BERT on Cora: each paper attends to the 7 nearest by personalised PageRank",
    model=partial(models.graph_bert, dropout=0.7, output_hops=10),
    data=_COUNTS,
    task=_TWO_VIEWS,
    optimizer=OptimizerSettings("adam", lr=0.01, weight_decay=5e-3),
    trainer=replace(BY_LOSS, epochs=40),
    protocol=_ten_seeds(
        "none (84.3 % in Zhang et al., 2020, is the best test accuracy over the epochs, on another "
        "split)"
    ),
)

rgcn_aifb = Recipe(
    name="rgcn-aifb",
    summary="R-GCN on the knowledge graph AIFB: the research group of a person",
    model=partial(models.rgcn, width=16, depth=2, bases=30, dropout=0.5),
    data=Aifb(),
    task=Classification(),
    optimizer=OptimizerSettings("adam", lr=0.01, weight_decay=5e-4),
    schedule=ConstantSchedule(),
    trainer=TrainerSettings(epochs=50, monitor="val/loss", mode="min"),
    protocol=Protocol(
        ("test/accuracy",),
        "none (95.8 % in Schlichtkrull et al., 2018, on another split)",
        "split of AIFB+, best epoch by validation loss",
        seeds=5,
    ),
)

gcn_minesweeper = Recipe(
    name="gcn-minesweeper",
    summary="Deep GCN with residuals on minesweeper, or --data.name tolokers; --folds: 3 splits",
    model=partial(models.residual_gcn, width=64, depth=12, dropout=0.2),
    data=Heterophilous(folds=3),
    task=Classification(),
    optimizer=OptimizerSettings("adam", lr=0.01),
    schedule=ConstantSchedule(),
    trainer=TrainerSettings(epochs=1000, monitor="val/roc_auc", mode="max"),
    protocol=Protocol(
        ("test/roc_auc",),
        "0.9786 ± 0.0024 (Luo et al., 2024; 2,000 epochs); not reached",
        "the first three of the published splits, as in Luo et al.; best epoch by validation",
        folds=True,
    ),
)

polynormer_minesweeper = replace(
    gcn_minesweeper,
    name="polynormer-minesweeper",
    # The authors train width 512 (64 per head) for 100 local and 2,000 global epochs.
    summary="Small Polynormer on minesweeper, or on tolokers with --data.name tolokers",
    model=partial(
        models.polynormer,
        width=64,
        depth=10,
        global_depth=3,
        heads=8,
        local_calls=100,
        pool="none",
        dropout=0.3,
        input_dropout=0.2,
    ),
    data=Heterophilous(),
    optimizer=OptimizerSettings("adam", lr=1e-3),
    protocol=Protocol(
        ("test/roc_auc",),
        "0.9746 (Deng et al., 2024; width 512, 2,100 epochs); not reached",
        "the first of the ten published splits; best epoch by validation",
    ),
)

nodes = Recipe(
    name="nodes",
    summary="GraphSAGE predicts classes or numbers of nodes: --data.nodes a.csv --data.edges b.csv",
    model=partial(models.graphsage, width=64, depth=2, dropout=0.5),
    data=NodeFiles(),
    task=Classification(),
    optimizer=OptimizerSettings("adam", lr=0.01, weight_decay=5e-4),
    schedule=ConstantSchedule(),
    trainer=TrainerSettings(epochs=300, patience=100, monitor="val/loss", mode="min"),
)

nodes_on_disk = replace(
    nodes,
    name="nodes-on-disk",
    summary="GraphSAGE on a graph that does not fit in memory: --data.path with arrays on disk",
    model=partial(models.graphsage, width=64),
    data=NodeArrays(),
    trainer=TrainerSettings(epochs=5, monitor="val/loss", mode="min"),
)

nodes_typed = replace(
    nodes,
    name="nodes-typed",
    summary="R-GCN on edges with relations: --data.nodes, --data.edges and --data.relation",
    model=partial(models.rgcn, width=16, depth=2, bases=30, dropout=0.5),
)

nodes_few_labels = replace(
    nodes,
    name="nodes-few-labels",
    summary="GraphSAGE that also learns from nodes without a label: --data.nodes and --data.edges",
    data=NodeFiles(unlabelled=True),
    task=_TWO_VIEWS,
)
