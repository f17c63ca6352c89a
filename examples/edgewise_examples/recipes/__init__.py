"""Recipes of small trainings for teaching."""

from __future__ import annotations

from edgewise_examples.recipes.caption_digits import caption_digits
from edgewise_examples.recipes.csl import gin_csl, gnn_csl, gps_csl, graphormer_csl, laplacian_csl
from edgewise_examples.recipes.dictionary_lookup import gat_dictionary, gatv2_dictionary
from edgewise_examples.recipes.digit_rows import digit_rows
from edgewise_examples.recipes.long_texts import duplication, recall, recall_lsh
from edgewise_examples.recipes.neighbors_match import gat_match, gcn_match, gin_match, gps_match
from edgewise_examples.recipes.quickdraw import sketches
from edgewise_examples.recipes.rings import gps_rings, random_rings
from edgewise_examples.recipes.summaries import summarise_wikitext
from edgewise_examples.recipes.trees import tree_lstm_ewt, tree_transformer_ewt

RECIPES = (
    caption_digits,
    digit_rows,
    duplication,
    gat_dictionary,
    gat_match,
    gatv2_dictionary,
    gcn_match,
    gin_csl,
    gin_match,
    gnn_csl,
    gps_csl,
    gps_match,
    gps_rings,
    graphormer_csl,
    laplacian_csl,
    random_rings,
    recall,
    recall_lsh,
    sketches,
    summarise_wikitext,
    tree_lstm_ewt,
    tree_transformer_ewt,
)
