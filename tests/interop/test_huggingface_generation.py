"""Texts token for token as ``transformers`` writes them: greedy, beams and filters of sampling."""

from __future__ import annotations

import pytest
import torch

from edgewise.decoding import Sample, beam_search, generate
from edgewise.interop.huggingface import load
from tests.interop.test_huggingface import PAIR, TEXT, made, sentences

transformers = pytest.importorskip("transformers")

WRITERS = [name for name in TEXT if name not in ("bert", "roberta")]
NEW, END, PADDING = 9, 2, 5  # a padding that is not 0, which transformers takes for none


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("penalty", [None, 1.0, 0.0, 2.0])
def test_texts_after_prompts_of_several_lengths(name: str, penalty: float | None) -> None:
    theirs = made(TEXT[name])
    ids, mask = sentences(PADDING, left=True)
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": PADDING}
    if penalty is None:
        other = theirs.generate(ids, attention_mask=mask, eos_token_id=END, **options)
        mine = generate(load(theirs), ids, mask, max_new_tokens=NEW, end=END, padding=PADDING)
    else:
        beams = {"num_beams": 3, "length_penalty": penalty}
        other = theirs.generate(ids, attention_mask=mask, eos_token_id=END, **options, **beams)
        mine = beam_search(
            load(theirs),
            ids,
            mask,
            beams=3,
            length_penalty=penalty,
            max_new_tokens=NEW,
            end=END,
            padding=PADDING,
        )
    assert mine.tolist() == other.tolist()


@pytest.mark.parametrize("name", PAIR)
@pytest.mark.parametrize("beams", [1, 3])
def test_an_encoder_decoder_writes_what_theirs_does(name: str, beams: int) -> None:
    theirs = made(PAIR[name])
    ids, mask = sentences()
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": PADDING}
    other = theirs.generate(ids, attention_mask=mask, num_beams=beams, eos_token_id=END, **options)
    ours = load(theirs)
    write = generate if beams == 1 else beam_search
    mine = write(
        ours,
        torch.zeros(len(ids), 1, dtype=torch.long),
        memory=ours.encode(ids, mask),
        max_new_tokens=NEW,
        end=END,
        padding=PADDING,
        **({"beams": beams} if beams > 1 else {}),
    )
    assert mine.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(0.7, None, None), (1.0, 3, None), (1.0, None, 0.6), (1.5, 9, 0.8), (1.0, 50, 1e-6)],
)
def test_sampling_keeps_the_tokens_that_theirs_keeps(
    temperature: float, top_k: int | None, top_p: float | None
) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(40, 23)
    other = transformers.TemperatureLogitsWarper(temperature)(None, logits)
    if top_k is not None:
        other = transformers.TopKLogitsWarper(top_k)(None, other)
    if top_p is not None:
        other = transformers.TopPLogitsWarper(top_p)(None, other)
    mine = Sample(temperature, top_k, top_p).probabilities(logits)
    torch.testing.assert_close(mine, other.softmax(-1), rtol=0, atol=1e-6)
