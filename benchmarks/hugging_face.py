"""Time of a Hugging Face BERT layer with Edgewise's attention and with PyTorch's SDPA.

    python benchmarks/hugging_face.py [--tokens 4096] [--rounds N] [--threads N]

The layer has the size of BERT-base (12 heads of width 64) and random weights. Three parts are
timed: only the attention function that ``transformers`` calls, self-attention with its projections,
and the whole layer, whose feed-forward network does not depend on the graph. Outputs are compared
first. Then runs alternate. Results are SDPA's time divided by Edgewise's, for forward, and for
forward and backward: above 1, Edgewise is faster. They are medians over rounds. SDPA always
computes all pairs of tokens. Times are wall times, so the machine should be idle.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from edgewise import graphs
from edgewise.interop.huggingface import on_graph

GRAPHS: dict[str, graphs.Pattern] = {
    "complete": graphs.complete(),
    "window ±256": graphs.window(256),
    "window ±256, a hub": graphs.window(256) | graphs.hubs([0]),
}
PARTS = ("attention", "with projections", "the layer")


class Interface(nn.Module):
    """Module that calls only the attention function of a layer, without projections."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, mask: Any) -> Tensor:
        from transformers import AttentionInterface

        attend = AttentionInterface()[self.layer.config._attn_implementation]
        heads = x.unflatten(-1, (self.layer.num_attention_heads, -1)).transpose(1, 2)
        out: Tensor = attend(self.layer, heads, heads, heads, mask, scaling=self.layer.scaling)[0]
        return out.flatten(2)


def layer(implementation: str, graph: graphs.Pattern | None) -> dict[str, nn.Module]:
    """Return the three timed parts of a BERT layer, which has the same weights in every call.

    ``implementation`` is the name of the attention function, and ``graph`` the graph for Edgewise.
    """
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=1, vocab_size=8)
    model = BertModel._from_config(config, attn_implementation=implementation).eval()
    if graph is not None:
        on_graph(model, graph)
    whole = model.encoder.layer[0]
    attention = whole.attention.self
    return dict(zip(PARTS, (Interface(attention), attention, whole), strict=True))


def mask_of(model: str, tokens: int) -> Any:
    """Return the attention mask that ``transformers`` would pass to the layer."""
    if model == "theirs":
        return None  # There is no padding, so SDPA needs no mask.
    from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function

    make = AttentionMaskInterface()["edgewise"]
    sizes = {"batch_size": 1, "q_length": tokens, "kv_length": tokens}
    return make(**sizes, mask_function=bidirectional_mask_function)


def first(out: Any) -> Tensor:
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found


def steps(part: nn.Module, x: Tensor, mask: Any) -> dict[str, Callable[[], object]]:
    """Return two functions: one runs the part forward, the other forward and backward."""
    wanted = [x, *part.parameters()]
    gradient = torch.randn_like(first(part(x, mask)))

    def forward() -> object:
        with torch.no_grad():
            return part(x, mask)

    def both() -> object:
        return torch.autograd.grad(first(part(x, mask)), wanted, gradient, allow_unused=True)

    return {"forward": forward, "with backward": both}


def timed(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(tokens: int, rounds: int) -> None:
    theirs, x = layer("sdpa", None), torch.randn(1, tokens, 768, requires_grad=True)
    for name, graph in GRAPHS.items():
        ours = layer("edgewise", graph)
        allowed = graph.bind(tokens).dense()[None, None]
        for part in PARTS:
            mask = mask_of("ours", tokens)
            expected = first(theirs[part](x, allowed))
            torch.testing.assert_close(first(ours[part](x, mask)), expected, rtol=1e-4, atol=1e-5)
            mine, other = steps(ours[part], x, mask), steps(theirs[part], x, None)
            cells = []
            for step in mine:
                found = [timed(other[step]) / timed(mine[step]) for _ in range(rounds)]
                low, middle, high = statistics.quantiles(found, n=4)
                cells.append(f"{middle:.2f}x ± {(high - low) / 2:.2f}")
            print(f"{name:<20} {part:<18} {cells[0]:>14} {cells[1]:>16}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096, help="length of the text")
    parser.add_argument("--rounds", type=int, default=5, help="number of timed runs")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"{options.tokens} tokens\n{'graph':<20} {'part':<18} {'forward':>14} {'with backward':>16}"
    )
    measure(options.tokens, options.rounds)


if __name__ == "__main__":
    main()
