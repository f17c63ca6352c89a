"""Descriptions of arguments that several models have, added to the docstrings of the models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar, cast

from edgewise._utils.arguments import checked, checked_factory

P = ParamSpec("P")
M = TypeVar("M")

ARGUMENTS = {
    "act": "name of the activation function of the feed-forward networks.",
    "channels": "number of channels of the images.",
    "depth": "number of layers.",
    "dropout": "dropout probability.",
    "edge_width": "number of features per edge (0 = none).",
    "epsilon": "epsilon of the layer norms.",
    "ffn_dim": "hidden size of the feed-forward networks.",
    "graph": "attention graph, which defines the tokens that each token attends to.",
    "head_width": "size of each head (None = ``width // heads``).",
    "heads": "number of attention heads per layer.",
    "image_size": "height and width in pixels, or one number for both.",
    "in_width": "number of input features per node.",
    "init_std": "standard deviation of the initial weights.",
    "max_length": "max length of a text in tokens.",
    "norm": 'kind of norm: "layer", "batch" or "rms", or a function of the hidden size.',
    "normaliser": 'normaliser of the scores, such as "softmax"; "learned": α-entmax, α is learned.',
    "order": 'position of the norms: "post" (after each sublayer) or "pre" (before it).',
    "out_width": "number of outputs per node, graph or image, such as the number of classes.",
    "output_hops": "number of steps that propagate the outputs per node over the input graph by "
    "personalised PageRank (0 = none); see :class:`~edgewise.models.magna.OutputPropagation`.",
    "padding": "id of the padding token; positions skip padding and start at ``padding + 1``.",
    "patch": "side of a square patch in pixels.",
    "pool": 'readout that pools node states to one vector per graph, such as "mean" or "sum".',
    "position_size": "number of Laplacian eigenvectors in the positional encoding.",
    "positions": "position encoding, a name of :data:`edgewise.encodings.TEXT_POSITIONS`: "
    '"learned", "sinusoidal", "rotary", "relative", "index", "none" and others.',
    "projections": '"full" (each head projects all features) or "split" (only its slice of them).',
    "reduce": 'aggregation: "sum", "mean", "max" or "min".',
    "score": 'attention score: "dot", "bilinear", "tanh" or "concatenation".',
    "target_vocab_size": "vocab size of the target text (None = one vocabulary for both texts).",
    "tied": "share the embedding matrix with the output layer.",
    "types": "number of token types, such as BERT's sentences A and B (0 = none).",
    "vocab_size": "number of tokens in the vocabulary.",
    "width": "hidden size.",
}
"""Descriptions by name of the argument; a docstring that describes it takes precedence."""

SECTION = re.compile(r"^Args:\n((?: {4}.*\n|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (?:.*)(?:\n {5,}.*)*", re.MULTILINE)
NEXT_SECTION = re.compile(r"^(?:Raises|Returns|Example):\n|\Z", re.MULTILINE)


def with_arguments(doc: str | None, names: Iterable[str], *configs: str | None) -> str:
    """Describe ``names`` in a docstring, by its ``Args``, ``configs`` or ``ARGUMENTS``."""
    text = inspect.cleandoc(doc or "") + "\n"
    entries = {name: f"    {name}: {meaning}" for name, meaning in ARGUMENTS.items()}
    for source in (*reversed(configs), text):
        for section in SECTION.findall(inspect.cleandoc(source or "") + "\n"):
            for match in ENTRY.finditer(section):
                entries |= dict.fromkeys(match[1].split(", "), match[0])
    text = SECTION.sub("", text)
    lines = "\n".join(dict.fromkeys(entries[name] for name in names if name in entries))
    end = NEXT_SECTION.search(text).start()  # type: ignore[union-attr] # \Z always matches.
    return f"{text[:end].rstrip()}\n\nArgs:\n{lines}\n\n{text[end:]}".rstrip() + "\n"


def model_function(**least: int) -> Callable[[Callable[P, M]], Callable[P, M]]:
    """Return a decorator: complete the docstring of a function and apply :func:`checked`."""

    def decorate(build: Callable[P, M]) -> Callable[P, M]:
        build.__doc__ = with_arguments(build.__doc__, inspect.signature(build).parameters)
        return checked(**least)(build)

    return decorate


def model_factory(model: Callable[P, M], **least: int) -> Callable[P, M]:
    """Complete the docstring of a model class and return :func:`checked_factory` of it."""
    docs = (base.__doc__ for base in inspect.getmro(cast(type, model))[1:])
    model.__doc__ = with_arguments(model.__doc__, inspect.signature(model).parameters, *docs)
    return checked_factory(model, **least)
