"""Inputs of text models: one text, its tokens as labels, and records without padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.explain.record import LayerRecord
from edgewise.graphs import edges

PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {chr(byte): byte for byte in PRINTED}
BYTES |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)}.difference(PRINTED)))}
"""Bytes by the characters with which the vocabulary of GPT-2 writes them."""


def arguments_of_text(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments ``[1, T]`` of one text, with generated decoder inputs if there are none.

    Lists, as a tokenizer returns them, become tensors.
    """
    arguments = {
        name: _as_row(value) if isinstance(value, Tensor | list) else value
        for name, value in inputs.items()
    }
    ids = arguments["input_ids"]
    if not isinstance(ids, Tensor) or ids.dim() != 2 or len(ids) != 1:
        raise ArgumentError(
            "inputs",
            expected="one text: input_ids of shape [1, T]",
            got=f"shape {list(ids.shape)}" if isinstance(ids, Tensor) else repr(ids),
            remedy="explain one text at a time",
        )
    has_target = any(name in arguments for name in ("decoder_input_ids", "labels"))
    can_generate = getattr(model, "can_generate", bool)  # of a model of transformers
    if is_encoder_decoder(model) and not has_target and can_generate():
        generated = model.generate(**arguments)  # type: ignore[operator]
        arguments["decoder_input_ids"] = generated[:, : max(generated.shape[1] - 1, 1)]
    return arguments


def _as_row(value: Tensor | list[Any]) -> Tensor:
    row = torch.as_tensor(value)
    return row[None] if row.dim() == 1 else row


def is_encoder_decoder(model: nn.Module) -> bool:
    """Return whether a model of transformers has an encoder and a decoder."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


@contextmanager
def decoder_inputs(model: nn.Module, arguments: Mapping[str, Any]) -> Iterator[list[Tensor]]:
    """Collect the ids ``[T]`` that the decoder reads in the block; a model may compute them."""
    ids: list[Tensor] = []
    if not is_encoder_decoder(model):
        decoder_ids = arguments.get("decoder_input_ids")
        yield ids if decoder_ids is None else [decoder_ids[0]]
        return

    def keep(_module: nn.Module, _args: Any, keywords: dict[str, Any]) -> None:
        if isinstance(keywords.get("input_ids"), Tensor):
            ids.append(keywords["input_ids"][0])

    decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
    hook = decoder.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield ids
    finally:
        hook.remove()


def distinct_target(ids: Tensor, num_sources: int) -> Tensor:
    """Return decoder ids ``[..., T]``, with one more at the end if there are as many source tokens.

    Attributions know the calls over source tokens by their number. A causal decoder computes equal
    outputs for the first T ids.
    """
    return torch.cat([ids, ids[..., -1:]], -1) if ids.shape[-1] == num_sources else ids


def token_labels(
    ids: Tensor, is_real: Tensor, tokenizer: Any = None, tokens: Sequence[str] | None = None
) -> list[str]:
    """Return names of the real tokens of ids ``[T]``; without a tokenizer or tokens, indices."""
    if tokenizer is not None:
        tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    names = map(str, range(len(ids)) if tokens is None else tokens)
    pairs = zip(names, is_real.tolist(), strict=True)
    return token_texts([name for name, real in pairs if real])


def token_texts(tokens: Sequence[str]) -> list[str]:
    r"""Return the texts of tokens of GPT-2, whose characters are bytes of UTF-8, and of
    SentencePiece, which writes a space as "▁". Bytes of a split character are written "\xc3".
    """
    texts = []
    for is_split, group in groupby(tokens, lambda token: _utf8([token]) is None):
        names = list(group)
        if is_split and _utf8(names) is not None:
            texts += [_bytes(name).decode(errors="backslashreplace") for name in names]
        else:
            texts += [name if is_split else _utf8([name]) or name for name in names]
    return [text.replace("▁", " ") for text in texts]


def _bytes(token: str) -> bytes:
    return bytes(map(BYTES.__getitem__, token))


def _utf8(tokens: Sequence[str]) -> str | None:
    """Return the text whose bytes the tokens write, or None if they are not whole characters."""
    try:
        return b"".join(map(_bytes, tokens)).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def is_token(arguments: Mapping[str, Any], name: str, count: int) -> Tensor:
    """Return a mask ``[T]`` of the tokens that are not padding, from the argument ``name``."""
    mask = arguments.get(name)
    if isinstance(mask, Tensor) and mask.shape == (1, count) and bool(mask.any()):
        return mask[0].bool().cpu()
    return torch.ones(count, dtype=torch.bool)


def without_padding(layer: LayerRecord, targets: Tensor, sources: Tensor) -> LayerRecord:
    """Return a record of the tokens in the masks, or of all nodes if these are others."""
    graph = layer.graph
    is_padded = (graph.num_targets, graph.num_sources) == (len(targets), len(sources))
    if not is_padded or bool(targets.all() and sources.all()):
        return layer
    target_number, source_number = targets.cumsum(0) - 1, sources.cumsum(0) - 1
    source, target = graph.edge_index.cpu()
    remains = targets[target] & sources[source]
    pairs = torch.stack([source_number[source[remains]], target_number[target[remains]]])
    recorded, chosen = remains, None
    if layer.edges is not None:
        recorded = remains[layer.edges.cpu()]
        chosen = (remains.cumsum(0) - 1)[layer.edges.cpu()[recorded]]
    return replace(
        layer,
        graph=edges(pairs, (int(sources.sum()), int(targets.sum()))),
        weights=layer.weights[..., recorded.to(layer.weights.device), :],
        edges=chosen,
    )
