"""Draw the pictures of graphs and encodings: python docs/pictures.py."""

from __future__ import annotations

from pathlib import Path

import torch

from edgewise import encodings, graphs
from edgewise.models.bigbird import BlockSparse
from edgewise.models.bp_transformer import partition_graph
from edgewise.models.reformer import Chunks, sorted_graphs
from edgewise.models.swin import ShiftedWindows

REFERENCE = Path(__file__).resolve().parent / "reference"


def of_hashes() -> graphs.Graph:
    """Return Reformer's graph of one hash round, for 16 tokens with random buckets."""
    bucket = torch.randint(4, (1, 16), generator=torch.Generator().manual_seed(0))
    hashed = sorted_graphs(bucket, [(16, 4, 4)], Chunks(4, 1, 0, causal=True))
    within, across = hashed.within[0].edge_index, hashed.across.edge_index
    across = torch.stack([hashed.read[across[0]], hashed.reader[across[1]]])
    return graphs.edges(hashed.node[0][torch.cat([within, across], 1)], 16)


def swin_windows() -> graphs.Graph:
    """Return shifted windows of 2 × 2 over 4 × 4 patches in raster order."""
    windows = ShiftedWindows(4, 4, 2, shifted=True)
    return graphs.from_dense(windows.graph.dense()[windows.back][:, windows.back])


def seen_patches() -> graphs.Graph:
    """Return the graph of a class token and four visible patches out of sixteen."""
    seen = torch.zeros(17, dtype=torch.bool)
    seen[[0, 2, 7, 9, 16]] = True
    return graphs.from_dense(seen[:, None] & seen)


def segments() -> graphs.Graph:
    """Return the graph of three segments of 5 tokens that attend to the previous segment."""
    segment = torch.arange(15) // 5
    near = segment[:, None] - segment <= 1
    return graphs.from_dense(near & graphs.causal().bind(15).dense())


def compressed() -> graphs.Graph:
    """Return the graph of 4 tokens that attend to 2 compressed and 4 plain memories."""
    return graphs.causal().bind(4, 10)


PICTURES = {
    "complete": graphs.complete(),
    "causal": graphs.causal(),
    "window": graphs.window(2),
    "dilated": graphs.window(2, dilation=2),
    "blocks": graphs.blocks(4),
    "expand": graphs.expand(graphs.random(2, seed=1), 4),
    "hubs": graphs.hubs([0, 8]),
    "random": graphs.random(3, seed=1),
    "expander": graphs.expander(4, seed=1),
    "grid": graphs.grid(4, 4),
    "tree": graphs.tree([-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7]),
    "bigbird": graphs.window(1) | graphs.hubs([0]) | graphs.random(2, seed=1),
    "sliding": graphs.causal() & graphs.window(3),
    "virtual": graphs.virtual(graphs.window(1)),
    "subgraphs": graphs.subgraphs(graphs.window(1), [[0, 1, 2, 3], [3, 4, 5]]),
    "exphormer": graphs.virtual(graphs.window(1) | graphs.expander(4, seed=1)),
    "graphormer": graphs.virtual(graphs.complete()),
    "san": graphs.complete() - graphs.grid(4, 4),
    "longformer": graphs.window(2) | graphs.hubs([0]),
    "block_sparse": BlockSparse(size=2, num_random=1, heads=1, seed=0, length=64).bind(24),
    "reformer": of_hashes(),
    "linformer": graphs.complete().bind(16, 4),
    "bp_transformer": partition_graph(16, 1, causal=False)[0],
    "transformer_xl": segments(),
    "compressive": compressed(),
    "light_conv": graphs.window(3),
    "vit": graphs.virtual(graphs.complete()).bind(9),
    "swin": swin_windows(),
    "mae": seen_patches(),
}
# Arguments for 64 positions and width 32.
ENCODINGS = {
    "index": (32,),
    "scaled": (32,),
    "binary": (32, 6),
    "sinusoidal": (32,),
    "learned": (64, 32),
    "learned_2d": (8, 8, 32),
    "rotary": (32,),
    "relative": (1,),
    "buckets": (1,),
    "alibi": (8,),
    "shaw": (1, 32),
    "transformer_xl": (1, 32),
    "laplacian": (32, 8),
    "sign_invariant": (32, 8),
    "random_walk": (32, 20),
    "weisfeiler_lehman": (32, 256, 5),
    "centrality": (32,),
    "distance": (32, 8),
    "shortest_path": (1,),
}


def intimacy(path: graphs.Graph) -> torch.Tensor:
    """Return for each pair ``[N · N]`` 8 minus the rank among the most intimate nodes, else 0."""
    near = encodings.intimate_nodes(path, 7)
    of_list = torch.arange(len(near.sizes)).repeat_interleave(near.sizes)
    rank = torch.cat([torch.arange(size) for size in near.sizes.tolist()])
    intimacies = torch.zeros(len(near.sizes), len(near.sizes))
    intimacies[of_list, near.nodes] = 8.0 - rank
    return intimacies.flatten()


def codes_of_functions() -> dict[str, torch.Tensor]:
    """Return codes of a path and of a ring of 64 nodes, of functions that are not encodings."""
    ends = torch.tensor([[0, 63], [63, 0]])
    path = graphs.window(1).bind(64).without_self_loops()
    ring = path | graphs.edges(ends, 64)
    of_edges = encodings.PathEdges(1, 1)
    return {
        "path_edges": of_edges(of_edges.code(path), torch.ones(path.num_edges, 1)).flatten(),
        "resistance_distances": encodings.resistance_distances(ring),
        "distance_encoding": encodings.distance_encoding(path, torch.tensor([20, 40]), 8, walk=4),
        "intimate_nodes": intimacy(path),
        "random_features": encodings.RandomFeatures(32)(torch.zeros(64, 32)),
    }


def main() -> None:
    """Write the pictures into docs/reference."""
    (REFERENCE / "graphs").mkdir(exist_ok=True)
    for name, pattern in PICTURES.items():
        pattern.draw().savefig(REFERENCE / "graphs" / f"{name}.png", dpi=72)
    (REFERENCE / "encodings").mkdir(exist_ok=True)
    for name, arguments in ENCODINGS.items():
        torch.manual_seed(0)  # for the initial values of learned encodings
        picture = encodings.draw(encodings.ENCODINGS[name](*arguments))
        picture.savefig(REFERENCE / "encodings" / f"{name}.png", dpi=72)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, codes in codes_of_functions().items():
            picture = encodings.draw(codes)
            picture.savefig(REFERENCE / "encodings" / f"{name}.png", dpi=72)


if __name__ == "__main__":
    main()
