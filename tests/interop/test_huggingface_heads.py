"""Heads for labels: texts', tokens' and answers' logits are theirs; nothing is dropped unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgewise.interop.huggingface import load
from edgewise.layers import TextClassifier, TokenClassifier, Tokens
from tests.errors import refused
from tests.interop.test_huggingface import SMALL, VOCABULARY, close, made, sentences

transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

NAMED = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": VOCABULARY}


def config(family: str, named: dict[str, object] = NAMED) -> object:
    own = {
        "Bert": {**SMALL, "max_position_embeddings": 12},
        "Roberta": {**SMALL, "pad_token_id": 1, "max_position_embeddings": 14},
        "GPT2": {**GPT2, "pad_token_id": 0},
        "Llama": {**SMALL, "num_key_value_heads": 2},
        "Mistral": {**SMALL, "num_key_value_heads": 2, "sliding_window": None},
        "Qwen2": {**SMALL, "num_key_value_heads": 2},
    }[family]
    return getattr(transformers, f"{family}Config")(**own, **named)


def theirs_and_batch(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    family = name.partition("For")[0]
    named = {} if name.endswith("QuestionAnswering") else NAMED
    theirs = made(lambda: getattr(transformers, name)(config(family, named)))
    ids, mask = sentences(1 if family == "Roberta" else 0)
    return theirs, ids, mask


def gradients_agree(ours: nn.Module, mine: Tensor, theirs: nn.Module, other: Tensor) -> None:
    close(mine, other)
    probe = torch.randn_like(mine)
    (mine * probe).sum().backward()
    (other * probe).sum().backward()
    trunk = ours.trunk.embedding.tokens.weight
    close(trunk.grad, theirs.get_input_embeddings().weight.grad)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "GPT2", "Llama", "Mistral", "Qwen2"])
def test_labels_of_texts(family: str, tmp_path: Path) -> None:
    theirs, ids, mask = theirs_and_batch(f"{family}ForSequenceClassification")
    theirs.save_pretrained(tmp_path)
    for source in (theirs, tmp_path):
        ours = load(source)
        assert isinstance(ours, TextClassifier)
        assert ours.labels == ("bad", "fair", "good")
        theirs.zero_grad()
        other = theirs(ids, attention_mask=mask).logits
        gradients_agree(ours, ours(Tokens(ids, mask=mask)), theirs, other)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "GPT2", "Llama", "Qwen2"])
def test_labels_of_tokens(family: str, tmp_path: Path) -> None:
    theirs, ids, mask = theirs_and_batch(f"{family}ForTokenClassification")
    theirs.save_pretrained(tmp_path)
    for source in (theirs, tmp_path):
        ours = load(source)
        assert isinstance(ours, TokenClassifier)
        assert ours.labels == ("bad", "fair", "good")
        theirs.zero_grad()
        other = theirs(ids, attention_mask=mask).logits[mask.bool()]
        gradients_agree(ours, ours(Tokens(ids, mask=mask)), theirs, other)


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_ends_of_answers(family: str) -> None:
    theirs, ids, mask = theirs_and_batch(f"{family}ForQuestionAnswering")
    ours = load(theirs)
    out = theirs(ids, attention_mask=mask)
    other = torch.stack([out.start_logits, out.end_logits], -1)[mask.bool()]
    gradients_agree(ours, ours(Tokens(ids, mask=mask)), theirs, other)
    assert ours.labels == ()


def test_a_pooler_beside_tokens_labels_stays_a_pooler(tmp_path: Path) -> None:
    """As older versions saved them: the configuration says what the head is of."""
    theirs, ids, mask = theirs_and_batch("BertForTokenClassification")
    theirs.bert.pooler = made(lambda: transformers.BertModel(config("Bert"))).pooler
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    assert isinstance(ours, TokenClassifier)
    close(ours(Tokens(ids, mask=mask)), theirs(ids, attention_mask=mask).logits[mask.bool()])
    states = ours.trunk(ids, mask)[:, 0]
    other = theirs.bert(ids, attention_mask=mask)
    close(ours.trunk.pooler(states), other.pooler_output)


@pytest.mark.parametrize("classes", [2, 5])
def test_vit_keeps_its_classifier(classes: int, tmp_path: Path) -> None:
    numbers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    numbers |= {"intermediate_size": 24, "image_size": 8, "patch_size": 4, "num_labels": classes}
    vit = transformers.ViTConfig(**numbers)
    theirs = made(lambda: transformers.ViTForImageClassification(vit))
    theirs.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 8, 8, requires_grad=True)
    other = theirs(images).logits
    probe = torch.randn_like(other)
    (expected,) = torch.autograd.grad((other * probe).sum(), images)
    for source in (theirs, tmp_path):
        logits = load(source)(images)
        assert logits.shape == (2, classes)
        close(logits, other)
        close(torch.autograd.grad((logits * probe).sum(), images)[0], expected)


def test_what_has_no_place_is_refused_by_name_and_left_out_when_said() -> None:
    numbers = {**SMALL, "max_position_embeddings": 12}
    theirs = made(lambda: transformers.BertForPreTraining(transformers.BertConfig(**numbers)))
    with refused(
        "model_or_folder",
        expected="that this model has",
        got=r"cls.seq_relationship.weight: expected nothing, got shape [2, 16]",
        remedy="leave_out=['cls.seq_relationship']",
    ):
        load(theirs)
    ours = load(theirs, leave_out=["cls.seq_relationship"])
    ids, mask = sentences()
    logits = theirs(ids, attention_mask=mask).prediction_logits
    close(ours.logits(ours(ids, mask))[mask.bool()], logits[mask.bool()])
    with refused("leave_out", expected="a list", got="'pooler'", remedy='["pooler"]'):
        load(theirs, leave_out="pooler")


def test_a_pooler_of_images_is_refused() -> None:
    numbers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    vit = transformers.ViTConfig(**numbers, intermediate_size=24, image_size=8, patch_size=4)
    theirs = made(lambda: transformers.ViTModel(vit))
    with refused(
        "model_or_folder",
        expected="that this model has",
        got="pooler.dense.bias",
        remedy="['pooler.dense']",
    ):
        load(theirs)
    images = torch.randn(2, 3, 8, 8)
    states = load(theirs, leave_out=["pooler"])(images)
    close(states, theirs(images).last_hidden_state)


def test_an_encoder_decoders_head_for_labels_is_refused() -> None:
    numbers = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 4}
    t5 = transformers.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=0, **numbers)
    theirs = transformers.T5ForSequenceClassification(t5)
    with refused(
        "model_or_folder",
        expected="that this model has",
        got="classification_head",
        remedy="leave_out",
    ):
        load(theirs)
