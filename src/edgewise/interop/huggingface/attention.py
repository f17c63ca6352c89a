"""Attention of ``transformers`` models on Edgewise's engines and on any graph.

Two functions are registered with ``transformers`` under the name ``"edgewise"``: the attention
function, and the mask function, which returns graphs (``masks.py``).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from edgewise._utils.dispatch_modes import detach_from_inference, disable_modes
from edgewise._utils.errors import ArgumentError, counted, require
from edgewise._utils.torch_internals import version_of
from edgewise.attention.attend import attend
from edgewise.attention.biases import add_terms
from edgewise.attention.checks import in_autocast_dtype
from edgewise.attention.hooks import is_intercepted
from edgewise.attention.scores import Dot
from edgewise.attention.steps import attention_weights
from edgewise.graphs import Graph, Pattern, causal, check_graph, complete, parse
from edgewise.interop.huggingface.masks import GraphMask, mask_of_call, mask_of_tensor

Model = TypeVar("Model", bound=nn.Module)

NAME, HOME = "edgewise", "transformers.modeling_utils"
GRAPH = "edgewise_graph"
"""Attribute of an attention module that holds its graph."""
UNKNOWN = {
    "softcap": "caps the scores",
    "s_aux": "has attention sinks",
    "sinks": "has attention sinks",
    "indices": "selects sources by their scores",
    "block_indices": "selects blocks of sources by their scores",
}
"""Unsupported arguments of an attention function, with their meaning."""
_masks = WeakIdKeyDictionary()


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: GraphMask | Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool | None = None,
    **other: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return the output ``[B, T, H, D]`` and the weights ``[B, H, T, S]`` before dropout, or None.
    The graph of the caller's mask is cached; changes through ``.data`` or NumPy are not noticed.
    """
    _refuse(module, other)
    # Rotary positions are in float32 under autocast, the values in 16 bits.
    query, key, value = in_autocast_dtype(query, key, value)
    members, _, targets = query.shape[:3]
    sources = key.shape[2]
    if output_attentions is None:
        config = getattr(module, "config", None)
        output_attentions = getattr(config, "output_attentions", False) or collects_weights()
    mask, added = _mask(module, attention_mask, query, key, is_causal)
    all_values = value
    key, value = key[:, :, : mask.sources], value[:, :, : mask.sources]
    graph = mask.graph(getattr(module, GRAPH, None))
    if position_bias is not None:
        added = add_terms(added, position_bias[..., :targets, : mask.sources])  # type: ignore[assignment]
    score = Dot(scaling)
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    if mask.is_shared:
        graph = graph.bind(targets, mask.sources)
    assert isinstance(graph, Graph)
    # The packed graph of a single member has the sizes of a shared graph.
    is_packed = graph.num_targets != targets
    if is_packed:
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))
    bias = None if added is None else _select_edges(added, graph, targets)
    weights = None
    if output_attentions:
        edge_weights = attention_weights(query, key, graph, score=score, bias=bias)
        weights = _scatter_to_pairs(edge_weights, graph, members, targets, sources)
        if weights.requires_grad and not is_intercepted():
            return _weighted_sum(F.dropout(weights, dropout), all_values), weights
    out = attend(query, key, value, graph, score=score, bias=bias, dropout=dropout, layout="NHD")
    out = out.unflatten(0, (members, targets)) if is_packed else out
    return out.contiguous(), weights


def _weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return the output ``[B, T, H, D]`` as a function of the weights, which get gradients."""
    value = value.repeat_interleave(weights.shape[1] // value.shape[1], 1)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous()


def collects_weights() -> bool:
    """Return whether the running model collects attention weights."""
    # GPT-2 does not pass output_attentions to its layers. Some versions have no collector.
    capturing = sys.modules.get("transformers.utils.output_capturing")
    collector = getattr(capturing, "_active_collector", None)
    collected = None if collector is None else collector.get()
    return any(key.endswith("attentions") for key in collected or ())


def _scatter_to_pairs(
    weights: Tensor, graph: Graph, members: int, targets: int, sources: int
) -> Tensor:
    """Scatter weights of edges, ``[B, E, H]`` or ``[E, H]`` if packed, to ``[B, H, T, S]``."""
    packed = graph.num_targets != targets
    source = graph.source % (graph.num_sources // members) if packed else graph.source
    pair = (graph.target * sources + source).to(weights.device)
    copies = 1 if packed else members
    flat = weights.new_zeros(copies, members // copies * targets * sources, weights.shape[-1])
    flat = flat.index_add(1, pair, weights if weights.dim() == 3 else weights[None])
    dense = flat.view(members, targets, sources, -1)
    return dense.permute(0, 3, 1, 2)


def _select_edges(added: Tensor, graph: Graph, targets: int) -> Tensor:
    """Select the values of edges, ``[B, E, H]`` or ``[E, H]`` if packed, from ``[B, H, T, S]``."""
    if graph.num_targets == targets:
        per_head = added[..., graph.target.to(added.device), graph.source.to(added.device)]
        return per_head.transpose(-1, -2)
    target, source = graph.target.to(added.device), graph.source.to(added.device)
    member = target // targets if len(added) > 1 else torch.zeros_like(target)
    return added[member, :, target % targets, source % added.shape[-1]]


def _mask(
    module: nn.Module,
    mask: GraphMask | Tensor | None,
    query: Tensor,
    key: Tensor,
    is_causal: bool | None,
) -> tuple[GraphMask, Tensor | None]:
    """Return the pairs that the mask of a call allows, and its additive bias."""
    if isinstance(mask, GraphMask):
        return mask, None
    targets, sources = query.shape[2], key.shape[2]
    if mask is not None:
        return _cached_mask(mask, targets, sources)
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    pattern: Pattern = causal() if is_causal and targets > 1 else complete()
    return GraphMask([pattern], targets, sources), None


def _cached_mask(mask: Tensor, targets: int, sources: int) -> tuple[GraphMask, Tensor | None]:
    """Return the pairs that a mask allows and its additive bias, cached across layers."""
    # A mask with a gradient, as in Swin, belongs to one backward pass.
    if mask.requires_grad:
        return mask_of_tensor(mask, targets, sources)
    entries = _masks.setdefault(mask, {})
    sizes = targets, sources
    if sizes in entries:
        stamp, result = entries[sizes]
        # An inference tensor has no version, so its values are compared with a copy.
        if stamp.equal(mask) if isinstance(stamp, Tensor) else stamp == version_of(mask):
            cached: tuple[GraphMask, Tensor | None] = result
            return cached
    # The cached mask must be valid in later calls, which may be training steps.
    with disable_modes(mask.device):
        detached = detach_from_inference(mask)
        result = mask_of_tensor(detached, targets, sources)
        entries[sizes] = version_of(mask) if detached is mask else detached, result
    return result


def _refuse(module: nn.Module, other: dict[str, Any]) -> None:
    for name, meaning in UNKNOWN.items():
        value = other.get(name)
        if value is not None and value is not False:
            raise ArgumentError(
                "attn_implementation",
                expected="a layer with plain dot-product attention",
                got=f"{type(module).__name__}, which {meaning} ({name})",
                remedy='use attn_implementation="eager" for this model',
            )


def on_graph(model: Model, graph: Pattern | str | Sequence[Pattern | str | None]) -> Model:
    """Replace the attention graph of a ``transformers`` model, in place, and return it.

    Each layer attends to pairs that its mask allows *and* that are edges of the graph: a causal
    model stays causal, packed texts stay apart, and padding is never attended to. Padding before
    and after a text has no edges: its attention is 0. Positions are counted within each text
    without padding, or within an image (a class token is position 0).

    A mask ``[B, H, T, S]`` passed to the model is cached as a graph. Do not change the mask through
    ``.data`` or NumPy: unlike ordinary changes in place, such changes are not noticed.

    Args:
        model: a model that uses ``AttentionInterface``; of an encoder-decoder, the encoder changes.
        graph: one graph, also as text, for all layers, or a sequence with one per layer; ``None``
            keeps the mask of a layer, as ``graphs.complete()`` does. Both give the states of
            ``attn_implementation="sdpa"``, also at padding; ``"eager"`` differs at left padding of
            causal models, where it averages all values.

    Raises:
        ArgumentError: layers of the model compute attention themselves, the number of graphs is
            not the number of layers, or an item is not a graph.
        MissingExtraError: transformers is not installed.

    Example:
        >>> from edgewise import graphs
        >>> from edgewise.interop import huggingface
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1)
        >>> model = huggingface.on_graph(BertModel(config), graphs.window(256) | graphs.hubs([0]))
    """
    register()
    layers = attention_layers(model)
    is_single = isinstance(graph, str) or not isinstance(graph, Sequence)
    graphs: list[Any] = [graph] * len(layers) if is_single else list(graph)  # type: ignore[arg-type]
    if len(graphs) != len(layers):
        raise ArgumentError(
            "graph",
            expected=f"one graph, or a list with one for each attention layer ({len(layers)})",
            got=counted(len(graphs), "graph"),
            remedy="give one graph per layer, with None for layers that should keep their own "
            "graph",
        )
    patterns = [parse(p) if isinstance(p, str) else p for p in graphs]
    patterns = [pattern if pattern is None else check_graph(pattern) for pattern in patterns]
    # Without a graph, padding positions attend too, as in the original model.
    patterns = [None if pattern == complete() else pattern for pattern in patterns]
    if getattr(model.config, "_attn_implementation", NAME) != NAME:
        model.set_attn_implementation(NAME)  # type: ignore[operator]
    for layer, pattern in zip(layers, patterns, strict=True):
        setattr(layer, GRAPH, pattern)
    return model


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """Return the self-attention layers (of the encoder) that use ``AttentionInterface``."""
    modules = [(path, m) for path, m in model.named_modules() if "attention" in _name(m)]
    config = getattr(model, "config", None)
    others = ("cross", "decoder") if getattr(config, "is_encoder_decoder", False) else ("cross",)
    layers = [
        m
        for path, m in modules
        if _uses_interface(type(m)) and not any(other in f"{path}.{_name(m)}" for other in others)
    ]
    if layers and config is not None:
        return layers
    kinds = ", ".join(sorted({type(m).__name__ for _, m in modules}))
    reason = f"whose layers {kinds} compute attention themselves" if kinds else "without attention"
    raise ArgumentError(
        "model",
        expected="a model whose layers use AttentionInterface of transformers",
        got=f"{type(model).__name__}, {reason}",
        remedy="try edgewise.interop.huggingface.load, which supports some models "
        "without AttentionInterface",
    )


def _name(module: nn.Module) -> str:
    return type(module).__name__.lower()


def _uses_interface(kind: type[nn.Module]) -> bool:
    """Return whether the forward pass of the module looks up an attention function by name."""
    forward = inspect.unwrap(kind.forward)
    return "ALL_ATTENTION_FUNCTIONS" in forward.__code__.co_names


def register() -> None:
    """Register both functions with ``transformers`` under the name ``"edgewise"``."""
    require("transformers.masking_utils", extra="text", purpose="running its models on a graph")
    from transformers import (
        AttentionInterface,
        AttentionMaskInterface,
        PretrainedConfig,
        PreTrainedModel,
    )

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask_of_call)
    if not hasattr(PreTrainedModel.__init__, NAME):
        PreTrainedModel.__init__ = _with_refusals(PreTrainedModel.__init__)  # type: ignore[method-assign]
        _accept_output_attentions(PretrainedConfig)


def _accept_output_attentions(config: Any) -> None:
    """Allow ``output_attentions=True`` with the attention ``"edgewise"``."""
    # Some versions of transformers allow it for "eager" only, in a setter and in a validator, which
    # is in a separate list of each configuration class.
    attribute = getattr(config, "output_attentions", None)
    setter = getattr(attribute, "fset", None)
    if isinstance(attribute, property) and setter is not None:

        def set_value(self: Any, value: bool) -> None:
            if self._attn_implementation == NAME:
                self._output_attentions = value
            else:
                setter(self, value)

        config.output_attentions = attribute.setter(set_value)
    check = getattr(config, "validate_output_attentions", None)
    if check is None:
        return

    @wraps(check)
    def validate_output_attentions(self: Any) -> None:
        if self._attn_implementation != NAME:
            check(self)

    config.validate_output_attentions = validate_output_attentions
    kinds = [config]
    for kind in kinds:
        kinds += kind.__subclasses__()
        validators = vars(kind).get("__class_validators__", [])
        validators[:] = [validate_output_attentions if v is check else v for v in validators]


def _with_refusals(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``PreTrainedModel.__init__`` to refuse models that choose their attention by name."""
    # GPT-J, Falcon and others look up their attention class in a dict such as
    # GPTJ_ATTENTION_CLASSES, where the name "edgewise" would raise a KeyError.

    @wraps(init)
    def with_refusals(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        for kind in type(self).__mro__:
            for name, table in list(vars(sys.modules.get(kind.__module__, sys)).items()):
                if name.endswith("ATTENTION_CLASSES") and isinstance(table, dict):
                    table.setdefault(NAME, partial(_refuse_class, type(self).__name__))
        init(self, *args, **kwargs)

    setattr(with_refusals, NAME, True)
    return with_refusals


def _refuse_class(name: str, *_: Any, **__: Any) -> NoReturn:
    raise ArgumentError(
        "attn_implementation",
        expected="a model that uses AttentionInterface of transformers",
        got=f"{name}, which selects its attention class by the name of the implementation",
        remedy='use attn_implementation="eager" for this model',
    )


class _WhenImported(importlib.abc.MetaPathFinder):
    """Import hook that registers the functions after ``transformers``, a slow import."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != HOME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def then_register(module: ModuleType) -> None:
                try:
                    execute(module)
                except BaseException:
                    # After an interrupted import, the next attempt is to register too.
                    sys.meta_path.insert(0, self)
                    raise
                # If this version of transformers is too old for graphs, everything else still
                # works.
                with suppress(ImportError):
                    register()

            spec.loader.exec_module = then_register  # type: ignore[method-assign]
        return spec


def register_when_imported() -> None:
    """Call :func:`register` now if ``transformers`` is imported, else right after its import."""
    if HOME in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _WhenImported())
