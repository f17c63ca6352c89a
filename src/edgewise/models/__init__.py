"""Models: one architecture a file, named after it. A new one is a file and a line here."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torch import nn

from edgewise.errors import unknown_name
from edgewise.layers import PairModel, TextModel
from edgewise.models.bert import bert
from edgewise.models.captioner import captioner
from edgewise.models.edge_transformer import edge_transformer
from edgewise.models.forecaster import forecaster
from edgewise.models.gat import gat
from edgewise.models.gatv2 import gatv2
from edgewise.models.gcn import gcn
from edgewise.models.gin import gin
from edgewise.models.gnn import gnn
from edgewise.models.gpt import gpt
from edgewise.models.grand import grand
from edgewise.models.graph_gat import graph_gat
from edgewise.models.graph_gin import graph_gin
from edgewise.models.graph_network import graph_network
from edgewise.models.graph_transformer import graph_transformer
from edgewise.models.graphsage import graphsage
from edgewise.models.gru import gru
from edgewise.models.lightgcn import lightgcn
from edgewise.models.link_predictor import link_predictor
from edgewise.models.llama import llama
from edgewise.models.lstm import lstm
from edgewise.models.magna import magna
from edgewise.models.molecule_transformer import molecule_transformer
from edgewise.models.monet import monet
from edgewise.models.pinsage import pinsage
from edgewise.models.rnn import rnn
from edgewise.models.roberta import roberta
from edgewise.models.t5 import t5
from edgewise.models.transformer import transformer
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.models.vit import vit

NODE_MODELS: dict[str, Callable[..., nn.Module]] = {
    "gnn": gnn,
    "gcn": gcn,
    "graphsage": graphsage,
    "gin": gin,
    "gat": gat,
    "gatv2": gatv2,
    "monet": monet,
    "magna": magna,
    "graph_transformer": graph_transformer,
    "grand": grand,
}
"""``f(in_width, out_width)``, called ``model(x [N, in_width], graph) -> [N, out_width]``."""

EDGE_MODELS: dict[str, Callable[..., nn.Module]] = {"edge_transformer": edge_transformer}
"""``f(in_width, edge_width, out_width)``, called ``model(x [N, in_width], graph,
edge [E, edge_width]) -> (nodes [N, out_width], edges [E, hidden])``."""

GRAPH_MODELS: dict[str, Callable[..., nn.Module]] = {"graph_network": graph_network}
"""``f(in_width, edge_width, whole_width, out_width)``, called ``model(x [N, in_width], graph,
edge [E, edge_width], whole [G, whole_width], sizes=None) -> (nodes, edges, graphs)``, each
``[count, out_width]``; ``sizes`` are the numbers of nodes of G packed graphs."""

TOKEN_MODELS: dict[str, Callable[..., nn.Module]] = {"transformer_encoder": transformer_encoder}
"""``f(width)``, called ``model(x [..., N, width], graph=None) -> [..., N, width]``."""

IMAGE_MODELS: dict[str, Callable[..., nn.Module]] = {"vit": vit}
"""``f(image_size, channels, out_width)``, called ``model(images) -> [B, out_width]``."""

CAPTION_MODELS: dict[str, Callable[..., nn.Module]] = {"captioner": captioner}
"""``f(image_height, image_width, channels, vocabulary, length)``, called ``model(images, ids
[B, T]) -> [B · T, vocabulary]``."""

SERIES_MODELS: dict[str, Callable[..., nn.Module]] = {"forecaster": forecaster}
"""``f(history, horizon, season)``, called ``model(history [B, T]) -> [B, horizon]``."""

TEXT_MODELS: dict[str, Callable[..., TextModel]] = {
    "bert": bert,
    "roberta": roberta,
    "gpt": gpt,
    "llama": llama,
    "rnn": rnn,
    "lstm": lstm,
    "gru": gru,
}
"""``f(vocabulary)``, called ``model(ids [B, T], attention_mask=None) -> states [B, T, width]``, or
``model(ids [N], sizes=sizes) -> [N, width]`` for a packed batch; ``model.logits(states)`` are the
scores ``[..., vocabulary]``; ``cache=`` continues where an earlier call stopped."""

PAIR_MODELS: dict[str, Callable[..., PairModel]] = {"transformer": transformer, "t5": t5}
"""``f(vocabulary)``, called ``model(ids [B, S], mask, target_ids [B, T], target_mask) -> [B, T,
width]``, or with ``sizes`` and ``decoder_sizes`` for packed batches; ``model.logits(states)``."""

READOUT_MODELS: dict[str, Callable[..., nn.Module]] = {
    "graph_gat": graph_gat,
    "graph_gin": graph_gin,
    "molecule_transformer": molecule_transformer,
}
"""``f(in_width, out_width)``, called ``model(x [N, in_width], graph, members) -> [B, out_width]``:
``members`` is the bipartite graph of which output reads which nodes (``graphs.membership``)."""

LINK_MODELS: dict[str, Callable[..., nn.Module]] = {"link_predictor": link_predictor}
"""``f(num_nodes)``, called ``model(graph, pairs [2, M]) -> [M]``."""

RECOMMENDERS: dict[str, Callable[..., nn.Module]] = {"lightgcn": lightgcn, "pinsage": pinsage}
"""``f(num_users, num_items)``, called ``model(graph, users [B], items [M]) -> [B, M]``."""

MODELS: dict[str, Callable[..., nn.Module]] = {
    **NODE_MODELS,
    **EDGE_MODELS,
    **GRAPH_MODELS,
    **TOKEN_MODELS,
    **IMAGE_MODELS,
    **CAPTION_MODELS,
    **SERIES_MODELS,
    **TEXT_MODELS,
    **PAIR_MODELS,
    **READOUT_MODELS,
    **LINK_MODELS,
    **RECOMMENDERS,
}
"""Every architecture by name; contract tests run over them by kind."""


def about(name: str) -> dict[str, str]:
    """What the docstring of a model's file says: ``title``, ``Formula``, ``Graph``, ``Paper``."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    title, *lines = (sys.modules[MODELS[name].__module__].__doc__ or "").strip().splitlines()
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    return {"title": title.rstrip("."), **dict(pairs)}


__all__ = [
    "CAPTION_MODELS",
    "EDGE_MODELS",
    "GRAPH_MODELS",
    "IMAGE_MODELS",
    "LINK_MODELS",
    "MODELS",
    "NODE_MODELS",
    "PAIR_MODELS",
    "READOUT_MODELS",
    "RECOMMENDERS",
    "SERIES_MODELS",
    "TEXT_MODELS",
    "TOKEN_MODELS",
    "about",
    "bert",
    "captioner",
    "edge_transformer",
    "forecaster",
    "gat",
    "gatv2",
    "gcn",
    "gin",
    "gnn",
    "gpt",
    "grand",
    "graph_gat",
    "graph_gin",
    "graph_network",
    "graph_transformer",
    "graphsage",
    "gru",
    "lightgcn",
    "link_predictor",
    "llama",
    "lstm",
    "magna",
    "molecule_transformer",
    "monet",
    "pinsage",
    "rnn",
    "roberta",
    "t5",
    "transformer",
    "transformer_encoder",
    "vit",
]
