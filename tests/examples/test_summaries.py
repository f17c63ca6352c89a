"""Articles, the sentences that summarise them, and ROUGE by hand."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import tasks
from edgewise_examples.articles import Article, SummaryBatch
from edgewise_examples.data.wiki_summaries import articles, sentences_of
from edgewise_examples.rouge import oracle, shares
from edgewise_examples.tasks.extraction import ExtractiveSummarizer

from edgewise import models
from edgewise.app.kinds.language import WikiText2
from edgewise.layers import Tokens
from tests.errors import refused
from tests.places import needs

PAGE = """
 = Lobster =

 The lobster is a <unk> of the sea . It has claws .

 = = Claws = =

 One claw is large . The other cuts ( it is small ) . " Both are strong . "
 = = = Size = = =

 It weighs 5 @.@ 2 kg . Some weigh more !

 = Stub =

 A stub has no text after its lead .

 = = Nothing = =

 One sentence .
"""


def test_articles_are_cut_at_their_headings() -> None:
    (article,) = articles(PAGE, 3)
    assert article.title == "Lobster"
    assert article.summary == "The lobster is a <unk> of the sea . It has claws ."
    assert article.sentences == (
        "One claw is large .",
        "The other cuts ( it is small ) .",
        '" Both are strong . "',
        "It weighs 5 @.@ 2 kg .",
        "Some weigh more !",
    )


def test_a_stop_inside_a_word_ends_no_sentence() -> None:
    assert sentences_of("No. 1 was St. John . the next") == ["No. 1 was St. John . the next"]


def rouge(kind: str, written: str, wanted: str) -> float:
    from edgewise_examples.tasks.rouge_metric import Rouge

    metric = Rouge(kind)
    metric.update([written], SummaryBatch((), torch.empty(0), articles=(Article("", (), wanted),)))
    return float(metric.compute())


def test_rouge_by_hand() -> None:
    pytest.importorskip("torchmetrics")
    written, wanted = "The cat sat on the mat .", "the cat lay on a mat"
    assert rouge("rouge1", written, wanted) == pytest.approx(2 * 4 / 12)  # the, cat, on, mat
    assert rouge("rouge2", written, wanted) == pytest.approx(2 * 1 / 10)  # the cat
    assert rouge("rougeL", written, wanted) == pytest.approx(2 * 4 / 12)
    assert rouge("rougeL", "mat the cat", wanted) == pytest.approx(2 * 2 / 9)  # mat is elsewhere
    assert rouge("rouge1", "the the the", "the") == pytest.approx(2 * 1 / 4), "as often as in both"
    assert rouge("rouge1", "", wanted) == rouge("rougeL", "dog", wanted) == 0
    assert rouge("rouge1", "<unk>", "unk") == 0, "an unknown word is none"


def test_rouge_is_the_packages() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    texts = "A dog, aged 3, ran home; the dog's home.", "the dog ran to its home, aged 3 or 4"
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"]).score(texts[1], texts[0])
    ours = [rouge(kind, *texts) for kind in ("rouge1", "rouge2", "rougeL")]
    assert ours == pytest.approx([theirs[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")])


def test_the_oracle_takes_what_adds_most() -> None:
    summary = "the lobster has two claws and lives in the sea"
    sentences = ("the sea is cold", "it lives in the sea", "two claws", "the lobster has two claws")
    article = Article("Lobster", sentences, summary)
    assert oracle(article, 1) == [3]
    assert oracle(article, 2) == [1, 3], "in their order, and not what is said already"
    assert oracle(article, 4) == [1, 3], "no sentence that would lower it"


def test_what_a_sentence_is_worth_by_itself() -> None:
    summary = "a lobster has two claws"
    article = Article("Lobster", ("claws , two claws", "the sea", "a lobster has claws"), summary)
    # By itself: two of 3 + 5 words and one of 2 + 4 pairs; nothing; four of 4 + 5, two of 3 + 4.
    each = [2 * 2 / 8 + 2 * 1 / 6, 0.0, 2 * 4 / 9 + 2 * 2 / 7]
    assert shares(article) == pytest.approx([one / each[2] for one in each])
    assert shares(Article("Sea", ("the sea", "it"), summary)) == [0.0, 0.0]


def test_the_length_of_a_sentence_counts() -> None:
    torch.manual_seed(0)
    trunk = models.bert(9, width=8, depth=0, heads=2)
    model = ExtractiveSummarizer(trunk, depth=0, heads=2, dropout=0.0).eval()
    ids, counts = torch.zeros(6, dtype=torch.long), torch.tensor([2])
    # Without layers a sentence's state is that of its first token alone.
    one, other = (model(Tokens(ids, torch.tensor(sizes)), counts) for sizes in ([2, 4], [4, 2]))
    assert (one != other).all()


def test_sentences_read_their_own_article_alone() -> None:
    torch.manual_seed(0)
    model = ExtractiveSummarizer(
        models.bert(9, width=8, depth=1, heads=2), depth=1, heads=2, dropout=0.0
    )
    model = model.double().eval()
    ids, sizes = torch.randint(9, (14,)), torch.tensor([2, 3, 4, 1, 4])
    both = model(Tokens(ids, sizes), torch.tensor([3, 2]))
    first = model(Tokens(ids[:9], sizes[:3]), torch.tensor([3]))
    second = model(Tokens(ids[9:], sizes[3:]), torch.tensor([2]))
    torch.testing.assert_close(both, torch.cat([first, second]))
    changed = ids.clone()
    changed[0] = (changed[0] + 1) % 9
    assert (model(Tokens(changed, sizes), torch.tensor([3, 2])) != both).tolist() == [
        *[True] * 3,
        *[False] * 2,
    ]


def test_the_best_sentences_in_their_order_are_the_summary() -> None:
    one = Article("A", ("a b .", "c d .", "e f ."), "e f a b")
    two = Article("B", ("g .", "h ."), "g")
    batch = SummaryBatch((), torch.empty(5), articles=(one, two))
    task = tasks.Extraction(chosen=2)
    written = task.generate(lambda: torch.tensor([1.0, -1.0, 3.0, 0.0, 2.0]), batch)
    assert written == ["a b . e f .", "g . h ."]
    meters = task.generation_metrics()
    for meter in meters.values():
        meter.update(written, batch)
    values = {name: float(meter.compute()) for name, meter in meters.items()}
    assert values["rouge1"] == pytest.approx((1 + 2 / 3) / 2)
    assert values["lead_rouge1"] == pytest.approx((0.5 + 2 / 3) / 2)
    assert values["oracle_rouge1"] == pytest.approx(1.0)
    assert values["rougeL"] == pytest.approx((0.5 + 2 / 3) / 2), "the order counts"


def test_an_article_of_fewer_sentences_is_all_of_its_summary() -> None:
    batch = SummaryBatch((), torch.empty(2), articles=(Article("B", ("g .", "h ."), "g"),))
    written = tasks.Extraction(chosen=3).generate(lambda: torch.tensor([0.0, 2.0]), batch)
    assert written == ["g . h ."]


@pytest.mark.parametrize("field", ["chosen", "heads"])
def test_bad_fields(field: str) -> None:
    with refused(f"task.{field}", expected="at least 1", got="0", remedy="larger"):
        tasks.Extraction(**{field: 0})


@pytest.mark.slow
@needs("wikitext-2")
def test_the_articles_of_wikitext() -> None:
    pytest.importorskip("tokenizers")
    from edgewise_examples import data as example_data

    pass

    splits = example_data.wiki_summaries(vocab_size=500).load()
    assert (splits.train.count, splits.val.count, splits.test.count) == (48, 12, 61)
    whole = "".join(WikiText2().read_splits()[i] for i in (1, 0))
    for split, known in ((splits.train, slice(48)), (splits.val, slice(48, 60))):
        read = split.make(torch.arange(split.count)).articles
        assert read == tuple(articles(whole, 3)[known]), "in the file's order, none of them cut"
    batch = splits.test.make(torch.tensor([5, 0]))
    tokens, counts = batch.inputs
    sentences = [len(article.sentences) for article in batch.articles]
    assert counts.tolist() == [n + 1 for n in sentences]
    assert (len(tokens.sizes), len(batch.target)) == (sum(sentences) + 2, sum(sentences))
    labels = batch.target.split(sentences)
    for article, own in zip(batch.articles, labels, strict=True):
        assert own.tolist() == pytest.approx(shares(article))
        assert own.max() == 1
