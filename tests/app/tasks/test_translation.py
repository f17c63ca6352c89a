"""Label smoothing by its formula, and BLEU as sacrebleu gives it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise import models
from edgewise.app.kinds.translation import Translation
from edgewise.app.train import WritingBatch
from edgewise.layers import Seq2SeqLanguageModel, Tokens
from tests.errors import refused

metrics = pytest.importorskip("edgewise.app.train.tasks.text_metrics")
sacrebleu = pytest.importorskip("sacrebleu")

WRITTEN = ["the cat sat on the mat", "a dog runs in the park today", "hello"]
WANTED = ("the cat is on the mat", "a dog runs through the park", "hello there, world")


def test_smoothed_loss_by_its_formula() -> None:
    scores, target = torch.randn(5, 7, dtype=torch.double), torch.randint(7, (5,))
    share = scores.log_softmax(-1)
    right = share[torch.arange(5), target]
    expected = -(0.8 * right + 0.2 * share.mean(-1)).mean()
    torch.testing.assert_close(Translation(label_smoothing=0.2).loss(scores, target), expected)


def test_bleu_is_sacrebleus_of_the_whole_split() -> None:
    bleu = metrics.BLEU()
    for part in (slice(0, 2), slice(2, 3)):
        batch = WritingBatch((), torch.empty(0), references=WANTED[part])
        bleu.update(WRITTEN[part], batch)
    whole = sacrebleu.corpus_bleu(WRITTEN, [list(WANTED)])
    assert float(bleu.compute()) == pytest.approx(whole.score)
    assert Translation().notes()["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_nothing_written_is_no_error() -> None:
    bleu = metrics.BLEU()
    bleu.update([""], WritingBatch((), torch.empty(0), references=("a b c d",)))
    assert float(bleu.compute()) == 0


def test_exact_counts_captions_without_any_mistake() -> None:
    exact = metrics.Exact()
    batch = WritingBatch((), torch.empty(0), references=("one two", "three"))
    exact.update(["one two", "three three"], batch)
    assert float(exact.compute()) == 0.5


@pytest.mark.slow
def test_translations_are_the_most_probable_ones() -> None:
    """A model that has learned to repeat its source in other tokens."""
    torch.manual_seed(0)
    task, begin, end = Translation(num_beams=2, max_length_ratio=2.0), 1, 2
    model = Seq2SeqLanguageModel(
        models.transformer(9, width=16, depth=1, heads=2, dropout=0.0, order="pre")
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def up_to_the_end(ids: Tensor) -> list[str]:
        rows = [[*row, end] for row in ids.tolist()]  # the longest may have none
        return [str(row[: row.index(end) + 1]) for row in rows]

    def batch(count: int) -> WritingBatch:
        sizes = torch.randint(1, 4, (count,))
        words = torch.randint(3, 9, (int(sizes.sum()),))
        parts = [torch.cat([w, torch.tensor([end])]) for w in words.split(sizes.tolist())]
        asked = torch.cat(parts)
        read = torch.cat([torch.cat([torch.tensor([begin]), part[:-1]]) for part in parts])
        return WritingBatch(
            (Tokens(asked, sizes + 1), Tokens(read, sizes + 1)),
            asked,
            prompt=torch.full((count, 1), begin),
            end=end,
            references=tuple(str(part.tolist()) for part in parts),
            decode=lambda ids: [
                str([*row, end][: [*row, end].index(end) + 1]) for row in ids.tolist()
            ],
        )

    for _ in range(250):
        given = batch(32)
        loss = task.loss(model(*given.inputs), given.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    given = batch(40)
    written = task.generate(model.eval(), given)
    assert sum(a == b for a, b in zip(written, given.references, strict=True)) >= 35


def test_a_length_penalty_gives_longer_translations() -> None:
    """If all tokens are about as probable, the shortest text is the most probable one."""
    torch.manual_seed(0)
    model = Seq2SeqLanguageModel(models.transformer(5, width=8, depth=1, heads=2)).eval()
    for weight in model.parameters():
        weight.detach().mul_(0.1)
    source, prompt = torch.tensor([[3, 4, 2]]), torch.tensor([[1]])
    batch = WritingBatch(
        (Tokens(source), Tokens(prompt)),
        torch.empty(0),
        prompt=prompt,
        end=2,
        decode=lambda ids: [str(ids.shape[1])],
    )
    assert Translation(length_penalty=0.0).generate(model, batch, 4) == ["1"]
    assert Translation(length_penalty=2.0).generate(model, batch, 4) == ["4"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label_smoothing", 1.0),
        ("label_smoothing", -0.1),
        ("num_beams", 0),
        ("max_length_ratio", 0.5),
    ],
)
def test_bad_fields(field: str, value: float) -> None:
    with refused(f"task.{field}", expected="", got=repr(value), remedy="choose for example"):
        Translation(**{field: value})
