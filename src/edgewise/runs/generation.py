"""Text generation and translation by a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from edgewise import decoding
from edgewise.arguments import check_from_zero
from edgewise.data.text.parallel import Pairs, Parallel
from edgewise.data.text.text_stream import TextStream
from edgewise.data.text.tokenizer import FILE, load_tokenizer
from edgewise.decoding import Choose
from edgewise.errors import ArgumentError
from edgewise.layers import LanguageModel
from edgewise.recipes.recipe import Recipe
from edgewise.runs.record import check_finished, load_recipe
from edgewise.runs.vocabulary import check_vocabulary
from edgewise.tasks import LanguageModeling, Translation
from edgewise.training import RunFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

AT_ONCE = 32  # texts that are translated side by side


def generate(path: Path, prompt: str, choose: Choose, tokens: int = 300) -> str:
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
    check_from_zero("tokens", tokens, "choose for example 300")
    recipe = _recipe(path, LanguageModeling, TextStream, "a language model, as gpt-shakespeare")
    assert isinstance(recipe.data, TextStream)
    context = recipe.data.context
    model, tokenizer = _load(RunFolder(path), recipe, {"longest": context})
    assert isinstance(model, LanguageModel)
    ids = recipe.data.encode(tokenizer, prompt)
    if not len(ids):
        raise ArgumentError(
            "--prompt", expected="at least one token", got=repr(prompt), remedy="write a word"
        )
    text = ids[None]
    wanted = text.shape[1] + tokens
    while text.shape[1] < wanted:
        start = text[:, -max(1, context // 2) :] if text.shape[1] >= context else text
        new = min(wanted - text.shape[1], context - start.shape[1] + 1)
        longer = decoding.generate(model.trunk, start, max_new_tokens=new, choose=choose)
        text = torch.cat([text, longer[:, start.shape[1] :]], dim=1)
    return recipe.data.decode(tokenizer, text[0])


@torch.no_grad()
def translate(path: Path, texts: Sequence[str]) -> list[str]:
    """Each text in the other language, by the model of a finished run; a blank one stays blank.

    Args:
        path: the run folder.
        texts: in the language that the run calls ``data.source``.

    Raises:
        MissingDataError: there is no such run, or it has not finished.
        ArgumentError: it is no run of translation.
    """
    recipe = _recipe(path, Translation, Parallel, "translation, as transformer-multi30k")
    model, tokenizer = _load(RunFolder(path), recipe, {})
    found = [""] * len(texts)
    asked = [i for i, text in enumerate(texts) if text.strip()]
    for part in (asked[start : start + AT_ONCE] for start in range(0, len(asked), AT_ONCE)):
        chosen = [texts[i].strip() for i in part]
        pairs = Pairs.of(tokenizer, (chosen, [""] * len(chosen)))  # nothing is known of the other
        batch = pairs.take(torch.arange(len(part)))
        for i, text in zip(part, recipe.task.write(model, batch), strict=True):
            found[i] = text
    return found


def _recipe(path: Path, task: type, data: type, what: str) -> Recipe:
    """The recipe of a run of this kind."""
    recipe = load_recipe(RunFolder(path))
    if type(recipe.task) is not task or not isinstance(recipe.data, data):
        raise ArgumentError(
            str(path),
            expected=f"a run of {what}",
            got=f"a run of {recipe.name}",
            remedy="name another run folder",
        )
    return recipe


def _load(
    run: RunFolder, recipe: Recipe, data_sizes: dict[str, int]
) -> tuple[nn.Module, Tokenizer]:
    """The trained model and the tokenizer of a finished run."""
    check_finished(run, recipe)
    tokenizer = load_tokenizer(run.path / FILE)
    check_vocabulary(run, tokenizer, FILE)
    bare = recipe.model(vocabulary=tokenizer.get_vocab_size())
    model = recipe.task.complete(bare, data_sizes)
    run.load_weights(model)
    return model.eval(), tokenizer
