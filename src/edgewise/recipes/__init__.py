"""Recipes: a model, a data set, a task and hyper-parameters. One file per data set."""

from __future__ import annotations

from edgewise.arguments import check_choice
from edgewise.plugins import Registry
from edgewise.recipes.bert import bert_wikitext, roberta_wikitext, unidirectional_wikitext
from edgewise.recipes.cifar10 import swin_cifar10, vit_cifar10
from edgewise.recipes.cora import (
    exphormer_cora,
    gat_cora,
    gcn_cora,
    gps_cora,
    grand_cora,
    graph_bert_cora,
    magna_cora,
)
from edgewise.recipes.digits import digits
from edgewise.recipes.ego_facebook import sage_facebook
from edgewise.recipes.esol import attentive_esol, gin_esol, gps_esol
from edgewise.recipes.ewt import gru_ewt, lstm_ewt, rnn_ewt, tag_ewt
from edgewise.recipes.forecast import forecast
from edgewise.recipes.gowalla import lightgcn_gowalla, pinsage_gowalla
from edgewise.recipes.images import images
from edgewise.recipes.interactions import interactions
from edgewise.recipes.ionic_liquids import ionic_liquids_co2
from edgewise.recipes.links import links
from edgewise.recipes.masked_molecules import masked_molecules
from edgewise.recipes.mnist import swin_mnist, vit_mnist
from edgewise.recipes.molecules import molecules
from edgewise.recipes.multi30k import (
    dynamic_conv_multi30k,
    light_conv_multi30k,
    transformer_multi30k,
)
from edgewise.recipes.nodes import nodes
from edgewise.recipes.pairs import pairs
from edgewise.recipes.recipe import Protocol, Recipe
from edgewise.recipes.series import series
from edgewise.recipes.shakespeare import (
    gpt_shakespeare,
    gpt_shakespeare_best,
    gpt_shakespeare_long,
    lstm_shakespeare,
)
from edgewise.recipes.sst2 import gru_sst2, lstm_sst2, rnn_sst2, sst2
from edgewise.recipes.tags import tags
from edgewise.recipes.texts import texts
from edgewise.recipes.tu import gat_enzymes, gin_mutag
from edgewise.recipes.war_and_peace import long_war_and_peace, xl_war_and_peace
from edgewise.recipes.writing import writing
from edgewise.recipes.zinc import gat_zinc, gin_zinc, gps_zinc, graphormer_zinc, laplacian_zinc

RECIPES: Registry[Recipe] = Registry(
    "RECIPES",
    {
        recipe.name: recipe
        for recipe in (
            attentive_esol,
            bert_wikitext,
            digits,
            vit_mnist,
            swin_mnist,
            vit_cifar10,
            swin_cifar10,
            exphormer_cora,
            forecast,
            gat_cora,
            gat_enzymes,
            gat_zinc,
            gcn_cora,
            gin_esol,
            gin_mutag,
            gin_zinc,
            gps_cora,
            gps_esol,
            gps_zinc,
            graphormer_zinc,
            laplacian_zinc,
            gpt_shakespeare,
            gpt_shakespeare_best,
            gpt_shakespeare_long,
            lstm_shakespeare,
            grand_cora,
            graph_bert_cora,
            images,
            interactions,
            ionic_liquids_co2,
            lightgcn_gowalla,
            links,
            magna_cora,
            masked_molecules,
            nodes,
            molecules,
            pinsage_gowalla,
            sage_facebook,
            series,
            roberta_wikitext,
            unidirectional_wikitext,
            transformer_multi30k,
            light_conv_multi30k,
            dynamic_conv_multi30k,
            sst2,
            lstm_sst2,
            gru_sst2,
            rnn_sst2,
            tag_ewt,
            lstm_ewt,
            gru_ewt,
            rnn_ewt,
            pairs,
            tags,
            texts,
            xl_war_and_peace,
            long_war_and_peace,
            writing,
        )
    },
)
"""Recipes by name, with those of installed packages."""


def find(name: str) -> Recipe:
    """Return the recipe of this name.

    Raises:
        ArgumentError: unknown name; the error suggests the nearest one.
    """
    if name not in RECIPES.own:
        check_choice("recipe", name, RECIPES)
    return RECIPES[name]


__all__ = ["RECIPES", "Protocol", "Recipe", "find"]


def __dir__() -> list[str]:
    return __all__
