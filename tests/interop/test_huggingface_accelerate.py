"""Longformer, LED, BigBird and Reformer of transformers, with their attention on Edgewise."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgewise.interop.huggingface import accelerate
from tests.errors import case, refused
from tests.interop.test_huggingface import VOCABULARY, bert, close, made
from tests.interop.test_huggingface_long_texts import bigbird, hubs, longformer, texts
from tests.interop.test_huggingface_reformer import reformer

transformers = pytest.importorskip("transformers")

LED = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "attention_window": [4, 8],
    "max_encoder_position_embeddings": 40,
    "max_decoder_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def led(**overrides: object) -> Callable[[], nn.Module]:
    config = transformers.LEDConfig(**{**LED, "dropout": 0.0, **overrides})
    return lambda: transformers.LEDForConditionalGeneration(config)


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "longformer": longformer(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "led": led(),
    "bigbird": bigbird(),
    "bigbird-full": bigbird(attention_type="original_full"),
    "bigbird-decoder": bigbird("ForCausalLM", is_decoder=True, attention_type="original_full"),
    "reformer": reformer(axial_pos_embds=False),
    "reformer-decoder": reformer("ModelWithLMHead", axial_pos_embds=False),
}


def both(
    name: str, dtype: torch.dtype = torch.float32, *, training: bool = False
) -> tuple[nn.Module, nn.Module]:
    """Return the accelerated model and the original model, with equal random weights."""
    original = made(FAMILIES[name], dtype).train(training)
    return accelerate(copy.deepcopy(original)), original


def inputs(name: str, padded: str = "right") -> dict[str, Tensor]:
    """Return a batch of three texts, of several lengths if padded."""
    padding = 1 if name in ("longformer", "led") else 0
    ids, mask = texts(padding, left=padded == "left")
    if name.startswith("reformer"):  # Gradients are those of whole chunks.
        ids, mask = (torch.cat([x, x[:, :3]], 1) for x in (ids, mask))
        mask[:, 21:] = mask[:, 21:] * mask[:, 20:21] if padded == "right" else mask[:, 21:]
    if padded == "none":
        ids, mask = ids.where(mask.bool(), 5), torch.ones_like(mask)
    batch = {"input_ids": ids, "attention_mask": mask}
    if name == "led":
        batch["decoder_input_ids"] = ids.flip(1)[:, :5].clamp(min=3)
    return batch


def scores(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits of tokens that are not padding, and a loss of them."""
    logits = model(**batch).logits
    if "decoder_input_ids" not in batch:
        logits = logits[batch["attention_mask"].bool()]
    return logits, (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum() / 10


def agree(ours: nn.Module, original: nn.Module, batch: dict[str, Tensor], limit: float) -> None:
    """Compare logits, and the gradients of all parameters."""
    (logits, loss), (expected, expected_loss) = scores(ours, batch), scores(original, batch)
    close(logits, expected, limit)
    loss.backward()
    expected_loss.backward()
    gradients = {n: p.grad for n, p in original.named_parameters() if p.grad is not None}
    assert len(gradients) > 20
    for parameter_name, parameter in ours.named_parameters():
        with case(parameter_name):
            if parameter_name in gradients:
                close(parameter.grad, gradients[parameter_name], limit)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("padded", ["right", "none", "left"])
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_and_gradients_are_those_of_the_model(name: str, padded: str) -> None:
    # In training, BigBird samples blocks, and Reformer computes the gradients of its own formula.
    training = name in ("bigbird", "reformer", "reformer-decoder")
    # In float32, a score of -100,000 leaves few digits for tokens without other sources.
    dtype = torch.float64 if name.startswith("reformer") else torch.float32
    ours, original = both(name, dtype, training=training)
    agree(ours, original, inputs(name, padded), 1e-5 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("name", ["longformer", "led"])
@pytest.mark.parametrize("which", ["alike", "different"])
def test_global_tokens_attend_to_all_and_are_attended_to_by_all(name: str, which: str) -> None:
    ours, original = both(name)  # In float64, the gradients of transformers are NaN at padding.
    agree(ours, original, {**inputs(name), "global_attention_mask": hubs(which)}, 1e-5)


def test_many_global_tokens_and_padding_between_tokens() -> None:
    ours, original = both("longformer")
    batch = inputs("longformer")
    batch["attention_mask"][0, 3:6] = 0
    batch["global_attention_mask"] = (torch.arange(21) < 9).long().expand(3, 21)
    agree(ours, original, batch, 1e-5)


def test_evaluation_of_bigbird_repeats_the_first_block() -> None:
    ours, original = both("bigbird", torch.float64)
    agree(ours, original, inputs("bigbird"), 1e-10)


def test_bigbird_stays_accelerated_when_a_short_text_changes_its_attention() -> None:
    ours, original = both("bigbird")
    short = {name: x[:, :10] for name, x in inputs("bigbird", "none").items()}
    agree(ours, original, short, 1e-5)
    kinds = {type(m).__name__ for m in ours.modules() if "SelfAttention" in type(m).__name__}
    assert kinds == {"EdgewiseBigBirdSelfAttention"}
    ours.base_model.set_attention_type("block_sparse")
    kinds = {type(m).__name__ for m in ours.modules() if "Sparse" in type(m).__name__}
    assert kinds == {"EdgewiseBigBirdBlockSparseAttention"}


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", FAMILIES)
def test_requested_weights_are_those_of_the_model(name: str) -> None:
    ours, original = both(name)
    batch = {**inputs(name, "none"), "output_attentions": True}
    attentions, expected = ours(**batch), original(**batch)
    names = [key for key in expected if "attentions" in key]
    assert names
    for key in names:
        for weights, expected_weights in zip(attentions[key], expected[key], strict=True):
            close(weights, expected_weights)


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("name", ["longformer", "led", "bigbird-full", "reformer"])
def test_dropout_is_sampled_by_the_generator_of_torch(name: str) -> None:
    options = {"attention_dropout": 0.5} if name == "led" else {"attention_probs_dropout_prob": 0.5}
    if name == "reformer":
        options = {"local_attention_probs_dropout_prob": 0.5}
    makers = {"longformer": longformer, "led": led, "bigbird-full": bigbird, "reformer": reformer}
    base = {
        "bigbird-full": {"attention_type": "original_full"},
        "reformer": {"axial_pos_embds": False},
    }
    model = accelerate(made(makers[name](**base.get(name, {}), **options)))
    layers = [
        m for m in model.modules() if "Edgewise" in type(m).__name__ and hasattr(m, "dropout")
    ]
    assert layers
    layer = layers[0].train()
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states = torch.linspace(-1, 1, 3 * 24 * 16).view(3, 24, 16).sin()
        masks = {name: torch.zeros(3, 24, dtype=torch.bool) for name in MASKS}
        outputs.append(layer(states, **(masks if name in ("longformer", "led") else {}))[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    layer.eval()


MASKS = ("is_index_masked", "is_index_global_attn")


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ["led", "reformer-decoder", "bigbird-decoder"])
@pytest.mark.parametrize("beams", [1, 2])
def test_generated_texts_are_those_of_the_model(name: str, beams: int) -> None:
    ours, original = both(name)
    batch = inputs(name, "right" if name == "led" else "none")
    batch.pop("decoder_input_ids", None)
    if name != "led":
        batch = {key: x[:, :9] for key, x in batch.items()}
    options = {"max_new_tokens": 6, "do_sample": False, "num_beams": beams, "pad_token_id": 1}
    expected = original.generate(**batch, **options)
    assert ours.generate(**batch, **options).tolist() == expected.tolist()


@pytest.mark.parametrize(("name", "kind"), [("bigbird-decoder", "Self"), ("led", "Decoder")])
def test_the_cache_has_another_name_in_older_versions(name: str, kind: str) -> None:
    model = both(name)[0].eval()
    layer = next(m for m in model.modules() if f"{kind}Attention" in type(m).__name__)
    states = torch.randn(1, 5, layer.embed_dim if name == "led" else 16)
    outputs = []
    for argument in ("cache", "past_key_values", "unknown"):
        cache = transformers.DynamicCache()
        layer(states[:, :4], **{argument: cache})
        outputs.append(layer(states[:, 4:], **{argument: cache})[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


def test_led_generates_with_a_static_cache() -> None:
    ours, original = both("led")
    batch = inputs("led")
    del batch["decoder_input_ids"]
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 1}
    options["cache_implementation"] = "static"
    expected = original.generate(**batch, **options)
    static = ours.generate(**batch, **options)
    assert static.tolist() == expected.tolist()


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", ["longformer", "led", "bigbird"])
def test_gradient_checkpointing_gives_the_same_gradients(name: str) -> None:
    ours = both(name, training=True)[0]
    gradients = []
    for enabled in (False, True):
        if enabled:
            ours.activation_checkpointing_enable()
        ours.zero_grad()
        scores(ours, inputs(name))[1].backward()
        gradients.append([p.grad for p in ours.parameters() if p.grad is not None])
    for gradient, expected in zip(*gradients, strict=True):
        close(gradient, expected)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", FAMILIES)
def test_autocast_is_as_near_as_the_model(name: str) -> None:
    ours, original = both(name)
    batch = inputs(name, "none")
    exact = scores(original, batch)[0]
    with torch.autocast("cpu", torch.bfloat16):
        logits = scores(ours, batch)[0]
        # BigBird of transformers fails under autocast.
        limit = 0.05 * exact if name == "bigbird" else 2 * (scores(original, batch)[0] - exact)
    assert (logits - exact).norm() <= limit.norm()


def test_a_saved_model_is_one_of_transformers(tmp_path: Path) -> None:
    ours, original = both("led")
    ours.save_pretrained(tmp_path)
    assert ours.state_dict().keys() == original.state_dict().keys()
    loaded = transformers.LEDForConditionalGeneration.from_pretrained(tmp_path)
    assert {type(m) for m in loaded.modules()} == {type(m) for m in original.modules()}
    batch = inputs("led")
    close(loaded(**batch).logits, original(**batch).logits)
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), accelerate(ours)):
        close(copied(**batch).logits, original(**batch).logits)


class Adapted(nn.Module):
    """Linear map plus a low-rank term, as LoRA adds it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = (nn.Linear(*sizes, bias=False) for sizes in ((16, 2), (2, 16)))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


@pytest.mark.parametrize("name", ["longformer", "bigbird", "reformer"])
def test_adapters_and_hooks_of_projections_take_effect(name: str) -> None:
    dtype = torch.float64 if name == "reformer" else torch.float32
    original = made(FAMILIES[name], dtype).train(name != "longformer")
    torch.manual_seed(2)
    for module in list(original.modules()):
        for child_name, child in list(module.named_children()):
            if child_name == "value":
                width = child.out_features
                if width == 16:
                    setattr(module, child_name, Adapted(child).to(dtype))
            if child_name in ("value_global", "key", "query_key"):
                child.register_forward_hook(lambda _module, _args, out: out * 1.5)
    ours = accelerate(copy.deepcopy(original))
    batch = inputs(name)
    if name == "longformer":
        batch["global_attention_mask"] = hubs("different")
    agree(ours, original, batch, 1e-5)


def test_graphs_are_built_once_for_each_mask() -> None:
    from edgewise.interop.huggingface.accelerated.longformer import token_graphs

    ours, batch = both("longformer")[0], inputs("longformer")
    token_graphs.cache_clear()
    for _ in range(2):
        ours(**batch)
    assert token_graphs.cache_info().misses == 2, "one for each window"


def test_other_models_are_refused() -> None:
    with refused(
        "model",
        expected="Longformer, LED, BigBird or Reformer",
        got="BertForMaskedLM",
        remedy='attn_implementation="edgewise"',
    ):
        accelerate(bert())


@pytest.mark.slow
def test_the_trainer_trains_it(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    losses = []
    for model in both("longformer"):
        batch = inputs("longformer")
        rows = [
            {"input_ids": ids, "attention_mask": mask, "labels": ids}
            for ids, mask in zip(*batch.values(), strict=True)
        ]
        arguments = transformers.TrainingArguments(
            str(tmp_path), use_cpu=True, max_steps=3, report_to=[], save_strategy="no"
        )
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        losses.append(trainer.train().training_loss)
    assert abs(losses[0] - losses[1]) < 1e-4
