"""Training steps of long-text models of transformers, accelerated by Edgewise and as they are.

    python -m benchmarks.whole_models [longformer] [led] [bigbird] [reformer]
        [--tokens 4096] [--layers 2] [--rounds N] [--steps N] [--threads N]

One text per step: forward and backward pass and AdamW, with dropout. Models have the width, heads,
window, blocks and hashes of published checkpoints, but few layers and random weights. Each model
runs in a process of its own; the two kinds alternate. Time is processor time, because other load
on the machine hardly changes it; memory is the peak that a step adds to weights and optimizer
state. Ratios are the original's divided by Edgewise's: above 1, Edgewise is better. The
columns "if free" are the ratios that attention without cost would have: the same step with the sum
of query, key and value in its place.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention
from transformers.models.led.modeling_led import LEDEncoderSelfAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
from transformers.models.reformer.modeling_reformer import (
    LocalSelfAttention,
    LocalSelfAttentionOutput,
    LSHSelfAttention,
    LSHSelfAttentionOutput,
)

from benchmarks.cpu.measure import status
from edgewise.interop.huggingface import accelerate

SIDES = ("edgewise", "original", "free")
LED_TARGETS = 256
"""Tokens that the decoder of LED predicts."""


def longformer(tokens: int, layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """Build allenai/longformer-base-4096: the first token is global."""
    config = transformers.LongformerConfig(
        num_hidden_layers=layers, max_position_embeddings=tokens + 2, vocab_size=50265
    )
    ids = torch.randint(3, config.vocab_size, (1, tokens))
    batch = {"input_ids": ids, "labels": torch.tensor([1])}
    return transformers.LongformerForSequenceClassification(config), batch


def led(tokens: int, layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """Build allenai/led-base-16384: the first token is global."""
    config = transformers.LEDConfig(
        d_model=768,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        attention_window=1024,
        max_encoder_position_embeddings=tokens,
        attention_dropout=0.1,
    )
    ids = torch.randint(3, config.vocab_size, (1, tokens))
    is_global = torch.zeros_like(ids)
    is_global[:, 0] = 1
    batch = {"input_ids": ids, "global_attention_mask": is_global, "labels": ids[:, :LED_TARGETS]}
    return transformers.LEDForConditionalGeneration(config), batch


def bigbird(tokens: int, layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """Build google/bigbird-roberta-base."""
    config = transformers.BigBirdConfig(
        num_hidden_layers=layers, max_position_embeddings=max(tokens, 4096)
    )
    ids = torch.randint(3, config.vocab_size, (1, tokens))
    batch = {"input_ids": ids, "labels": torch.tensor([1])}
    return transformers.BigBirdForSequenceClassification(config), batch


def reformer(tokens: int, layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """Build google/reformer-enwik8: every second layer hashes."""
    config = transformers.ReformerConfig(
        vocab_size=258,
        hidden_size=1024,
        num_attention_heads=8,
        attention_head_size=128,
        feed_forward_size=4096,
        attn_layers=[("local", "lsh")[layer % 2] for layer in range(layers)],
        lsh_attn_chunk_length=256,
        local_attn_chunk_length=128,
        num_buckets=512,
        num_hashes=4,
        axial_pos_shape=(64, tokens // 64),
        axial_pos_embds_dim=(256, 768),
        max_position_embeddings=tokens,
        hidden_dropout_prob=0.2,
        lsh_attention_probs_dropout_prob=0.1,
        local_attention_probs_dropout_prob=0.2,
        is_decoder=True,
    )
    ids = torch.randint(config.vocab_size, (1, tokens))
    return transformers.ReformerModelWithLMHead(config), {"input_ids": ids, "labels": ids}


OUTPUTS: dict[type[nn.Module], Callable[[Tensor], Any]] = {
    BigBirdBlockSparseAttention: lambda out: (out, None),
    LEDEncoderSelfAttention: lambda out: (out,),
    LSHSelfAttention: lambda out: LSHSelfAttentionOutput(out, (), None),
    LocalSelfAttention: lambda out: LocalSelfAttentionOutput(out, ()),
    LongformerSelfAttention: lambda out: (out,),
}
"""For each class of attention modules, what its forward pass returns."""


class FreeAttention(nn.Module):
    """The sum of query, key and value in place of attention."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        names = {"query", "key", "query_key", "value"}
        self.maps = nn.ModuleList(m for name, m in attention.named_children() if name in names)
        self.output = OUTPUTS[type(attention)]

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        return self.output(sum(linear(hidden_states) for linear in self.maps))


def free_attention(model: nn.Module) -> None:
    """Replace each attention module in place."""
    for name, module in [*model.named_modules()]:
        if type(module) in OUTPUTS:
            model.set_submodule(name, FreeAttention(module))


MODELS: dict[str, Callable[[int, int], tuple[nn.Module, dict[str, Any]]]] = {
    "longformer": longformer,
    "led": led,
    "bigbird": bigbird,
    "reformer": reformer,
}


def measure(name: str, side: str, options: argparse.Namespace) -> dict[str, float]:
    """Return processor seconds, peak memory in bytes and loss of steps of one model."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model, batch = MODELS[name](options.tokens, options.layers)
    model.train()
    if side == "edgewise":
        accelerate(model)
    elif side == "free":
        free_attention(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> float:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    step()  # The first step builds graphs and the state of the optimizer.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    before, seconds = status("VmRSS"), []
    for _ in range(options.steps):
        start = time.process_time()
        loss = step()
        seconds.append(time.process_time() - start)
    peak = status("VmHWM") - before
    return {"seconds": statistics.median(seconds), "peak": peak, "loss": loss}


def run(name: str, side: str, options: argparse.Namespace) -> dict[str, float] | None:
    """Call :func:`measure` in a new process; return None if it fails."""
    command = [sys.executable, "-m", "benchmarks.whole_models", name, "--side", side]
    for option in ("tokens", "layers", "steps", "threads"):
        command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:] or f"signal {-done.returncode}")
        return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="models, by default all")
    parser.add_argument("--tokens", type=int, default=4096, help="length of the text")
    parser.add_argument("--layers", type=int, default=2, help="number of layers")
    parser.add_argument("--rounds", type=int, default=3, help="number of processes of each kind")
    parser.add_argument("--steps", type=int, default=2, help="number of timed steps of a process")
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.models[0], options.side, options)))
        return
    print(f"{options.tokens} tokens, {options.layers} layers, {options.threads} threads")
    header = "".join(f"{side:>20}" for side in SIDES)
    print(f"{'model':<12}{header}{'time':>9}{'if free':>9}{'memory':>9}{'if free':>9}")
    for name in options.models or MODELS:
        results: dict[str, list[dict[str, float] | None]] = {side: [] for side in SIDES}
        for _ in range(options.rounds):
            for side in SIDES:
                results[side].append(run(name, side, options))
        cells, best = [], {}
        for side, measured in results.items():
            rows = [row for row in measured if row is not None]
            if not rows:
                cells.append(f"{'out of memory':>20}")
                continue
            best[side] = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            seconds, peak = best[side]["seconds"], best[side]["peak"] / 2**20
            cells.append(f"{seconds:8.2f} s {peak:6.0f} MiB")
        for key in ("seconds", "peak"):
            for side in ("edgewise", "free"):
                known = side in best and "original" in best
                ratio = f"{best['original'][key] / best[side][key]:.2f}x" if known else ""
                cells.append(f"{ratio:>9}")
        print(f"{name:<12}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
