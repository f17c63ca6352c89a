"""Hugging Face's weights: outputs, gradients and generated tokens are theirs, from a live model and
from a folder; other graphs run the same weights; and what disagrees is listed whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from edgewise._utils.errors import MissingDataError
from edgewise.interop.huggingface import load
from edgewise.layers import JointLinear
from tests.errors import refused

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

VOCABULARY, LENGTHS, LONGEST = 23, (7, 4, 1), 7
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 5,
    "decoder_start_token_id": 0,
}


def bert(**other: object) -> nn.Module:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=12, **other)
    return transformers.BertForMaskedLM(config)


def roberta(**other: object) -> nn.Module:
    numbers = {**SMALL, "pad_token_id": 1, "bos_token_id": 0}
    config = transformers.RobertaConfig(**numbers, max_position_embeddings=14, **other)
    return transformers.RobertaForMaskedLM(config)


GPT2_NUMBERS = {
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 40,
    "vocab_size": VOCABULARY,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def gpt2(**other: object) -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2_NUMBERS, **other))


def llama(**other: object) -> nn.Module:
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, **other)
    return transformers.LlamaForCausalLM(config)


def llama3() -> nn.Module:
    rope = {"rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 64}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500.0}
    return llama(rope_parameters=rope, attention_bias=True, head_dim=6)


def mistral() -> nn.Module:
    config = transformers.MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=3)
    return transformers.MistralForCausalLM(config)


def qwen2() -> nn.Module:
    config = transformers.Qwen2Config(**SMALL, num_key_value_heads=2, tie_word_embeddings=True)
    return transformers.Qwen2ForCausalLM(config)


def t5(**other: object) -> nn.Module:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**{**T5, **other}))


def gated_t5() -> nn.Module:
    return t5(feed_forward_proj="gated-gelu")


TEXT = {f.__name__: f for f in (bert, roberta, gpt2, llama, llama3, mistral, qwen2)}
PAIR = {f.__name__: f for f in (t5, gated_t5)}


def made(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float32) -> nn.Module:
    """Their model with every weight random: what begins at 0 or 1 would hide a mistake."""
    torch.manual_seed(0)
    model = make().eval().to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.3)
    model.tie_weights()
    return model


def sentences(padding: int = 0, left: bool = False) -> tuple[Tensor, Tensor]:
    """Ids of three lengths, padded, and their mask."""
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (len(LENGTHS), LONGEST))
    place = torch.arange(LONGEST).flip(0) if left else torch.arange(LONGEST)
    mask = (place < torch.tensor(LENGTHS)[:, None]).long()
    return ids.masked_fill(mask == 0, padding), mask


def close(mine: Tensor, other: Tensor, limit: float = 1e-5) -> None:
    """Within the limit of the specification, of numbers no larger than about one."""
    scale = max(float(other.detach().abs().max()), 1.0)
    torch.testing.assert_close(mine / scale, other / scale, rtol=0, atol=limit)


def bare(model: nn.Module) -> nn.Module:
    return model.base_model


def embedding(ours: nn.Module) -> Tensor:
    return ours.embedding.tokens.weight


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("masked", [False, True])
def test_text_models_give_the_states_logits_and_gradients_of_theirs(
    name: str, masked: bool
) -> None:
    theirs = made(TEXT[name])
    ours = load(theirs)
    ids, mask = sentences(1 if name == "roberta" else 0)
    mask = mask if masked else None
    real = torch.ones_like(ids).bool() if mask is None else mask.bool()
    states = ours(ids, mask)
    other = bare(theirs)(ids, attention_mask=mask).last_hidden_state
    close(states[real], other[real])
    logits, other_logits = ours.logits(states), theirs(ids, attention_mask=mask).logits
    close(logits[real], other_logits[real])
    keep = torch.ones(ids.shape) if mask is None else mask
    probe = torch.randn_like(logits) * keep[..., None]
    (logits * probe).sum().backward()
    (other_logits * probe).sum().backward()
    close(embedding(ours).grad, theirs.get_input_embeddings().weight.grad)
    first = [p.grad for n, p in ours.named_parameters() if "layers.0.attention.sublayer.qkv" in n]
    assert first
    assert all(part.abs().max() > 0 for grad in first for part in grad.chunk(3))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_in_float64_they_agree_to_rounding(name: str) -> None:
    theirs = made(TEXT[name], torch.float64)
    ours = load(theirs)
    ids, mask = sentences()
    states = ours(ids, mask)
    assert states.dtype == torch.float64
    other = bare(theirs)(ids, attention_mask=mask).last_hidden_state
    real = mask.bool()
    # Llama's cosines and norms are computed in float32 by transformers, whatever the weights are.
    close(states[real], other[real], 1e-5 if name == "llama" else 1e-12)


def test_in_bfloat16_far_tokens_are_as_near_as_theirs(tmp_path: Path) -> None:
    """Rounded otherwise, and equally well: by the error of each from float32."""
    made(lambda: llama(head_dim=16)).to(torch.bfloat16).save_pretrained(tmp_path)
    # Unlike `.to(bfloat16)` of a live model, this leaves their rates in float32.
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    exact = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ours = load(tmp_path)
    queries = [m.weights()[0] for m in ours.modules() if isinstance(m, JointLinear)]
    for model in (theirs, exact):
        queries += [p for name, p in model.named_parameters() if name.endswith("q_proj.weight")]
    for query in queries:
        query.data *= 4  # sharp enough that a wrong angle shows
    ids, places = sentences()[0], torch.arange(LONGEST)[None] * 400
    truth, other = (m(ids, position_ids=places).logits.float() for m in (exact, theirs))
    mine = ours.logits(ours(ids, positions=places)).float()
    assert (mine - truth).norm() <= 2 * (other - truth).norm()


@pytest.mark.parametrize("name", PAIR)
def test_t5_gives_the_states_logits_and_gradients_of_theirs(name: str) -> None:
    theirs = made(PAIR[name])
    ours = load(theirs)
    ids, mask = sentences()
    target, target_mask = sentences()
    target = target.flip(0)
    target_mask = target_mask.flip(0)
    states = ours(ids, mask, target, target_mask)
    out = theirs(
        input_ids=ids,
        attention_mask=mask,
        decoder_input_ids=target,
        decoder_attention_mask=target_mask,
    )
    real = mask.bool()
    close(ours(ids, mask)[real], out.encoder_last_hidden_state[real])
    logits = ours.logits(states)
    close(logits, out.logits)
    probe = torch.randn_like(logits) * target_mask[..., None]
    (logits * probe).sum().backward()
    (out.logits * probe).sum().backward()
    close(embedding(ours).grad, theirs.shared.weight.grad)


@pytest.mark.parametrize("tied", [True, False])
def test_an_untied_t5_keeps_its_own_head(tied: bool) -> None:
    theirs = made(lambda: t5(tie_word_embeddings=tied))
    theirs.lm_head.weight = nn.Parameter(torch.randn(VOCABULARY, 16))
    ids, mask = sentences()
    ours = load(theirs)
    close(ours.logits(ours(ids, mask, ids, mask)), theirs(ids, mask, ids, mask).logits)


@pytest.mark.parametrize("make", [bert, roberta])
def test_an_untied_bert_keeps_its_own_head(make: Callable[..., nn.Module], tmp_path: Path) -> None:
    theirs = made(lambda: make(tie_word_embeddings=False))
    decoder = theirs.get_output_embeddings()
    assert not decoder.weight.equal(theirs.get_input_embeddings().weight)
    theirs.save_pretrained(tmp_path)
    ids, mask = sentences(1 if make is roberta else 0)
    for source in (theirs, tmp_path):
        ours = load(source)
        logits = theirs(ids, attention_mask=mask).logits
        close(ours.logits(ours(ids, mask))[mask.bool()], logits[mask.bool()])


def test_vit_gives_the_states_and_gradients_of_theirs(tmp_path: Path) -> None:
    numbers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.ViTConfig(**numbers, intermediate_size=24, image_size=8, patch_size=4)
    theirs = made(lambda: transformers.ViTModel(config, add_pooling_layer=False))
    images = torch.randn(2, 3, 8, 8, requires_grad=True)
    other = theirs(images).last_hidden_state
    probe = torch.randn_like(other)
    (other * probe).sum().backward()
    expected, images.grad = images.grad, None
    theirs.save_pretrained(tmp_path)
    for source in (theirs, tmp_path):
        images.grad = None
        states = load(source)(images)
        close(states, other)
        (states * probe).sum().backward()
        close(images.grad, expected)


@pytest.mark.parametrize("name", [*TEXT, *PAIR])
def test_a_folder_gives_what_the_live_model_gives(name: str, tmp_path: Path) -> None:
    theirs = made({**TEXT, **PAIR}[name])
    theirs.save_pretrained(tmp_path)
    live, saved = load(theirs), load(str(tmp_path))
    for key, tensor in live.state_dict().items():
        assert torch.equal(saved.state_dict()[key], tensor), key
    ids, mask = sentences()
    assert torch.equal(saved(ids, mask), live(ids, mask))


OLDER = {
    "bert": ("layer_norm_eps",),
    "gpt2": ("n_inner",),
    "t5": ("feed_forward_proj", "tie_word_embeddings", "relative_attention_max_distance"),
    "llama": ("tie_word_embeddings",),
}
"""What configurations that an older version saved are without."""


@pytest.mark.parametrize("name", OLDER)
def test_an_older_configuration_is_read_with_their_defaults(name: str, tmp_path: Path) -> None:
    numbers = {"relative_attention_max_distance": 128} if name == "t5" else {}
    theirs = made(lambda: {**TEXT, **PAIR}[name](**numbers))
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    older = {key: value for key, value in config.items() if key not in OLDER[name]}
    assert len(older) < len(config)
    older.pop("scale_decoder_outputs", None)
    file.write_text(json.dumps(older))
    ids, mask = sentences()
    ours, live = load(tmp_path), load(theirs)
    both = (ids, mask, ids, mask) if name == "t5" else (ids, mask)
    assert torch.equal(ours.logits(ours(*both)), live.logits(live(*both)))


def test_shards_are_read_together(tmp_path: Path) -> None:
    theirs = made(bert)
    theirs.save_pretrained(tmp_path, max_shard_size="3KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ids, mask = sentences()
    assert torch.equal(load(tmp_path)(ids, mask), load(theirs)(ids, mask))


def test_a_bare_model_has_states_and_no_logits() -> None:
    theirs = made(bert).bert
    ours = load(theirs)
    ids, mask = sentences()
    states = ours(ids, mask)
    close(states[mask.bool()], theirs(ids, mask).last_hidden_state[mask.bool()])
    with refused("model", expected="head", got="without a head", remedy="ForMaskedLM"):
        ours.logits(states)


def test_the_pooler_comes_along() -> None:
    torch.manual_seed(0)
    theirs = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    ours = load(theirs)
    ids, mask = sentences()
    close(ours.pooler(ours(ids, mask)[:, 0]), theirs(ids, mask).pooler_output)


@pytest.mark.parametrize("name", TEXT)
def test_packed_equals_padded(name: str) -> None:
    ours = load(made(TEXT[name], torch.float64))
    ids, mask = sentences(1 if name == "roberta" else 0)
    real = mask.bool()
    packed = ours(ids[real], sizes=LENGTHS)
    torch.testing.assert_close(packed, ours(ids, mask)[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_another_graph_runs_the_same_weights(name: str) -> None:
    theirs = made({**TEXT, **PAIR}[name], torch.float64)
    ids = sentences()[0][:1]
    wide = load(theirs, graphs.window(LONGEST) | graphs.hubs([0]))
    torch.testing.assert_close(wide(ids), load(theirs)(ids), rtol=0, atol=1e-12)
    sparse = load(theirs, graph=graphs.window(1) | graphs.hubs([0]))
    assert sparse.state_dict().keys() == wide.state_dict().keys()
    assert not torch.allclose(sparse(ids), wide(ids))
    reads = (graphs.window(1) | graphs.hubs([0])).bind(LONGEST).dense()
    blocked = torch.zeros(1, 1, LONGEST, LONGEST, dtype=torch.float64)
    blocked = blocked.masked_fill(~reads, torch.finfo(torch.float64).min)
    body = theirs.get_encoder() if name == "t5" else bare(theirs)
    other = body(ids, attention_mask=blocked).last_hidden_state
    # T5's norm is computed in float32 by transformers, whatever the weights are.
    close(sparse(ids), other, 1e-6 if name == "t5" else 1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_causal_model_keeps_to_the_past_of_another_graph(name: str) -> None:
    ours = load(made(TEXT[name]), graphs.window(2) | graphs.hubs([0]))
    ids, _ = sentences()
    later = ids.clone()
    later[:, 4:] = 3 + (later[:, 4:] - 2) % (VOCABULARY - 3)
    states, changed = ours(ids), ours(later)
    assert torch.equal(states[:, :4], changed[:, :4])
    assert not torch.allclose(states[:, 4:], changed[:, 4:])


def test_every_tensor_that_disagrees_is_listed_at_once(tmp_path: Path) -> None:
    made(gpt2).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = safetensors.load_file(file)
    tensors["transformer.wte.weight"] = torch.zeros(VOCABULARY + 1, 16)
    tensors["transformer.h.1.attn.c_attn.weight"] = torch.zeros(16, 47)
    del tensors["transformer.ln_f.bias"]
    tensors["transformer.h.2.ln_1.weight"] = torch.zeros(16)
    safetensors.save_file(tensors, file)
    with pytest.raises(ew.ArgumentError) as caught:
        load(tmp_path)
    said = str(caught.value)
    assert f"wte.weight (for embedding.tokens.weight): expected shape [{VOCABULARY}, 16]" in said
    assert f"got [{VOCABULARY + 1}, 16]" in said
    assert "h.1.attn.c_attn.weight" in said
    assert "got [16, 47]" in said
    assert "ln_f.bias: expected shape [16], got nothing" in said
    assert "h.2.ln_1.weight: expected nothing, got shape [16]" in said
    assert "ln_1.weight (for" not in said, "what agrees is not listed"


def test_unknown_families_variants_and_sources_are_refused(tmp_path: Path) -> None:
    with refused("model_or_folder", expected="a transformers model", got="int", remedy="folder"):
        load(3)
    with pytest.raises(MissingDataError, match="downloads no weights"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "berd"}))
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(MissingDataError, match="pickled weights are not read"):
        load(tmp_path)
    safetensors.save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with refused("model_type", expected="bert", got="'berd'", remedy="did you mean 'bert'"):
        load(tmp_path)
    with refused("config", expected="add_cross_attention=False", got="=True", remedy="variant"):
        load(gpt2(add_cross_attention=True))
    with refused("hidden_act", expected="gelu", got="'mish'", remedy="transformers"):
        load(bert(hidden_act="mish"))


def test_a_text_longer_than_the_positions_reach_says_so() -> None:
    ours = load(made(bert))
    with refused("x", expected="at most 12 nodes", got="13 nodes", remedy="larger max_length"):
        ours(torch.ones(1, 13, dtype=torch.long))


@pytest.mark.parametrize(("make", "learned"), [(bert, 12), (roberta, 12), (gpt2, 40)])
def test_positions_are_repeated_and_said_so(
    make: Callable[[], nn.Module], learned: int, tmp_path: Path
) -> None:
    theirs = made(make)
    theirs.save_pretrained(tmp_path)
    for source in (theirs, tmp_path):
        short = load(source)
        with pytest.warns(UserWarning, match=f"{learned} to 89 are copies of the {learned}"):
            long = load(source, graphs.window(1), positions=90)
        table, longer = short.embedding.positions.table, long.embedding.positions.table
        ahead = len(table) - learned
        assert len(longer) == 90 + ahead
        assert torch.equal(longer[: len(table)], table)
        for position in range(learned, 90):
            assert torch.equal(longer[ahead + position], table[ahead + position % learned])
        ids = torch.randint(3, VOCABULARY, (1, 90))
        assert long(ids).isfinite().all()
        # Where both can read, they read the same.
        same = short(ids[:, :learned], graph=long.backbone.stack.graph)
        torch.testing.assert_close(long(ids[:, :learned]), same)
    load(theirs, positions=learned)  # without a warning
    with refused("positions", expected=f"at least {learned}", got="5", remedy="omit positions"):
        load(theirs, positions=5)
    with refused("positions", expected="an integer", got="'many'", remedy="4096"):
        load(theirs, positions="many")


def test_models_without_a_table_of_positions_need_none() -> None:
    with refused(
        "positions", expected="longformer, big_bird, gpt2", got="llama", remedy="omit positions"
    ):
        load(llama(), positions=30)


def test_a_graph_given_as_a_text_or_as_something_else() -> None:
    theirs = made(bert)
    ids, mask = sentences()
    by_text = load(theirs, "window(1) | hubs([0])")
    by_pattern = load(theirs, graphs.window(1) | graphs.hubs([0]))
    assert torch.equal(by_text(ids, mask), by_pattern(ids, mask))
    with refused("graph", expected="window", got="'windw'", remedy="did you mean 'window'"):
        load(theirs, "windw(1)")
    with refused("graph", expected="a graph or a pattern", got="", remedy=""):
        load(theirs, torch.ones(7, 7, dtype=torch.bool))
