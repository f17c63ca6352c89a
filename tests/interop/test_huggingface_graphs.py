"""Hugging Face's models on Edgewise's engines and on other graphs: states, gradients, texts."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bound_graphs
from edgewise.interop.huggingface import attention as interop_attention
from edgewise.interop.huggingface import on_graph
from edgewise.interop.huggingface.attention import attention
from edgewise.interop.huggingface.masks import mask_of_call
from tests.errors import case, refused
from tests.interop.test_huggingface import LENGTHS, LONGEST, SMALL, T5, VOCABULARY, close, sentences

transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.masking_utils")

GROUPED = {**SMALL, "num_key_value_heads": 2}
ONE_KEY = {**SMALL, "num_key_value_heads": 1, "head_dim": 6}
LAYERS = {"full": "full_attention", "sliding": "sliding_attention"}


@dataclass(frozen=True)
class Kind:
    """A model, and what each of its two layers may read: ``causal``, and within which distance."""

    model: str
    numbers: dict[str, object]
    causal: bool = False
    windows: tuple[int | None, int | None] = (None, None)

    def made(self, implementation: str = "edgewise", seed: int = 0, **other: object) -> nn.Module:
        """With every weight random: what begins at 0 or 1 would hide a mistake."""
        torch.manual_seed(seed)
        model = getattr(transformers, f"{self.model}Model")
        family = self.model.removesuffix("Encoder")
        config = getattr(transformers, f"{family}Config")(**{**self.numbers, **other})
        model = model._from_config(config, attn_implementation=implementation).eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, mean=0.1, std=0.3)
        return model

    def allowed(self, layer: int, targets: int, sources: int) -> Tensor:
        """Written out from the definition: ``[T, S]``, the targets the last of the sources."""
        target = torch.arange(targets)[:, None] + sources - targets
        source = torch.arange(sources)
        allowed = source <= target if self.causal else source >= 0 * target
        window = self.windows[layer]
        return allowed if window is None else allowed & ((target - source).abs() <= window)


DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 12}
MODERN = {"local_attention": 4, "global_attn_every_n_layers": 2, "max_position_embeddings": 40}
MODERN |= {"cls_token_id": 1, "sep_token_id": 2}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": VOCABULARY}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GEMMA3 = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
QWEN = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}

KINDS = {
    "bert": Kind("Bert", {**SMALL, "max_position_embeddings": 12}),
    "roberta": Kind("Roberta", {**SMALL, "pad_token_id": 1, "max_position_embeddings": 14}),
    "distilbert": Kind("DistilBert", {"vocab_size": VOCABULARY, **DISTIL}),
    "modernbert": Kind("ModernBert", {**SMALL, **MODERN}, windows=(None, 2)),
    "gpt2": Kind("GPT2", {**GPT2, **ENDS}, causal=True),
    "llama": Kind("Llama", GROUPED, causal=True),
    "mistral": Kind("Mistral", {**GROUPED, "sliding_window": 4}, causal=True, windows=(3, 3)),
    "qwen2": Kind("Qwen2", GROUPED, causal=True),
    "qwen2-sliding": Kind("Qwen2", {**GROUPED, **QWEN}, causal=True, windows=(None, 3)),
    "qwen3": Kind("Qwen3", {**GROUPED, "head_dim": 6}, causal=True),
    "gemma": Kind("Gemma", ONE_KEY, causal=True),
    "gemma3": Kind("Gemma3Text", {**ONE_KEY, **GEMMA3}, causal=True, windows=(3, None)),
    "t5": Kind("T5Encoder", {**T5, "pad_token_id": 0}),
}
MIXED = [name for name, kind in KINDS.items() if kind.windows[0] != kind.windows[1]]
WRITERS = [name for name, kind in KINDS.items() if kind.causal]
GRAPHS = {
    "window": graphs.window(1),
    "hubs": graphs.window(2) | graphs.hubs([0]),
    "random": graphs.random(2, seed=3) | graphs.window(0),
    "last": graphs.window(0) | graphs.hubs([-1]),
}


def batch_of(name: str, padding: str) -> tuple[Tensor, Tensor | None]:
    pad = 1 if name == "roberta" else 0
    ids, mask = sentences(pad, left=padding == "left")
    return (ids, None) if padding == "none" else (ids, mask)


def written_out(kind: Kind, pattern: Pattern | None, mask: Tensor) -> list[Tensor]:
    """Of each layer ``[B, 1, T, T]``: what may be read by the model, the graph and the padding."""
    found = []
    for layer in range(2):
        allowed = kind.allowed(layer, LONGEST, LONGEST).repeat(len(mask), 1, 1)
        for member, row in enumerate(mask.bool()):
            first, count = int(row.byte().argmax()), int(row.sum())
            reads = row.expand(LONGEST, -1).clone()
            if pattern is not None:
                reads[:] = False
                text = slice(first, first + count)
                reads[text, text] = pattern.bind(count).dense()
            allowed[member] &= reads
        found.append(allowed[:, None])
    return found


def states_and_gradients(
    model: nn.Module, ids: Tensor, mask: object, keep: Tensor, **other: object
) -> tuple[Tensor, list[Tensor]]:
    """The states of what is no padding, and the gradient of every parameter that has one."""
    model.zero_grad()
    states = model(ids, attention_mask=mask, **other).last_hidden_state[keep]
    torch.manual_seed(2)
    (states * torch.randn_like(states)).sum().backward()
    return states, [p.grad for p in model.parameters() if p.grad is not None]


def agree(mine: tuple[Tensor, list[Tensor]], other: tuple[Tensor, list[Tensor]]) -> None:
    close(mine[0], other[0])
    assert len(mine[1]) == len(other[1]) > 10
    for one, two in zip(mine[1], other[1], strict=True):
        close(one, two)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("name", KINDS)
def test_a_model_on_its_own_graph_is_theirs(name: str, padding: str) -> None:
    """Also at the positions of padding."""
    kind, (ids, mask) = KINDS[name], batch_of(name, padding)
    keep = torch.ones_like(ids, dtype=torch.bool)
    mine = states_and_gradients(kind.made(), ids, mask, keep)
    agree(mine, states_and_gradients(kind.made("sdpa"), ids, mask, keep))
    again = on_graph(kind.made("sdpa"), graphs.complete())
    agree(states_and_gradients(again, ids, mask, keep), mine)


def test_left_padding_attends_to_nothing_while_eager_averages_all_values() -> None:
    """Both have the states of tokens."""
    ids, mask = batch_of("llama", "left")
    original, changed = (KINDS["llama"].made("eager") for _ in range(2))
    on_graph(changed, graphs.complete())
    with torch.no_grad():
        states, expected = (m(ids, attention_mask=mask)[0] for m in (changed, original))
    close(states[mask.bool()], expected[mask.bool()])
    assert not states[~mask.bool()].allclose(expected[~mask.bool()], atol=0.1)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("name", KINDS)
def test_a_model_on_a_graph_is_theirs_under_the_same_mask(name: str, padding: str) -> None:
    """On the graphs in turn, so that each meets every padding."""
    kind, (ids, mask) = KINDS[name], batch_of(name, padding)
    turn = [*KINDS].index(name) + ["none", "right", "left"].index(padding)
    pattern = [*GRAPHS.values()][turn % len(GRAPHS)]
    real = torch.ones_like(ids) if mask is None else mask
    positions = {}
    if padding == "left" and name not in ("bert", "roberta", "distilbert", "t5"):
        positions = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    mine = states_and_gradients(on_graph(kind.made(), pattern), ids, mask, real.bool(), **positions)
    first, second = written_out(kind, pattern, real)
    # A row in which nothing may be read is of padding; what comes of it is not looked at.
    first, second = (layer | ~layer.any(-1, keepdim=True) for layer in (first, second))
    given: object = first
    if name in MIXED:
        full, sliding = (second, first) if kind.windows[0] is not None else (first, second)
        given = {"full_attention": full, "sliding_attention": sliding}
    other = states_and_gradients(kind.made("sdpa"), ids, given, real.bool(), **positions)
    agree(mine, other)


def test_images_on_a_graph_of_patches() -> None:
    numbers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    vit = Kind("ViT", {**numbers, "intermediate_size": 24, "image_size": 8, "patch_size": 2})
    images = torch.randn(2, 3, 8, 8)
    keep = torch.ones(2, 17, dtype=torch.bool)
    own = states_and_gradients(vit.made(), images, None, keep)
    agree(own, states_and_gradients(vit.made("sdpa"), images, None, keep))
    pattern = graphs.virtual(graphs.grid(4, 4))
    mask = pattern.bind(17).dense().expand(2, 1, -1, -1)
    other = states_and_gradients(vit.made("sdpa"), images, mask, keep)
    mine = states_and_gradients(on_graph(vit.made(), pattern), images, None, keep)
    agree(mine, other)
    assert not torch.allclose(mine[0], own[0])


def test_a_graph_for_each_layer_given_as_patterns_or_text() -> None:
    ids, _ = sentences()
    model = on_graph(KINDS["bert"].made(), ["window(1)", None])
    attending = [m for m in model.modules() if hasattr(m, "edgewise_graph")]
    assert [m.edgewise_graph for m in attending] == [graphs.window(1), None]
    states = model(ids).last_hidden_state
    everywhere = on_graph(KINDS["bert"].made(), graphs.window(1))(ids).last_hidden_state
    nowhere = KINDS["bert"].made()(ids).last_hidden_state
    assert not torch.allclose(states, everywhere)
    assert not torch.allclose(states, nowhere)
    close(on_graph(model, [None, None])(ids).last_hidden_state, nowhere)
    close(on_graph(copy.deepcopy(model), "window(1)")(ids).last_hidden_state, everywhere)
    assert not torch.allclose(model(ids).last_hidden_state, everywhere), "a copy is its own"


@pytest.mark.parametrize("own", ["none", "edgewise"])
def test_padding_between_words_is_not_read(own: str) -> None:
    ids, _ = sentences()
    mask = torch.tensor([[1, 0, 1, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1, 0], [1] * 7])
    pattern = None if own == "none" else graphs.window(2) | graphs.hubs([0])
    model = KINDS["bert"].made()
    if pattern is not None:
        on_graph(model, pattern)
    real = mask.bool()
    mine = states_and_gradients(model, ids, mask, real)
    allowed = real[:, None, None, :].expand(-1, 1, LONGEST, -1).clone()
    if pattern is not None:
        for member, (first, stop) in enumerate([(0, 7), (1, 6), (0, 7)]):
            reads = torch.zeros(LONGEST, LONGEST, dtype=torch.bool)
            reads[first:stop, first:stop] = pattern.bind(stop - first).dense()
            allowed[member] &= reads
    allowed |= ~allowed.any(-1, keepdim=True)
    agree(mine, states_and_gradients(KINDS["bert"].made("sdpa"), ids, allowed, real))


def test_a_member_of_padding_alone_is_no_obstacle() -> None:
    ids, mask = sentences()
    mask[1] = 0
    for graph in (graphs.complete(), graphs.window(1) | graphs.hubs([0])):
        model = on_graph(KINDS["bert"].made(), graph)
        states = model(ids, attention_mask=mask).last_hidden_state
        assert states.isfinite().all()
        alone = model(ids[:1, : LENGTHS[0]]).last_hidden_state
        close(states[:1, : LENGTHS[0]], alone)


@pytest.mark.parametrize("graph", [None, "hubs"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3"])
def test_packed_texts_are_as_each_alone(name: str, graph: str | None) -> None:
    model = KINDS[name].made()
    if graph is not None:
        on_graph(model, GRAPHS[graph])
    ids, _ = sentences()
    texts = [ids[0, :7], ids[1, :4], ids[2, :3]]
    positions = torch.cat([torch.arange(len(text)) for text in texts])
    # theirs finds texts by their positions, where there is no mask and no cache
    other = torch.cat([model(text[None]).last_hidden_state[0] for text in texts])
    rows = torch.stack([torch.cat(texts), torch.cat(texts[::-1])])
    turned = torch.cat([torch.arange(len(text)) for text in texts[::-1]])
    packed = model(rows, position_ids=torch.stack([positions, turned]), use_cache=False)
    close(packed.last_hidden_state[0], other)
    back = torch.cat(other.split([7, 4, 3])[::-1])
    close(packed.last_hidden_state[1], back)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks_of_ones_own_of_each_member_and_head(heads: int, dtype: torch.dtype) -> None:
    ids, _ = sentences()
    torch.manual_seed(5)
    mask = torch.rand(3, heads, LONGEST, LONGEST) < 0.6
    mask |= torch.eye(LONGEST, dtype=torch.bool)
    if dtype == torch.float32:
        numbers = torch.randn(mask.shape)
        mask = numbers.masked_fill(~mask, torch.finfo(torch.float32).min)
    keep = torch.ones_like(ids, dtype=torch.bool)
    mine = states_and_gradients(KINDS["bert"].made(), ids, mask, keep)
    agree(mine, states_and_gradients(KINDS["bert"].made("sdpa"), ids, mask, keep))
    # the same for all members, and changed in place between two calls
    model, other = KINDS["bert"].made(), KINDS["bert"].made("sdpa")
    first = mask[:1].clone()
    close(model(ids, attention_mask=first)[0], other(ids, attention_mask=first)[0])
    first.copy_(mask[1:2])
    close(model(ids, attention_mask=first)[0], other(ids, attention_mask=first)[0])


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_masks_of_ones_own_are_expanded(name: str, dtype: torch.dtype, members: int) -> None:
    """From one member, one head or one row to all, as in SDPA."""
    ids = sentences()[0][:members]
    keep = torch.ones_like(ids, dtype=torch.bool)
    model, other = KINDS[name].made(), KINDS[name].made("sdpa")
    for shape in itertools.product({1, members}, (1, 4), (1, LONGEST)):
        with case(shape):
            mask = torch.rand(*shape, LONGEST) < 0.6
            mask[..., 0] = True
            if dtype == torch.float32:
                mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(dtype).min)
            mine = states_and_gradients(model, ids, mask, keep)
            agree(mine, states_and_gradients(other, ids, mask, keep))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("std", [0.0, 1.0])
def test_a_learned_mask_has_its_gradient(std: float, heads: int) -> None:
    """Such as the relative positions of Swin, which are 0 before training."""
    query, key, value = torch.randn(3, 2, 4, 5, 8)
    mask = (std * torch.randn(1, heads, 5, 5)).requires_grad_()
    for _ in range(2):
        out, _ = attention(nn.Identity(), query, key, value, mask, is_causal=False)
        expected = nn.functional.scaled_dot_product_attention(query, key, value, mask)
        close(out.transpose(1, 2), expected)
        (gradient,) = torch.autograd.grad(out.pow(2).sum(), mask)
        close(gradient, torch.autograd.grad(expected.pow(2).sum(), mask)[0])


def written(
    name: str,
    implementation: str,
    graph: Pattern | None,
    *,
    padded: bool = True,
    **options: object,
) -> tuple[Tensor, Tensor]:
    """What a model writes after prompts of several lengths, and the logits of each step."""
    kind = KINDS[name]
    head = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(kind.model)
    made = getattr(transformers, head or f"{kind.model}ForCausalLM")
    config = getattr(transformers, f"{kind.model}Config")(**kind.numbers)
    torch.manual_seed(0)
    model = made._from_config(config, attn_implementation=implementation).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    if graph is not None:
        on_graph(model, graph)
    ids, mask = sentences(left=True)
    mask = mask if padded else torch.ones_like(mask)
    model.generation_config.eos_token_id = None
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0} | options
    settings |= {"output_logits": True, "return_dict_in_generate": True}
    out = model.generate(ids, attention_mask=mask, **settings)
    return out.sequences, torch.stack(out.logits)


def same_text(mine: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    assert torch.equal(mine[0], other[0])
    close(mine[1], other[1])


CACHES: dict[str, dict[str, object]] = {
    "cache": {},
    "none": {"use_cache": False},
    "beams": {"num_beams": 2},
    "static": {"cache_implementation": "static"},
}
FEW = ("mistral", "gpt2", "gemma3")
"""Layers that attend to a window, to all, and one of each."""


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("name", WRITERS)
def test_they_write_what_they_write_without_us(name: str) -> None:
    """With the two caches that grow and that do not; ``FEW`` with beams and without a cache."""
    for how, options in CACHES.items():
        if how in ("cache", "static") or name in FEW:
            with case(how):
                mine = written(name, "edgewise", None, **options)
                same_text(mine, written(name, "sdpa", None, **options))


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", FEW)
def test_with_a_cache_they_write_on_a_graph_what_they_write_without(name: str) -> None:
    graph = graphs.window(2) | graphs.hubs([0])
    whole = written(name, "edgewise", graph, use_cache=False)
    same_text(written(name, "edgewise", graph), whole)
    same_text(written(name, "edgewise", graph, cache_implementation="static"), whole)
    # Without padding all members have one graph, also after a sliding cache has forgotten some.
    full = written(name, "edgewise", graph, use_cache=False, padded=False)
    same_text(written(name, "edgewise", graph, padded=False), full)
    own = written(name, "edgewise", None)
    assert (own[1] - whole[1]).abs().max() > 0.1


def test_an_encoder_decoder_changes_in_its_encoder() -> None:
    torch.manual_seed(0)
    numbers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24}
    numbers |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 24}
    bart = transformers.BartConfig(vocab_size=VOCABULARY, d_model=16, pad_token_id=0, **numbers)
    theirs = transformers.BartModel._from_config(bart, attn_implementation="sdpa").eval()
    ours = copy.deepcopy(theirs)
    ours.set_attn_implementation("edgewise")
    ids, mask = sentences()
    given = {"attention_mask": mask, "decoder_input_ids": ids.flip(0)}
    close(ours(ids, **given).last_hidden_state, theirs(ids, **given).last_hidden_state)
    on_graph(ours, graphs.window(1))
    changed = [n for n, m in ours.named_modules() if hasattr(m, "edgewise_graph")]
    assert changed == ["encoder.layers.0.self_attn"]
    out = ours(ids, **given)
    allowed = graphs.window(1).bind(LONGEST).dense() & mask.bool()[:, None, None, :]
    allowed |= ~allowed.any(-1, keepdim=True)
    close(
        out.encoder_last_hidden_state[mask.bool()],
        theirs.encoder(ids, attention_mask=allowed).last_hidden_state[mask.bool()],
    )


def test_training_drops_weights_and_checkpoints_layers() -> None:
    ids, mask = sentences()
    keep = mask.bool()
    kind = KINDS["bert"]
    model = on_graph(kind.made(hidden_dropout_prob=0.0), graphs.window(2)).train()

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model(ids, attention_mask=mask).last_hidden_state[keep]

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.allclose(drawn(0), drawn(1))
    still = kind.made(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    on_graph(still, graphs.window(2))
    plain = states_and_gradients(still, ids, mask, keep)
    still.activation_checkpointing_enable()
    agree(states_and_gradients(still, ids, mask, keep), plain)


def test_a_saved_model_is_loaded_on_our_engines(tmp_path: Path) -> None:
    KINDS["bert"].made("sdpa").save_pretrained(tmp_path)
    model = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="edgewise").eval()
    assert model.config._attn_implementation == "edgewise"
    ids, mask = sentences()
    other = KINDS["bert"].made("sdpa")
    close(model(ids, mask)[0][mask.bool()], other(ids, mask)[0][mask.bool()])
    on_graph(model, "window(1) | hubs([0])").save_pretrained(tmp_path / "again")
    assert "edgewise" not in (tmp_path / "again" / "config.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("first", ["transformers", "edgewise"])
def test_registered_whichever_is_imported_first(first: str) -> None:
    ours = "import edgewise.interop.huggingface as ours"
    lazily = "import sys; assert 'transformers' not in sys.modules"
    lines = {"transformers": ["from transformers import AutoModel", ours]}.get(
        first, [ours, lazily, "from transformers import AutoModel"]
    )
    lines += ["from transformers import AttentionInterface, AttentionMaskInterface"]
    lines += ["assert 'edgewise' in AttentionInterface().valid_keys()"]
    lines += ["assert 'edgewise' in AttentionMaskInterface().valid_keys()"]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=300)


def test_registered_after_an_import_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def execute(_: ModuleType) -> None:
        calls.append("execute")
        if len(calls) == 1:
            raise KeyboardInterrupt

    def find_spec(_: str) -> SimpleNamespace:
        return SimpleNamespace(loader=SimpleNamespace(exec_module=execute))

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(interop_attention, "register", lambda: calls.append("register"))
    monkeypatch.setattr(sys, "meta_path", [interop_attention._WhenImported()])
    for interrupted in (True, False):
        spec = sys.meta_path[0].find_spec(interop_attention.HOME)
        with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
            spec.loader.exec_module(ModuleType("transformers"))
    assert calls == ["execute", "execute", "register"]
    assert sys.meta_path == []


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "Longformer": lambda: transformers.LongformerModel(
        transformers.LongformerConfig(**SMALL, attention_window=4, max_position_embeddings=20)
    ),
    "BigBird": lambda: transformers.BigBirdModel(
        transformers.BigBirdConfig(**SMALL, max_position_embeddings=20)
    ),
    "Bloom": lambda: transformers.BloomModel(
        transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=1, n_head=4)
    ),
    "Deberta": lambda: transformers.DebertaModel(
        transformers.DebertaConfig(**SMALL, max_position_embeddings=20)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_models_that_never_ask_are_refused_by_name(name: str) -> None:
    with refused("model", expected="AttentionInterface", got=f"{name}Model", remedy="load"):
        on_graph(OTHERS[name](), graphs.window(2))


@pytest.mark.parametrize("name", ["Longformer", "BigBird", "Bloom"])
def test_models_that_compute_with_the_mask_are_refused_when_they_do(name: str) -> None:
    model = OTHERS[name]()
    model = type(model)._from_config(model.config, attn_implementation="edgewise").eval()
    kind = {"BigBird": "big_bird"}.get(name, name.lower())
    ids, mask = sentences()
    with refused("attn_implementation", expected="uses", got=kind, remedy="eager"):
        model(ids, attention_mask=mask)


TINY_SAM = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "image_size": 32}
WITH_TABLES: dict[str, dict[str, object]] = {
    "GPTJ": {**GPT2, "n_layer": 1, "rotary_dim": 4},
    "GPTNeo": {"hidden_size": 16, "num_layers": 1, "attention_types": [[["global"], 1]]},
    "Falcon": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4},
    "Data2VecVision": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4},
    "SamVision": {**TINY_SAM, "global_attn_indexes": [0], "mlp_dim": 24, "output_channels": 8},
}
"""Families that look their attention class up in a dict of their module."""


@pytest.mark.parametrize("name", WITH_TABLES)
def test_models_with_a_table_of_attention_classes_are_refused(name: str) -> None:
    config = getattr(transformers, f"{name}Config")(**WITH_TABLES[name])
    model = getattr(transformers, f"{name}Model")
    assert isinstance(model._from_config(config, attn_implementation="eager"), nn.Module)
    if not any(n.endswith("ATTENTION_CLASSES") for n in vars(sys.modules[model.__module__])):
        pytest.skip(
            f"{name} uses the attention interface in transformers {transformers.__version__}"
        )
    with refused("attn_implementation", expected="uses", got=f"{name}Model", remedy="eager"):
        model._from_config(config, attn_implementation="edgewise")


@pytest.mark.parametrize("room", [0, 3], ids=["dynamic cache", "static cache"])
@pytest.mark.parametrize("queries", [1, 3, 7])
def test_the_last_query_of_a_causal_mask_is_aligned_with_the_last_key(
    queries: int, room: int
) -> None:
    """With 7 keys written, query i of T attends to keys 0 to 7 - T + i."""
    written_keys = 7
    allowed = torch.ones(queries, written_keys, dtype=torch.bool).tril(written_keys - queries)
    sizes = {"q_length": queries, "q_offset": written_keys - queries}
    reads = mask_of_call(batch_size=2, kv_length=written_keys + room, **sizes)
    assert reads.graph(None).bind(queries, written_keys).dense().equal(allowed)
    padding = torch.ones(2, written_keys + room)
    padding[1, 0] = 0
    padded = mask_of_call(
        batch_size=2, kv_length=written_keys + room, attention_mask=padding, **sizes
    )
    matrix = padded.graph(None).bind(2 * queries, 2 * written_keys).dense()
    second = allowed.clone()
    second[:, 0] = False
    assert matrix.equal(torch.block_diag(allowed, second).bool())
    query, keys = torch.randn(2, 4, queries, 8), torch.randn(2, 4, written_keys, 8)
    out, _ = attention(nn.Identity(), query, keys, keys, None, is_causal=True)
    expected = nn.functional.scaled_dot_product_attention(query, keys, keys, allowed)
    close(out.transpose(1, 2), expected)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("padding", ["none", "right"])
@pytest.mark.parametrize("name", KINDS)
def test_a_model_evaluated_in_inference_mode_trains_afterwards(name: str, padding: str) -> None:
    """By the engines in turn, so that each meets every padding."""
    turn = [*KINDS].index(name) + (padding == "right")
    engine = ("reference", "dense", "rows", "tiles")[turn % 4]
    ids, mask = batch_of(name, padding)
    keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    expected = states_and_gradients(KINDS[name].made(), ids, mask, keep)
    bound_graphs.cache_clear()
    model = KINDS[name].made()
    with ew.using_engine(engine):
        with torch.inference_mode():
            model(ids, attention_mask=mask)
        agree(states_and_gradients(model, ids, mask, keep), expected)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_made_in_inference_mode_serves_training(heads: int, dtype: torch.dtype) -> None:
    ids, _ = sentences()
    keep = torch.ones_like(ids, dtype=torch.bool)
    with torch.inference_mode():
        allowed = torch.rand(3, heads, LONGEST, LONGEST) < 0.6
        allowed |= torch.eye(LONGEST, dtype=torch.bool)
        numbers = torch.randn(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
        mask = allowed if dtype == torch.bool else numbers
        model = KINDS["bert"].made()
        model(ids, attention_mask=mask)
    model, other = KINDS["bert"].made(), KINDS["bert"].made("sdpa")
    with torch.inference_mode():
        model(ids, attention_mask=mask)
    copied = mask.clone()
    mine = states_and_gradients(model, ids, mask, keep)
    agree(mine, states_and_gradients(other, ids, copied, keep))
    with torch.inference_mode():  # an inference tensor changed in place
        mask.copy_(copied.flip(0))
        close(model(ids, attention_mask=mask)[0], other(ids, attention_mask=copied.flip(0))[0])


@pytest.mark.parametrize("name", KINDS)
def test_attention_weights_are_those_of_eager(name: str) -> None:
    padding = ("none", "right", "left")[[*KINDS].index(name) % 3]
    model, eager = KINDS[name].made(), KINDS[name].made("eager")
    ids, mask = batch_of(name, padding)
    keep = slice(None) if mask is None else mask.bool()
    outputs = [m(ids, attention_mask=mask, output_attentions=True) for m in (model, eager)]
    close(outputs[0][0][keep], outputs[1][0][keep])
    mine, other = ([*out.attentions] for out in outputs)
    gradients = (
        torch.autograd.grad(out[0][keep].square().sum(), weights)
        for out, weights in zip(outputs, (mine, other), strict=True)
    )
    assert len(mine) == len(other) > 0
    for layer, expected, grad, expected_grad in zip(mine, other, *gradients, strict=True):
        assert layer.shape == expected.shape
        real = layer.sum(-1) > 0  # a target without sources has uniform weights in eager
        assert real.any()
        close(layer[real], expected[real])
        close(grad[layer > 0], expected_grad[layer > 0])  # padding has other values in eager


def test_a_configuration_asks_for_attention_weights(tmp_path: Path) -> None:
    kind, ids = transformers.BertModel, sentences()[0]
    KINDS["bert"].made().save_pretrained(tmp_path)
    eager = kind.from_pretrained(tmp_path, attn_implementation="eager", output_attentions=True)
    expected = eager.eval()(ids).attentions
    config = transformers.BertConfig.from_pretrained(tmp_path, output_attentions=True)
    named = {"attn_implementation": "edgewise"}
    both = transformers.BertConfig.from_pretrained(tmp_path, output_attentions=True, **named)
    later = kind.from_pretrained(tmp_path, **named)
    later.config.output_attentions = True
    asked = kind.from_pretrained(tmp_path, output_attentions=True, **named)
    asked.save_pretrained(tmp_path / "saved")
    for model in (
        asked,
        kind.from_pretrained(tmp_path, config=config, **named),
        kind.from_pretrained(tmp_path, config=both),
        kind.from_pretrained(tmp_path / "saved", **named),
        later,
    ):
        for layer, other in zip(model.eval()(ids).attentions, expected, strict=True):
            close(layer, other)
    with pytest.raises(Exception, match="output_attentions"):
        kind.from_pretrained(tmp_path, output_attentions=True, attn_implementation="sdpa")
    with pytest.raises(ValueError, match="output_attentions"):
        kind.from_pretrained(tmp_path, attn_implementation="sdpa").config.output_attentions = True


def test_what_attention_here_does_not_do_is_refused() -> None:
    gemma2 = transformers.Gemma2Config(**ONE_KEY)
    capped = transformers.Gemma2Model._from_config(gemma2, attn_implementation="edgewise")
    ids, mask = sentences()
    with refused("attn_implementation", expected="dot", got="caps the scores", remedy="eager"):
        capped(ids, mask)
    nodes = torch.randn(3, 2, 4, 7, 8)
    for name, words in {
        "s_aux": "sinks",
        "sinks": "sinks",
        "indices": "selects sources",
        "block_indices": "selects blocks",
    }.items():
        with refused("attn_implementation", expected="dot", got=words, remedy="eager"):
            attention(nn.Identity(), *nodes, None, **{name: torch.ones(1)})
    bert = KINDS["bert"].made()
    with refused("graph", expected="attention layer (2)", got="3 graphs", remedy="None"):
        on_graph(bert, [graphs.window(1)] * 3)
    with refused("graph", expected="a graph or a pattern", got="Tensor", remedy="from_dense"):
        on_graph(bert, torch.ones(7, 7, dtype=torch.bool))
    with refused("graph", expected="window", got="'windw'", remedy="did you mean 'window'"):
        on_graph(bert, "windw(1)")
    with refused("graph", expected="7 targets", got="5 nodes", remedy="number of nodes"):
        on_graph(bert, graphs.window(1).bind(5))(ids)
    with refused("graph", expected="hub", got="7 targets", remedy="another pattern"):
        on_graph(bert, graphs.hubs([7]))(ids)
