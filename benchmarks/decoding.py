"""Speed-up of text generation by a key-value cache.

    python benchmarks/decoding.py [--tokens 512] [--batch 1 8] [--width 128] [--depth 4]
        [--rounds 3] [--threads 2]

A GPT (by default of the size of nanoGPT's CPU example) and an encoder-decoder Transformer generate
the same texts with and without the cache. Runs with and without it alternate, and their tokens must
be equal. The fastest run of each is compared, because other load on the machine only makes runs
slower.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from edgewise import models
from edgewise.decoding import generate

VOCABULARY, SOURCE, HEAD = 256, 64, 32
Write = Callable[[bool], Tensor]


def language_model(tokens: int, batch: int, width: int, depth: int) -> Write:
    """Return a function that lets a GPT continue ``batch`` prompts of one token.

    The texts get ``tokens`` tokens. The GPT has hidden size ``width`` and ``depth`` layers.
    """
    sizes = {"width": width, "depth": depth, "heads": width // HEAD, "ffn_dim": 4 * width}
    model = models.gpt(VOCABULARY, **sizes, max_length=tokens).eval()
    prompt = torch.randint(VOCABULARY, (batch, 1))
    return lambda cached: generate(model, prompt, max_new_tokens=tokens - 1, cached=cached)


def translator(tokens: int, batch: int, width: int, depth: int) -> Write:
    """Return a function that lets a Transformer generate texts of ``tokens`` tokens.

    It generates one text for each of ``batch`` source texts. The model has hidden size ``width``
    and ``depth`` layers.
    """
    sizes = {"width": width, "depth": depth, "heads": width // HEAD, "ffn_dim": 2 * width}
    model = models.transformer(VOCABULARY, **sizes, order="pre").eval()
    memory = model.encode(torch.randint(VOCABULARY, (batch, SOURCE)))
    prompt = torch.zeros(batch, 1, dtype=torch.long)
    options = {"max_new_tokens": tokens - 1, "memory": memory}
    return lambda cached: generate(model, prompt, **options, cached=cached)


MODELS = {"gpt": language_model, "transformer": translator}


def compare(write: Write, rounds: int) -> dict[bool, float]:
    """Return the seconds of the fastest run: ``{True: with the cache, False: without it}``.

    Raises:
        AssertionError: the generated tokens differ.
    """
    best = dict.fromkeys((True, False), float("inf"))
    for _ in range(rounds):
        texts = []
        for cached in best:
            start = time.perf_counter()
            texts.append(write(cached))
            best[cached] = min(best[cached], time.perf_counter() - start)
        assert torch.equal(*texts), "the texts with and without a cache differ"
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=512, help="length of each text")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8], help="batch sizes")
    parser.add_argument("--width", type=int, default=128, help="hidden size")
    parser.add_argument("--depth", type=int, default=4, help="number of layers")
    parser.add_argument("--rounds", type=int, default=3, help="runs with and without the cache")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{arguments.tokens} tokens, {arguments.threads} threads, best of {arguments.rounds}")
    size = arguments.width, arguments.depth
    print(f"{'model':<12} {'texts':>5} {'cached s':>9} {'no cache s':>10} {'ratio':>6}")
    with torch.no_grad():
        for name, make in MODELS.items():
            for batch in arguments.batch:
                torch.manual_seed(0)
                best = compare(make(arguments.tokens, batch, *size), arguments.rounds)
                ratio = best[False] / best[True]
                print(f"{name:<12} {batch:>5} {best[True]:9.2f} {best[False]:10.2f} {ratio:6.1f}")


if __name__ == "__main__":
    main()
