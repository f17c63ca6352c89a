"""What a trained language model writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from edgewise.data.text import TextStream
from edgewise.data.tokenizer import FILE, encode_all, load_tokenizer
from edgewise.decoding import Choose, generate
from edgewise.errors import ArgumentError
from edgewise.layers import TokenScores
from edgewise.recipes.record import check_finished, load_recipe
from edgewise.recipes.vocabulary import check_vocabulary
from edgewise.tasks import language_modeling
from edgewise.training import RunFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def write(path: Path, prompt: str, choose: Choose, tokens: int = 300) -> str:
    """The prompt and so many tokens after it, by the model of a finished run.

    No token reads further back than the context that was trained on: where a text becomes longer,
    the model goes on from the last half of a context.

    Args:
        path: the run folder.
        prompt: at least one token.
        choose: ``Greedy()`` or ``Sample(temperature, top_k, top_p, generator)``.
        tokens: how many.

    Raises:
        MissingDataError: there is no such run, or it has not finished.
        ArgumentError: it is no language model, the prompt is empty or has an unknown character.
    """
    model, tokenizer, context = _load(RunFolder(path))
    ids, _ = encode_all(tokenizer, [prompt])
    if not len(ids):
        raise ArgumentError(
            "--prompt", expected="at least one token", got=repr(prompt), remedy="write a word"
        )
    text = ids[None]
    wanted = text.shape[1] + tokens
    while text.shape[1] < wanted:
        start = text[:, -max(1, context // 2) :] if text.shape[1] >= context else text
        new = min(wanted - text.shape[1], context - start.shape[1] + 1)
        longer = generate(model.trunk, start, max_new_tokens=new, choose=choose)
        text = torch.cat([text, longer[:, start.shape[1] :]], dim=1)
    written: str = tokenizer.decode(text[0].tolist())
    return written


def _load(run: RunFolder) -> tuple[TokenScores, Tokenizer, int]:
    recipe = load_recipe(run)
    data = recipe.data
    if type(recipe.task) is not language_modeling or not isinstance(data, TextStream):
        raise ArgumentError(
            str(run.path),
            expected="a run of a language model, such as gpt-shakespeare",
            got=f"a run of {recipe.name}",
            remedy="name another run folder",
        )
    check_finished(run, recipe)
    tokenizer = load_tokenizer(run.path / FILE)
    check_vocabulary(run, tokenizer, FILE)
    bare = recipe.model(vocabulary=tokenizer.get_vocab_size())
    model = recipe.task.complete(bare, {"longest": data.context})
    run.load_weights(model)
    assert isinstance(model, TokenScores)
    return model.eval(), tokenizer, data.context
