"""The losses of pre-training, causal and masked, on a worked example; and what tasks complete."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.app.kinds.language import LanguageModeling, MaskedLanguageModeling
from edgewise.app.train import Batch, Tagging, TextClassification
from edgewise.layers import LanguageModel, TextClassifier, TokenClassifier, Tokens
from tests.errors import refused


class Counting(nn.Module):
    """A model whose scores can be written down: log of (1 + how often a token was read so far)."""

    def forward(self, ids: Tensor, _mask: Tensor | None = None) -> Tensor:
        seen = nn.functional.one_hot(ids, 3).cumsum(-2)
        return (1.0 + seen).log()

    def logits(self, states: Tensor) -> Tensor:
        return states


def scores(task, batch: Batch) -> Tensor:
    """Loss of the worked model on a batch."""
    net = LanguageModel(Counting())  # type: ignore[arg-type]
    return task.loss(batch.select_outputs(net(*batch.inputs)), batch.target)


def test_causal_loss_by_hand():
    # Text 0 1 0 2. After 0 the counts + 1 are 2 1 1, after 0 1 they are 2 2 1, after 0 1 0: 3 2 1.
    text = torch.tensor([[0, 1, 0, 2]])
    batch = Batch((Tokens(text[:, :-1]),), text[:, 1:].flatten())
    by_hand = -(math.log(1 / 4) + math.log(2 / 5) + math.log(1 / 6)) / 3
    loss = float(scores(LanguageModeling(), batch))
    assert loss == pytest.approx(by_hand)
    follows = LanguageModeling().from_loss(loss)
    assert follows["bits"] == pytest.approx(by_hand / math.log(2))
    assert follows["perplexity"] == pytest.approx((4 * 5 / 2 * 6) ** (1 / 3))


def test_masked_loss_by_hand():
    # Two texts 0 0 1 and 1 1 0 of which the last of each is asked for, 1 and 0: the model has read
    # 0 0 2 (hidden as 2), counts + 1 are 3 1 2; and 1 1 0 (kept as it is), 2 3 1.
    shown = torch.tensor([[0, 0, 2], [1, 1, 0]])
    batch = Batch((Tokens(shown), torch.tensor([2, 5])), torch.tensor([1, 0]))
    by_hand = -(math.log(1 / 6) + math.log(2 / 6)) / 2
    assert float(scores(MaskedLanguageModeling(), batch)) == pytest.approx(by_hand)


def test_masked_accuracy_is_the_share_that_is_found():
    pytest.importorskip("torchmetrics")
    found = MaskedLanguageModeling().metrics()["accuracy"]
    found.update(torch.eye(3), torch.tensor([0, 1, 0]))
    assert float(found.compute()) == pytest.approx(2 / 3)


def test_what_a_task_puts_on_a_model():
    def bert() -> nn.Module:
        return models.bert(11, width=8, depth=1, heads=2, ffn_dim=8, max_length=6)

    told = {"longest_text": 6, "out_width": 5}
    tokens = Tokens(torch.arange(6), torch.tensor([4, 2]))
    net = LanguageModeling().complete(bert(), {"longest_text": 6})
    assert isinstance(net, LanguageModel)
    assert net(tokens).shape == (6, 11)
    net = TextClassification(pool="class").complete(bert(), told)
    assert isinstance(net, TextClassifier)
    assert net(tokens).shape == (2, 5)
    net = Tagging().complete(bert(), told)
    assert isinstance(net, TokenClassifier)
    assert net(tokens, torch.tensor([1, 3, 2])).shape == (3, 5)


def test_texts_longer_than_learned_positions_reach():
    short = models.gpt(11, width=8, depth=1, heads=2, max_length=6)
    with refused("model.max_length", expected="at least 7", got="6", remedy="truncate texts"):
        LanguageModeling().complete(short, {"longest_text": 7})
    padding_takes_two = models.roberta(11, width=8, depth=1, heads=2, max_length=6)
    with refused(
        "model.max_length", expected="at least 7", got="6", remedy="increase model.max_length"
    ):
        Tagging().complete(padding_takes_two, {"longest_text": 5, "out_width": 2})
    endless = models.llama(11, width=8, depth=1, heads=2)
    assert LanguageModeling().complete(endless, {"longest_text": 7})


def test_a_model_of_another_kind():
    net = nn.Linear(2, 2)
    with refused("model", expected="bert or gpt", got="Linear", remedy="a text task"):
        LanguageModeling().complete(net, {"longest_text": 7})


SMALL = {"width": 8, "depth": 1, "heads": 2, "ffn_dim": 8}
CHUNKS = {"chunk": 2, "local_chunk": 2, "max_length": 32}
TEXTS = Tokens(torch.arange(13) % 11, torch.tensor([4, 9]))


@pytest.mark.parametrize(
    ("read_over", "model"),
    [
        ((1, 2), lambda: models.bert(11, **SMALL)),
        ((1, 2), lambda: models.gpt(11, **SMALL, graph=graphs.window(1))),
        ((1, 3), lambda: models.gpt(11, **SMALL, graph=graphs.window(2) - graphs.window(1))),
        ((1, 2), lambda: models.gpt(11, **SMALL, graph=graphs.blocks(3))),
        ((1, 6), lambda: models.gpt(11, **SMALL, graph=graphs.causal() | graphs.hubs([5]))),
        ((1, 2), lambda: models.gru(11, width=8, bidirectional=True)),
        ((1, 2), lambda: models.reformer(11, **SMALL, **CHUNKS, causal=False)),
        ((1, 2), lambda: models.bp_transformer(11, **SMALL)),
    ],
)
def test_a_model_that_reads_ahead_is_not_asked_for_the_next_token(read_over, model):
    border, late = read_over
    net = LanguageModeling().complete(model(), {"longest_text": 9})
    batch = Batch((TEXTS,), torch.arange(13) % 11)
    first = "first token depends" if border == 1 else f"first {border} tokens depend"
    got = f"of the {first} on token {late}"
    with refused("model", expected="a causal model", got=got, remedy='"causal()"'):
        LanguageModeling().check(net, batch)
    assert net.training
    assert all(weight.grad is None for weight in net.parameters())
    padded = replace(batch, inputs=(TEXTS.padded(0),))
    with refused("model", expected="a causal model", got=got, remedy='"causal()"'):
        LanguageModeling().check(net, padded)
    MaskedLanguageModeling().check(net, batch)


@pytest.mark.parametrize(
    "model",
    [
        lambda: models.gpt(11, **SMALL),
        lambda: models.gpt(11, **SMALL, graph=graphs.causal() & graphs.window(2)),
        lambda: models.llama(11, width=8, depth=1, heads=2),
        lambda: models.lstm(11, width=8),
        lambda: models.reformer(11, **SMALL, **CHUNKS),
        lambda: models.bp_transformer(11, **SMALL, causal=True),
    ],
)
def test_a_model_that_reads_what_was_before_is_asked(model):
    net = LanguageModeling().complete(model(), {"longest_text": 9})
    drawn = torch.get_rng_state()
    LanguageModeling().check(net, Batch((TEXTS,), torch.arange(13) % 11))
    assert torch.equal(torch.get_rng_state(), drawn), "training draws the same numbers after it"
    one = Tokens(torch.tensor([3]), torch.tensor([1]))
    LanguageModeling().check(net, Batch((one,), torch.tensor([1])))


@pytest.mark.parametrize("task", [TextClassification, Tagging])
def test_dropout_out_of_range(task):
    with refused("task.dropout", expected="from 0", got="1.0", remedy="0.1"):
        task(dropout=1.0)
