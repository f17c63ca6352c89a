"""Arguments of text models, declared once: the config of a model is a subclass of TextConfig."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import ParamSpec, TypeVar, cast, get_type_hints

from edgewise._utils.arguments import checked
from edgewise.encodings import TextPositions, text_positions
from edgewise.layers.transformer import Projections
from edgewise.models.arguments import with_arguments

P = ParamSpec("P")
C = TypeVar("C")
M = TypeVar("M")


@dataclass(frozen=True)
class TextConfig:
    """Arguments of every text model. A subclass has the other arguments and defaults of a model."""

    vocab_size: int
    _: KW_ONLY
    width: int = 128
    depth: int = 4
    heads: int = 4
    ffn_dim: int = 512
    dropout: float = 0.1


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(TextConfig):
    """Arguments of text models whose layers are :class:`edgewise.layers.TransformerLayer`.

    Args:
        max_length: max length of a text in tokens, for learned and binary positions only.
    """

    positions: str = "learned"
    max_length: int = 1024
    act: str = "relu"
    score: str = "dot"
    normaliser: str = "softmax"
    projections: Projections = "full"

    def encodings(self) -> TextPositions:
        """Create the position encodings of the model."""
        return text_positions(
            self.positions, width=self.width, heads=self.heads, max_length=self.max_length
        )


def text_model(
    config: Callable[P, C], **least: int
) -> Callable[[Callable[[C], M]], Callable[P, M]]:
    """Return a decorator that turns ``gpt(config)`` into ``gpt(1000, width=64)``, with the
    signature and the descriptions of the config.
    """

    def decorate(build: Callable[[C], M]) -> Callable[P, M]:
        signature, hints = inspect.signature(config), get_type_hints(config)
        configs = [base.__doc__ for base in inspect.getmro(cast(type, config))]
        build.__doc__ = with_arguments(build.__doc__, signature.parameters, *configs)
        returned = build.__annotations__["return"]

        @wraps(build)
        def factory(*args: P.args, **kwargs: P.kwargs) -> M:
            return build(config(*args, **kwargs))

        factory.__annotations__ = {n: hints[n] for n in signature.parameters} | {"return": returned}
        vars(factory)["__signature__"] = signature.replace(return_annotation=returned)
        return checked(**least)(factory)

    return decorate
