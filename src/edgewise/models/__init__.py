"""Models, one file per architecture.

Models are called in the same way for each kind of input:

- **Graphs**: ``model(x, graph, *, edge_attr=None, batch=None)`` with node features ``x`` ``[...,
  N, in_width]`` (or ids of nodes, users or items, if their embeddings are learned), a graph or
  pattern, and edge features ``[E, edge_width]`` in the order of ``graph.edge_index``; models
  without edge features raise an error if ``edge_attr`` is given. ``batch`` assigns the nodes to B
  graphs: the number of nodes of each graph, or, if a node belongs to several graphs, a membership
  graph (edges from nodes to graphs). Without ``batch`` all nodes form one graph, and graph-level
  outputs have the shape ``[out_width]`` (``[1, out_width]`` in ``graph_network`` and
  ``molecule_transformer``, which also take features of each graph, ``global_attr``
  ``[B, global_width]``, such as the temperature of a measurement).
- **Text**: ``model(input_ids, attention_mask=None)`` returns the last hidden states, and
  ``model.logits(states)`` returns logits over the vocabulary. ``input_ids`` is ``[B, T]``, or
  ``[N]`` for texts that are concatenated without padding, whose lengths are ``sizes=``. ``cache=``
  continues the texts of an earlier call, and ``graph=`` replaces the attention graph; a model that
  does not support one of them raises an error.
- **Tables with keys**: ``model(x, cells, graph, batch=)`` with numbers, ids and rows of the cells,
  and the graph of the rows.
- **Images**: ``model(images [B, channels, height, width])``, for a fixed ``image_size``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise.layers import EncoderDecoderModel, TextModel
from edgewise.models.adaptive_span import adaptive_span
from edgewise.models.bert import bert
from edgewise.models.bigbird import bigbird
from edgewise.models.bp_transformer import bp_transformer
from edgewise.models.captioner import captioner
from edgewise.models.compressive import compressive
from edgewise.models.dynamic_conv import dynamic_conv
from edgewise.models.edge_transformer import edge_transformer
from edgewise.models.esa import esa
from edgewise.models.exphormer import exphormer
from edgewise.models.forecaster import forecaster
from edgewise.models.fully_adjacent import fully_adjacent
from edgewise.models.gat import gat
from edgewise.models.gated_gcn import gated_gcn
from edgewise.models.gatv2 import gatv2
from edgewise.models.gcn import gcn
from edgewise.models.gcnii import gcnii
from edgewise.models.gin import gin
from edgewise.models.gnn import gnn
from edgewise.models.gps import gps
from edgewise.models.gpt import gpt
from edgewise.models.grand import grand
from edgewise.models.graph_bert import graph_bert
from edgewise.models.graph_gat import graph_gat
from edgewise.models.graph_gin import graph_gin
from edgewise.models.graph_gnn import graph_gnn
from edgewise.models.graph_network import graph_network
from edgewise.models.graph_transformer import graph_transformer
from edgewise.models.graphormer import graphormer
from edgewise.models.graphsage import graphsage
from edgewise.models.grit import grit
from edgewise.models.gru import gru
from edgewise.models.hgt import hgt
from edgewise.models.laplacian_transformer import laplacian_transformer
from edgewise.models.light_conv import light_conv
from edgewise.models.lightgcn import lightgcn
from edgewise.models.linformer import linformer
from edgewise.models.link_predictor import link_predictor
from edgewise.models.llama import llama
from edgewise.models.longformer import longformer
from edgewise.models.lstm import lstm
from edgewise.models.mae import mae
from edgewise.models.magna import magna
from edgewise.models.molecule_transformer import molecule_transformer
from edgewise.models.monet import monet
from edgewise.models.multi_graph_transformer import multi_graph_transformer
from edgewise.models.performer import performer
from edgewise.models.pinsage import pinsage
from edgewise.models.polynormer import polynormer
from edgewise.models.reformer import reformer
from edgewise.models.relational_transformer import relational_transformer
from edgewise.models.residual_gcn import residual_gcn
from edgewise.models.rgcn import rgcn
from edgewise.models.rnn import rnn
from edgewise.models.roberta import roberta
from edgewise.models.san import san
from edgewise.models.swin import swin
from edgewise.models.t5 import t5
from edgewise.models.token_gt import token_gt
from edgewise.models.transformer import transformer
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.models.transformer_xl import transformer_xl
from edgewise.models.tree_lstm import tree_lstm
from edgewise.models.tree_transformer import tree_transformer
from edgewise.models.triple_predictor import triple_predictor
from edgewise.models.typed_transformer import typed_transformer
from edgewise.models.universal import universal
from edgewise.models.vit import vit

NODE_MODELS: dict[str, Callable[..., nn.Module]] = {
    "gnn": gnn,
    "gcn": gcn,
    "gcnii": gcnii,
    "residual_gcn": residual_gcn,
    "graphsage": graphsage,
    "gin": gin,
    "gat": gat,
    "gatv2": gatv2,
    "monet": monet,
    "magna": magna,
    "graph_transformer": graph_transformer,
    "edge_transformer": edge_transformer,
    "grand": grand,
    "graph_bert": graph_bert,
    "rgcn": rgcn,
    "hgt": hgt,
    "typed_transformer": typed_transformer,
}
"""Node-level models. ``f(in_width, out_width)`` builds a model, which is called as ``model(x,
graph) -> [..., N, out_width]``."""

READOUT_MODELS: dict[str, Callable[..., nn.Module]] = {
    "esa": esa,
    "exphormer": exphormer,
    "fully_adjacent": fully_adjacent,
    "gated_gcn": gated_gcn,
    "graph_gat": graph_gat,
    "graph_gin": graph_gin,
    "graph_gnn": graph_gnn,
    "gps": gps,
    "graph_network": graph_network,
    "graphormer": graphormer,
    "grit": grit,
    "laplacian_transformer": laplacian_transformer,
    "molecule_transformer": molecule_transformer,
    "multi_graph_transformer": multi_graph_transformer,
    "polynormer": polynormer,
    "san": san,
    "token_gt": token_gt,
}
"""Graph-level models. ``f(in_width, out_width)`` builds a model, which is called as ``model(x,
graph, batch=) -> [B, out_width]``."""

TREE_MODELS: dict[str, Callable[..., nn.Module]] = {
    "tree_lstm": tree_lstm,
    "tree_transformer": tree_transformer,
}
"""Models of trees. ``f(in_width, out_width)`` builds a model, which is called as ``model(x, graph,
batch=) -> [N, out_width]``; ``graph`` is a forest with edges from children to parents."""

TOKEN_MODELS: dict[str, Callable[..., nn.Module]] = {"transformer_encoder": transformer_encoder}
"""Encoders of feature vectors. ``f(width)`` builds a model, which is called as ``model(x [..., N,
width], graph=None) -> [..., N, width]``."""

IMAGE_MODELS: dict[str, Callable[..., nn.Module]] = {"vit": vit, "swin": swin}
"""Image classifiers. ``f(image_size, channels, out_width)`` builds a model, which is called as
``model(images) -> [B, out_width]``."""

IMAGE_AUTOENCODERS: dict[str, Callable[..., nn.Module]] = {"mae": mae}
"""Image autoencoders. ``f(image_size, channels)`` builds a model, which is called as
``model(images, noise [B, patches])`` and predicts the masked patches."""

CAPTION_MODELS: dict[str, Callable[..., nn.Module]] = {"captioner": captioner}
"""Image captioning models. ``f(image_size, channels, vocab_size, max_length)`` builds a model,
which is called as ``model(images, input_ids [B, T]) -> [B · T, vocab_size]``."""

SERIES_MODELS: dict[str, Callable[..., nn.Module]] = {"forecaster": forecaster}
"""Time series models. ``f(history, horizon, season)`` builds a model, which is called as
``model(history [B, T]) -> [B, horizon]``."""

TEXT_MODELS: dict[str, Callable[..., TextModel]] = {
    "bert": bert,
    "roberta": roberta,
    "gpt": gpt,
    "llama": llama,
    "longformer": longformer,
    "bigbird": bigbird,
    "reformer": reformer,
    "bp_transformer": bp_transformer,
    "adaptive_span": adaptive_span,
    "linformer": linformer,
    "performer": performer,
    "universal": universal,
    "transformer_xl": transformer_xl,
    "compressive": compressive,
    "rnn": rnn,
    "lstm": lstm,
    "gru": gru,
}
"""Text models. ``f(vocab_size)`` builds a model, which is called as ``model(input_ids,
attention_mask=None) -> [B, T, width]``."""

ENCODER_DECODER_MODELS: dict[str, Callable[..., EncoderDecoderModel]] = {
    "transformer": transformer,
    "t5": t5,
    "light_conv": light_conv,
    "dynamic_conv": dynamic_conv,
}
"""Encoder-decoder models. ``f(vocab_size)`` builds a model, which is called as ``model(input_ids
[B, S], attention_mask, decoder_input_ids [B, T], decoder_attention_mask) -> [B, T, width]``. Texts
concatenated without padding take ``sizes`` and ``decoder_sizes`` instead of the masks.
``model.logits(states)`` returns the logits."""

LINK_MODELS: dict[str, Callable[..., nn.Module]] = {"link_predictor": link_predictor}
"""Link prediction models. ``f(num_nodes)`` builds a model, which is called as ``model(pairs [2, M],
graph) -> [M]``. ``embed(graph)`` returns the states of all nodes, and ``score(states, pairs,
graph)`` the scores of pairs."""

TRIPLE_MODELS: dict[str, Callable[..., nn.Module]] = {"triple_predictor": triple_predictor}
"""Models of links by relation. ``f(num_nodes)`` builds a model, which is called as
``model(questions [2, B], entities [M], graph) -> [B, M]``; a question is a node and a relation."""

RECOMMENDERS: dict[str, Callable[..., nn.Module]] = {"lightgcn": lightgcn, "pinsage": pinsage}
"""Recommenders. ``f(num_users, num_items)`` builds a model, which is called as ``model(users [B],
items [M], graph) -> [B, M]``."""

RELATIONAL_MODELS: dict[str, Callable[..., nn.Module]] = {
    "relational_transformer": relational_transformer
}
"""Models of tables with keys. ``f(in_width, out_width, num_columns, num_values)`` builds a model,
which is called as ``model(x [N, in_width], cells [N, 3], graph, batch=) -> [B, out_width]``."""

KINDS: dict[str, Mapping[str, Callable[..., nn.Module]]] = {
    "nodes of a graph": NODE_MODELS,
    "whole graphs": READOUT_MODELS,
    "trees": TREE_MODELS,
    "features of tokens": TOKEN_MODELS,
    "images": IMAGE_MODELS,
    "images without labels": IMAGE_AUTOENCODERS,
    "image to text": CAPTION_MODELS,
    "series": SERIES_MODELS,
    "text": TEXT_MODELS,
    "text to text": ENCODER_DECODER_MODELS,
    "links": LINK_MODELS,
    "links by relation": TRIPLE_MODELS,
    "recommendation": RECOMMENDERS,
    "tables with keys": RELATIONAL_MODELS,
}
"""Model tables by kind of input. Models of one table are called in the same way."""

MODELS: dict[str, Callable[..., nn.Module]] = {
    name: model for kind in KINDS.values() for name, model in kind.items()
}
"""Functions that build a model, by architecture name."""


def about(name: str) -> dict[str, str]:
    """Return the summary of a model: its title, formula, graph, score, paper and so on.

    Example:
        >>> from edgewise import models
        >>> models.about("gat")["Paper"]
        'Veličković et al., Graph attention networks, 2018'
    """
    check_choice("model", name, MODELS)
    text = (sys.modules[MODELS[name].__module__].__doc__ or "").strip()
    title, *lines = re.sub(r"\n +", " ", text).splitlines()  # An indented line continues an entry.
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    return {"title": title.rstrip("."), **dict(pairs)}


__all__ = [
    "CAPTION_MODELS",
    "ENCODER_DECODER_MODELS",
    "IMAGE_AUTOENCODERS",
    "IMAGE_MODELS",
    "KINDS",
    "LINK_MODELS",
    "MODELS",
    "NODE_MODELS",
    "READOUT_MODELS",
    "RECOMMENDERS",
    "RELATIONAL_MODELS",
    "SERIES_MODELS",
    "TEXT_MODELS",
    "TOKEN_MODELS",
    "TREE_MODELS",
    "TRIPLE_MODELS",
    "about",
    "adaptive_span",
    "bert",
    "bigbird",
    "bp_transformer",
    "captioner",
    "compressive",
    "dynamic_conv",
    "edge_transformer",
    "esa",
    "exphormer",
    "forecaster",
    "fully_adjacent",
    "gat",
    "gated_gcn",
    "gatv2",
    "gcn",
    "gcnii",
    "gin",
    "gnn",
    "gps",
    "gpt",
    "grand",
    "graph_bert",
    "graph_gat",
    "graph_gin",
    "graph_gnn",
    "graph_network",
    "graph_transformer",
    "graphormer",
    "graphsage",
    "grit",
    "gru",
    "hgt",
    "laplacian_transformer",
    "light_conv",
    "lightgcn",
    "linformer",
    "link_predictor",
    "llama",
    "longformer",
    "lstm",
    "mae",
    "magna",
    "molecule_transformer",
    "monet",
    "multi_graph_transformer",
    "performer",
    "pinsage",
    "polynormer",
    "reformer",
    "relational_transformer",
    "residual_gcn",
    "rgcn",
    "rnn",
    "roberta",
    "san",
    "swin",
    "t5",
    "token_gt",
    "transformer",
    "transformer_encoder",
    "transformer_xl",
    "tree_lstm",
    "tree_transformer",
    "triple_predictor",
    "typed_transformer",
    "universal",
    "vit",
]


def __dir__() -> list[str]:
    return __all__
