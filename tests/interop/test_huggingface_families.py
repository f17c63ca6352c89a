"""Families of ``transformers`` on Edgewise and without: states, gradients, generated texts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs
from edgewise.interop.huggingface import on_graph
from tests.errors import case
from tests.interop.test_huggingface import T5, close, sentences
from tests.interop.test_huggingface_graphs import GEMMA3, GPT2, GROUPED, MODERN, ONE_KEY, QWEN

transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.masking_utils")

ONE_TYPE = {**GROUPED, "max_position_embeddings": 40, "pad_token_id": 0}
POSITIONS = {**ONE_TYPE, "num_key_value_heads": 4}
SLIDING = {**GROUPED, "sliding_window": 4}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 40}
DEEP = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24}
DEEP |= {"decoder_ffn_dim": 24, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
DEEP |= {"vocab_size": 23, "max_position_embeddings": 40, "decoder_start_token_id": 2}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SEQUENCES = {**DEEP, **ENDS}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 2}
LOCAL = {"layer_types": ["sliding_attention", "full_attention"]}
IMAGE = {**POSITIONS, "image_size": 8, "patch_size": 2}

CAUSAL: dict[str, dict[str, object]] = {
    "ApertusForCausalLM": ONE_TYPE,
    "ArceeForCausalLM": ONE_TYPE,
    "BartForCausalLM": SEQUENCES,
    "BioGptForCausalLM": POSITIONS,
    "CohereForCausalLM": ONE_TYPE,
    "Cohere2ForCausalLM": {**SLIDING, **LOCAL},
    "DiffLlamaForCausalLM": ONE_TYPE,
    "Ernie4_5ForCausalLM": {**ONE_TYPE, "head_dim": 4},
    "Exaone4ForCausalLM": {**SLIDING, **LOCAL},
    "GPT2LMHeadModel": {**GPT2, **ENDS},
    "GPTBigCodeForCausalLM": {**GPT2, **ENDS},
    "GPTNeoXForCausalLM": POSITIONS,
    "GemmaForCausalLM": ONE_KEY,
    "Gemma3ForCausalLM": {**ONE_KEY, **GEMMA3},
    "Glm4ForCausalLM": {**ONE_TYPE, "head_dim": 4},
    "GraniteForCausalLM": ONE_TYPE,
    "HeliumForCausalLM": {**ONE_TYPE, "head_dim": 4},
    "LlamaForCausalLM": {**GROUPED, "num_key_value_heads": 1},
    "MistralForCausalLM": SLIDING,
    "MixtralForCausalLM": {**GROUPED, **EXPERTS},
    "ModernBertDecoderForCausalLM": {**POSITIONS, **MODERN, "sliding_window": 4},
    "NemotronForCausalLM": ONE_TYPE,
    "OPTForCausalLM": {**POSITIONS, "ffn_dim": 24, "word_embed_proj_dim": 16},
    "Olmo2ForCausalLM": ONE_TYPE,
    "Olmo3ForCausalLM": SLIDING,
    "PersimmonForCausalLM": POSITIONS,
    "PhiForCausalLM": ONE_TYPE,
    "Phi3ForCausalLM": SLIDING,
    "Qwen2ForCausalLM": {**GROUPED, **QWEN},
    "Qwen3ForCausalLM": {**GROUPED, "head_dim": 6},
    "SmolLM3ForCausalLM": ONE_TYPE,
    "StableLmForCausalLM": ONE_TYPE,
    "Starcoder2ForCausalLM": SLIDING,
}
PAIRS: dict[str, dict[str, object]] = {
    "BartForConditionalGeneration": SEQUENCES,
    "BlenderbotForConditionalGeneration": SEQUENCES,
    "M2M100ForConditionalGeneration": SEQUENCES,
    "MT5ForConditionalGeneration": T5,
    "MarianMTModel": SEQUENCES,
    "PegasusForConditionalGeneration": SEQUENCES,
    "T5ForConditionalGeneration": {**T5, "num_decoder_layers": 2},
    "UMT5ForConditionalGeneration": T5,
}
MASKED: dict[str, dict[str, object]] = {
    "AlbertForMaskedLM": {**POSITIONS, "embedding_size": 8},
    "BertForMaskedLM": POSITIONS,
    "DistilBertForMaskedLM": {"vocab_size": 23, **DISTIL},
    "ElectraForMaskedLM": {**POSITIONS, "embedding_size": 8},
    "EsmForMaskedLM": {**POSITIONS, "position_embedding_type": "rotary", "mask_token_id": 3},
    "EuroBertForMaskedLM": ONE_TYPE,
    "ModernBertForMaskedLM": {**POSITIONS, **MODERN},
    "NomicBertForMaskedLM": POSITIONS,
    "RobertaForMaskedLM": POSITIONS,
    "XLMRobertaXLForMaskedLM": POSITIONS,
}
IMAGES: dict[str, dict[str, object]] = {
    "Dinov2Model": IMAGE,
    "SwinModel": {
        "image_size": 8,
        "patch_size": 2,
        "embed_dim": 8,
        "depths": [2],
        "num_heads": [2],
        "window_size": 2,
    },
    "ViTModel": IMAGE,
}
FAMILIES = {**CAUSAL, **PAIRS, **MASKED, **IMAGES}
WRITERS = {**CAUSAL, **PAIRS}
PRECISIONS = (torch.bfloat16, torch.float16)


def built(name: str, implementation: str) -> nn.Module:
    """Return a model whose weights are all random; skip a family that transformers lacks."""
    if not hasattr(transformers, name):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    config = kind.config_class(**FAMILIES[name])
    model = kind._from_config(config, attn_implementation=implementation).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.05, std=0.25)
    model.generation_config = transformers.GenerationConfig(**ENDS, decoder_start_token_id=2)
    return model


def batch_for(name: str, members: int = 2) -> dict[str, Tensor]:
    """Return the inputs of a family: the last texts of ``sentences``, or images."""
    if name in IMAGES:
        torch.manual_seed(4)
        return {"pixel_values": torch.randn(members, 3, 8, 8)}
    ids, mask = sentences()
    texts = {"input_ids": ids[1:][:members], "attention_mask": mask[1:][:members]}
    return {**texts, "decoder_input_ids": ids.flip(0)[1:][:members]} if name in PAIRS else texts


def output_and_gradients(
    model: nn.Module, inputs: dict[str, Tensor], precision: torch.dtype | None = None
) -> tuple[Tensor, Tensor, set[str]]:
    """Return the output, the gradients of all parameters, and the names of these parameters."""
    model.zero_grad()
    enabled = precision is not None
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=enabled):
        out = model(**inputs)[0].double()
    torch.manual_seed(2)
    (out * torch.randn_like(out)).sum().backward()
    gradients = {n: p.grad.double() for n, p in model.named_parameters() if p.grad is not None}
    flat = torch.cat([gradient.flatten() for gradient in gradients.values()])
    return out.detach(), flat, set(gradients)


def texts_of(
    model: nn.Module, members: int = 2, precision: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Return what a model generates from prompts padded on the left, and the logits."""
    ids, mask = sentences(left=True)
    settings = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    settings |= {"output_logits": True, "return_dict_in_generate": True}
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
        out = model.generate(ids[1:][:members], attention_mask=mask[1:][:members], **settings)
    return out.sequences, torch.stack(out.logits).double()


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_unchanged(name: str) -> None:
    """In batches of one text and of two, also at padding positions and after ``complete()``."""
    model, original = built(name, "edgewise"), built(name, "sdpa")
    for members in (1, 2):
        with case(members):
            inputs = batch_for(name, members)
            out, gradients, names = output_and_gradients(model, inputs)
            expected, expected_gradients, expected_names = output_and_gradients(original, inputs)
            close(out, expected)
            assert names == expected_names
            close(gradients, expected_gradients)
    complete = on_graph(model, graphs.complete())
    close(output_and_gradients(complete, inputs)[0], expected)
    if name in WRITERS:
        texts, logits = texts_of(model, 1)
        expected_texts, expected_logits = texts_of(original, 1)
        assert torch.equal(texts, expected_texts)
        close(logits, expected_logits)


@pytest.mark.slow(every=25)
@pytest.mark.parametrize("name", FAMILIES)
def test_autocast_costs_a_family_no_more_precision_than_without_us(name: str) -> None:
    """Errors, against float32, of output and gradients are at most twice those of SDPA."""
    model, original = built(name, "edgewise"), built(name, "sdpa")
    inputs = batch_for(name)
    reference = output_and_gradients(original, inputs)
    for precision in PRECISIONS:
        with case(precision):
            results = output_and_gradients(model, inputs, precision)
            expected = output_and_gradients(original, inputs, precision)
            assert results[2] == expected[2]
            for mine, other, truth in zip(results[:2], expected[:2], reference[:2], strict=True):
                assert (mine - truth).norm() <= 2 * (other - truth).norm()
    if name in WRITERS:
        truth = texts_of(original)[1][0]
        mine = texts_of(model, precision=PRECISIONS[0])[1][0]
        other = texts_of(original, precision=PRECISIONS[0])[1][0]
        assert (mine - truth).norm() <= 2 * (other - truth).norm()
