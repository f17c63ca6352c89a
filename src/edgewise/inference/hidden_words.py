"""Words that a masked language model finds in the place of masks."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.data.text.masked_text import MaskedText
from edgewise.data.text.tokenizer import encode_all, special_id, special_ids
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer, check_text
from edgewise.inference.texts import OfTexts
from edgewise.layers import Tokens
from edgewise.tasks import MaskedLanguageModeling

MASK = re.compile(r"<mask>|\[MASK\]")


class HiddenWords(OfTexts):
    """The likeliest words in the places of ``<mask>`` or ``[MASK]``."""

    data, task, input = MaskedText, MaskedLanguageModeling, "a text with <mask> in it"

    def prepare(self, value: Any) -> tuple[str, Tensor]:
        """The text and its ids."""
        text = check_text(value, self.input)
        if not MASK.search(text):
            raise ArgumentError(
                "input",
                expected=self.input,
                got=repr(text)[:60],
                remedy="write <mask> or [MASK] where a word is to be found",
            )
        own = self.tokenizer.id_to_token(special_id(self.tokenizer, "mask")) or ""
        ids, _ = encode_all(self.tokenizer, [MASK.sub(own, text)], first="cls", last="sep")
        longest = self.fitted.model_arguments["longest"]
        if len(ids) > longest:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {longest} tokens, as the model was trained on",
                got=f"{len(ids)} tokens",
                remedy="leave out what is far from the mask",
            )
        return text, ids

    def answer(self, examples: list[tuple[str, Tensor]], *, top: int = 5) -> list[Answer]:
        """The texts with their masks filled, and the likeliest words for each mask.

        Args:
            examples: texts and ids.
            top: words for each mask.
        """
        check_least("top", top, 1, "choose how many words you want")
        ids = torch.cat([ids for _, ids in examples])
        sizes = torch.tensor([len(ids) for _, ids in examples])
        places = (ids == special_id(self.tokenizer, "mask")).nonzero().flatten()
        logits = self.model(Tokens(ids, sizes), places)
        special = special_ids(self.tokenizer)
        logits[:, special] = -torch.inf  # no word is <sep>
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(special)), dim=-1)
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        counts = [len(MASK.findall(text)) for text, _ in examples]
        starts = accumulate(counts, initial=0)
        found = [
            [
                {"word": self.tokenizer.decode([token]).strip(), "probability": value}
                for value, token in zip(values, tokens, strict=True)
            ]
            for values, tokens in rows
        ]
        return [
            answered(text, found[start : start + count])
            for (text, _), count, start in zip(examples, counts, starts, strict=False)
        ]


def answered(text: str, found: list[list[dict[str, Any]]]) -> Answer:
    """The text with the likeliest word for each mask, and all of ``found``, mask by mask.

    A piece of a word, which WordPiece writes as ``##ing``, joins the word before.
    """
    for words in found:
        best = words[0]["word"]
        piece = best.removeprefix("##")
        before = r"\s*" if piece != best else ""
        place = re.compile(f"{before}(?:{MASK.pattern})").search(text)
        assert place
        text = f"{text[: place.start()]}{piece}{text[place.end() :]}"
    words = [{"mask": number, **word} for number, each in enumerate(found, 1) for word in each]
    return {"text": text, "words": words}
