"""Example graphs that each model attends over, drawn on the page of the model."""

from __future__ import annotations

import torch
from pictures import PICTURES

from edgewise import graphs
from edgewise.encodings import intimate_nodes
from edgewise.models.relational_transformer import cell_graphs


def _directed(pairs: list[tuple[int, int]], num_nodes: int) -> graphs.Graph:
    """Return the graph whose edges are these pairs ``(source, target)``."""
    return graphs.edges(torch.tensor(pairs).T.contiguous(), num_nodes)


def _undirected(pairs: list[tuple[int, int]], num_nodes: int) -> graphs.Graph:
    return _directed([*pairs, *((b, a) for a, b in pairs)], num_nodes)


RING_AND_TAIL = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (3, 6), (6, 7), (6, 8)]
INPUT = _undirected(RING_AND_TAIL, 9)
"""Example of a molecule-like input graph: a ring of six nodes with a branch of three nodes."""
TREE = _directed([(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)], 7)
"""Tree of 7 nodes in which each node attends to its children."""
CHAIN = _directed([(i, i + 1) for i in range(11)], 12)


def _bipartite() -> graphs.Graph:
    """Return the graph of interactions of users 0 to 3 with items 4 to 8, in both directions."""
    return _undirected([(0, 4), (0, 5), (1, 5), (1, 6), (2, 4), (2, 7), (3, 7), (3, 8)], 9)


def _two_kinds() -> graphs.Graph:
    """Return the input graph with three more edges, which stand for another type of edge."""
    return _undirected([*RING_AND_TAIL, (0, 7), (2, 8), (4, 1)], 9)


def _intimate() -> graphs.Graph:
    near = intimate_nodes(INPUT, 3)
    target = [node for node, size in enumerate(near.sizes.tolist()) for _ in range(size)]
    return _directed(list(zip(near.nodes.tolist(), target, strict=True)), 9)


def _cells() -> Pictures:
    """Return the graphs of 9 cells: a customer (3 cells), two orders (2 each), a product (2)."""
    column = torch.tensor([0, 1, 2, 3, 4, 3, 4, 5, 6])
    row = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3, 3])
    keys = _directed([(0, 1), (0, 2), (3, 1), (3, 2)], 4)
    cells = cell_graphs(column, row, keys, torch.tensor([9]))
    captions = {
        "column": "cells of the same column",
        "features": "cells of the same row, and of the rows that it refers to",
        "neighbours": "cells of the rows that refer to this row",
        "context": "all cells",
    }
    return tuple((caption, getattr(cells, name)) for name, caption in captions.items())


def _readout() -> graphs.Graph:
    """Return the pooling graph of a batch with two graphs of four and five nodes."""
    return graphs.membership([4, 5])


Pictures = tuple[tuple[str, graphs.Graph | graphs.Pattern], ...]
LOOPS: Pictures = (("example of an input graph, with self-loops", INPUT.with_self_loops()),)
PLAIN: Pictures = (("example of an input graph", INPUT),)
READOUT: Pictures = (*PLAIN, ("readout: each graph attends to its nodes", _readout()))
COMPLETE: Pictures = (("complete graph of 16 tokens", PICTURES["complete"]),)
CAUSAL: Pictures = (("causal graph of 16 tokens", PICTURES["causal"]),)
CROSS = ("cross-attention: 16 targets attend to 10 sources", graphs.complete().bind(16, 10))
ENCODER_DECODER: Pictures = (*COMPLETE, *CAUSAL, CROSS)
CONVOLUTIONS: Pictures = (
    ("encoder: each token and 3 tokens on either side", PICTURES["light_conv"]),
    ("decoder: each token and the 3 tokens before it", PICTURES["sliding"]),
    CROSS,
)
RECURRENT: Pictures = (("a chain of 12 tokens", CHAIN),)

MODEL_GRAPHS: dict[str, Pictures] = {
    **dict.fromkeys(("gcn", "gcnii", "residual_gcn", "gat", "gatv2", "magna", "grand"), LOOPS),
    **dict.fromkeys(("gnn", "graphsage", "gin", "monet", "graph_transformer"), PLAIN),
    **dict.fromkeys(("hgt", "rgcn", "triple_predictor", "typed_transformer"), PLAIN),
    "edge_transformer": PLAIN,
    "link_predictor": PLAIN,
    "graph_bert": (("each node and the 3 nodes of highest PageRank from it", _intimate()),),
    "exphormer": (("input edges, an expander graph and a virtual node", PICTURES["exphormer"]),),
    "fully_adjacent": (*PLAIN, ("last layer: complete graph", graphs.complete().bind(9))),
    "graph_gat": (*LOOPS, READOUT[1]),
    **dict.fromkeys(("gated_gcn", "graph_gin", "graph_gnn", "laplacian_transformer"), READOUT),
    "graph_network": READOUT,
    "molecule_transformer": READOUT,
    "gps": (*PLAIN, ("attention: complete graph", graphs.complete().bind(9))),
    "grit": (("complete graph of the nodes", graphs.complete().bind(9)),),
    "polynormer": (*LOOPS, ("global layers: complete graph", graphs.complete().bind(9))),
    "esa": (
        *PLAIN,
        ("M: two edges are joined if they share a node", graphs.line_graph(INPUT)),
        ("P: two seeds attend to the 18 edges", graphs.complete().bind(2, 18)),
    ),
    "token_gt": (("9 nodes, 18 edges and a graph token", graphs.complete().bind(28)),),
    "graphormer": (("complete graph with a virtual node", PICTURES["graphormer"]),),
    "multi_graph_transformer": (("union of two graphs on the same nodes", _two_kinds()),),
    "san": (
        *PLAIN,
        ("all pairs that are not edges", graphs.complete().bind(9) - INPUT),
    ),
    "tree_lstm": (("a tree: each node attends to its children", TREE),),
    "tree_transformer": (("the complete graph of a tree", graphs.complete().bind(7)),),
    **dict.fromkeys(("transformer_encoder", "universal", "bert", "roberta"), COMPLETE),
    **dict.fromkeys(("gpt", "llama", "forecaster"), CAUSAL),
    "vit": (("nine patches and a class token", PICTURES["vit"]),),
    "swin": (("shifted windows of 2 × 2 over 4 × 4 patches", PICTURES["swin"]),),
    "mae": (("a class token and four visible patches of 16", PICTURES["mae"]),),
    "captioner": ENCODER_DECODER,
    "longformer": (("a window and two global tokens (hubs)", PICTURES["longformer"]),),
    "bigbird": (("blocks of 2 tokens: local, global and random", PICTURES["block_sparse"]),),
    "relational_transformer": _cells(),
    "reformer": (("chunks of the tokens sorted by hash", PICTURES["reformer"]),),
    "bp_transformer": (("16 tokens and the spans above them", PICTURES["bp_transformer"]),),
    "adaptive_span": (("a head with a span of 3 tokens", PICTURES["sliding"]),),
    "linformer": (("16 tokens attend to 4 projected rows", PICTURES["linformer"]),),
    "performer": (("pairs of tokens in the sums of the formula", PICTURES["complete"]),),
    "transformer_xl": (("segments of 5 tokens and their memory", PICTURES["transformer_xl"]),),
    "compressive": (("4 tokens, 4 memories, 2 compressed memories", PICTURES["compressive"]),),
    **dict.fromkeys(("rnn", "lstm", "gru"), RECURRENT),
    **dict.fromkeys(("transformer", "t5"), ENCODER_DECODER),
    **dict.fromkeys(("light_conv", "dynamic_conv"), CONVOLUTIONS),
    **dict.fromkeys(("lightgcn", "pinsage"), (("edges of 4 users and 5 items", _bipartite()),)),
}
"""Dict from model names to the captions and graphs to draw, all for small inputs."""
