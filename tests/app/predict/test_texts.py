"""Runs on texts answer: labels, tags, hidden words, continuations, summaries; from their folder."""

from __future__ import annotations

import csv
import json
import random
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import graphs, models
from edgewise.app.cli import main
from edgewise.app.kinds.language import (
    Contrastive,
    LanguageModeling,
    MaskedLanguageModeling,
    MaskedText,
    TextFiles,
    TextHalves,
)
from edgewise.app.kinds.language.predict import fill_masks
from edgewise.app.kinds.tags import TagFile
from edgewise.app.kinds.tags.predict import split_lengths
from edgewise.app.kinds.texts import SST2, TextTable
from edgewise.app.runs import train, with_values
from edgewise.app.train import (
    CosineSchedule,
    OptimizerSettings,
    Recipe,
    Tagging,
    TextClassification,
    TrainerSettings,
)
from edgewise.layers import Tokens
from tests.errors import refused
from tests.imports import blocking, run_code
from tests.test_architecture import EXTRAS

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")

WORDS = "the a cat dog mat sat ran on over under red blue big small old film".split()  # noqa: SIM905
SIZES = {"width": 16, "depth": 1, "heads": 2, "ffn_dim": 32, "max_length": 64, "dropout": 0.0}
FAST = {"epochs": 8, "monitor": "val/loss", "mode": "min", "accelerator": "cpu"}


def recipe(name: str, source: Any, task: Any, model: Any = models.bert) -> Recipe:
    return Recipe(
        name=name,
        summary="",
        model=partial(model, **SIZES),
        data=source,
        task=task,
        optimizer=OptimizerSettings(lr=1e-2),
        schedule=CosineSchedule(),
        trainer=TrainerSettings(**FAST),
    )


def sentences(count: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(count)]


def trained(folder: Path, what: Recipe) -> Path:
    """The folder of a run whose data are gone and which was moved."""
    torch.set_num_threads(1)
    train(what, folder / "there" / "run")
    shutil.move(folder / "there" / "run", folder / "run")
    for path in folder.iterdir():
        if path.name != "run":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder / "run"


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    rows = [("praise" if "big" in text.split() else "blame", text) for text in sentences(300)]
    with (folder / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("verdict", "opinion"), *rows])
    table = TextTable(path=str(folder / "mine.csv"), kind="words", vocab_size=None)
    return trained(folder, recipe("labels", table, TextClassification(pool="max")))


@pytest.mark.slow
def test_a_machine_that_only_answers_needs_no_package_for_training(labels: Path) -> None:
    needed = ("safetensors", "tokenizers")
    code = f"""
import sys
from edgewise.app.cli import main
sys.exit(main(["predict", {str(labels)!r}, "a big film"]))
"""
    done = run_code(blocking(set(EXTRAS) - set(needed)) + code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "praise" in done.stdout
    for package in needed:
        done = run_code(blocking([package]) + code)
        assert done.returncode == 2
        assert f"needs the package `{package}`" in done.stderr
        assert done.stderr.startswith("edgewise: reading")


def test_sentences_get_their_labels_by_name(labels: Path) -> None:
    run = edgewise.load(labels)
    assert run.metrics["test/accuracy"] > 0.9
    texts = ["a big film", "an old film", "  the cat sat on a big mat "]
    answers = run.predict(texts)
    assert [answer["label"] for answer in answers] == ["praise", "blame", "praise"]
    assert all(0.5 < answer["probability"] <= 1 for answer in answers)
    (both,) = run.predict(texts[0], top=9)
    assert [one["label"] for one in both["top"]] == ["praise", "blame"]
    assert sum(one["probability"] for one in both["top"]) == pytest.approx(1)
    torch.testing.assert_close(
        torch.tensor([one["probability"] for one in run.predict(texts, batch_size=1)]),
        torch.tensor([one["probability"] for one in answers]),
    )


def test_tables_have_the_column_that_was_trained_on(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = edgewise.load(labels)
    assert run.predict([{"opinion": "a big film"}])[0]["label"] == "praise"
    (wrong,) = run.predict([{"text": "a big film"}])
    assert "a row with opinion" in wrong["error"]
    (tmp_path / "new.csv").write_text('id,opinion\n1,"a big, big film"\n2,\n3,an old film\n')
    out = tmp_path / "out.csv"
    assert main(["predict", str(labels), "--input", str(tmp_path / "new.csv"), "--out", str(out)])
    assert "line 3 of new.csv: `input`: expected a sentence" in capsys.readouterr().err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["label"]) for row in rows] == [
        ("1", "praise"),
        ("2", ""),
        ("3", "blame"),
    ]
    (tmp_path / "other.csv").write_text("id,text\n1,a big film\n")
    with refused(str(tmp_path / "other.csv"), expected="'opinion'", got="id, text", remedy=""):
        run.predict(tmp_path / "other.csv")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_counts_the_answers_and_a_file_does_not(
    labels: Path,
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert main(["predict", str(labels), *["a big film"] * 3]) == 0
    assert ("answered" in capsys.readouterr().err) == terminal


def test_of_a_text_longer_than_any_that_was_seen_the_beginning_is_read(labels: Path) -> None:
    run = edgewise.load(labels)
    longest = run.predictor.preprocessing.model_arguments["longest_text"]
    start = ["film"] * (longest - 1)
    texts = [start[1:], [*start, *["big"] * 500], [*start, "the"]]
    whole, cut, other = run.predict([" ".join(text) for text in texts])
    assert "read" not in whole
    assert cut["read"] == f"the first {longest} of {longest + 501} tokens"
    assert other["read"] == f"the first {longest} of {longest + 2} tokens"
    assert cut["probability"] == pytest.approx(other["probability"])


@pytest.mark.parametrize("value", ["", "  \n", None, 3, ["a film"], float("nan")])
def test_what_is_no_sentence_has_an_error_and_the_others_an_answer(
    labels: Path, value: object
) -> None:
    wrong, good = edgewise.load(labels).predict([value, "a big film"])
    assert "expected a sentence" in wrong["error"]
    assert good["label"] == "praise"


def test_what_is_not_unicode_is_named_and_written(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a shell passes on a name in Latin-1, or as JSON may have half of a letter."""
    wrong, good = edgewise.load(labels).predict(["a \udce9 film", "a big film"])
    assert "Unicode; got '\\udce9' at character 2" in wrong["error"]
    assert good["label"] == "praise"
    assert main(["predict", str(labels), "a \udce9 film", "a big film"]) == 1
    given = tmp_path / "new.jsonl"
    given.write_text('{"opinion": "a big film", "by": "\\ud83d"}\n')
    for name in ("out.jsonl", "out.csv"):
        out = tmp_path / name
        assert main(["predict", str(labels), "--input", str(given), "--out", str(out)]) == 0
        assert "\\ud83d" in out.read_text()
    assert json.loads((tmp_path / "out.jsonl").read_text())["by"] == "\ud83d"
    assert main(["predict", str(labels), "--input", str(given)]) == 0
    assert "praise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"top": 0}, "at least 1"),
        ({"beam": 2}, "top"),
        ({"top": "two"}, r"got 'two'\. Remedy: give a whole number, or omit top"),
    ],
)
def test_options_that_do_not_fit(labels: Path, option: dict[str, Any], said: str) -> None:
    with pytest.raises(edgewise.ArgumentError, match=said):
        edgewise.load(labels).predict("a big film", **option)


def test_sst2_has_names_for_its_labels() -> None:
    assert SST2().names == {"0": "negative", "1": "positive"}


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tags")
    lines = [
        "\n".join(f"{word}\t{'NOUN' if word in ('cat', 'dog', 'mat') else 'X'}" for word in words)
        for words in map(str.split, sentences(200))
    ]
    (folder / "mine.txt").write_text("\n\n".join(lines) + "\n")
    source = TagFile(path=str(folder / "mine.txt"), kind="words", vocab_size=None)
    return trained(folder, recipe("tags", source, Tagging(dropout=0.0)))


def test_words_get_tags(tags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = edgewise.load(tags)
    answer, other = run.predict(["the cat sat", ["a", "dog"]])
    assert [(one["word"], one["tag"]) for one in answer["words"]] == [
        ("the", "X"),
        ("cat", "NOUN"),
        ("sat", "X"),
    ]
    assert other["input"] == "a dog"
    assert [one["tag"] for one in other["words"]] == ["X", "NOUN"]
    assert all(0.5 < one["probability"] <= 1 for one in answer["words"])
    assert main(["predict", str(tags), "the cat sat"]) == 0
    shown = capsys.readouterr().out.split("\n")
    assert [line.split()[3:6] for line in shown[2:5]] == [
        ["1", "the", "X"],
        ["2", "cat", "NOUN"],
        ["3", "sat", "X"],
    ]


def test_words_of_a_conllu_file_get_tags(tags: Path, tmp_path: Path) -> None:
    given = [["the", "cat"], ["sat"], []]
    text = "\n\n".join(
        "\n".join(f"{i}\t{word}" + "\t_" * 8 for i, word in enumerate(words, 1)) or "# nothing"
        for words in given
    )
    (tmp_path / "new.conllu").write_text(text + "\n")
    first, second, nothing = edgewise.load(tags).predict(tmp_path / "new.conllu")
    assert [one["tag"] for one in first["words"]] == ["X", "NOUN"]
    assert second["input"] == "sat"
    assert nothing["error"].startswith("line 6 of new.conllu")


LAYOUTS = {
    "tags.txt": "the\tX\ncat\tNOUN\n\nsat\tX\n",
    "spaces.txt": "the X\ncat NOUN\n\nsat X\n",
    "words.txt": "the\ncat\n\nsat\n",
    "header.txt": "pos\tword\n?\tthe\n?\tcat\n\n?\tsat\n",
    "unknown.tsv": "the\t_\ncat\t_\n\nsat\t_\n",
    "table.tsv": "sentence\tword\n1\tthe\n1\tcat\n2\tsat\n",
    "table.csv": "word,sent_id\nthe,a\ncat,a\nsat,b\n",
    "sentences.csv": "text\nthe cat\nsat\n",
    "sentences.txt": "the cat\nsat\n",
    "conllu.txt": "# text\n1\tthe" + "\t_" * 8 + "\n2\tcat" + "\t_" * 8 + "\n\n1\tsat" + "\t_" * 8,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_words_of_a_file_as_for_training_get_tags(tags: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LAYOUTS[name])
    first, second = edgewise.load(tags).predict(tmp_path / name)
    tagged = [[(one["word"], one["tag"]) for one in each["words"]] for each in (first, second)]
    assert tagged == [[("the", "X"), ("cat", "NOUN")], [("sat", "X")]]


@pytest.mark.parametrize("text", ["the cat\tsat\n\na dog\n", f"{'the ' * 10}\n\na dog\n"])
def test_lines_of_a_text_are_sentences(tags: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "new.txt").write_text(text)
    first, second = edgewise.load(tags).predict(tmp_path / "new.txt")
    assert len(first["words"]) == len(text.partition("\n")[0].split())
    assert [one["word"] for one in second["words"]] == ["a", "dog"]


def test_sentences_of_any_length_are_tagged_whole(tags: Path) -> None:
    words = ["the", "cat"] * 60
    (answer,) = edgewise.load(tags).predict([words])
    assert [one["word"] for one in answer["words"]] == words
    assert [one["tag"] for one in answer["words"]].count("NOUN") == 60
    assert split_lengths([3, 2], [2, 2, 1, 4, 1], 4) == [4, 1, 4, 1]


@pytest.mark.parametrize("value", ["", " ", [], ["a", " "], ["a", 3], 3, None])
def test_what_has_no_words(tags: Path, value: object) -> None:
    wrong, good = edgewise.load(tags).predict([value, "a dog"])
    assert "not blank" in wrong["error"]
    assert len(good["words"]) == 2


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked")
    draw = random.Random(0)
    pairs = [("red", "cat"), ("blue", "dog"), ("old", "film")]
    lines = ["the {} {} ran".format(*draw.choice(pairs)) for _ in range(300)]
    (folder / "mine.txt").write_text("\n".join(lines))
    paths = (str(folder / "mine.txt"),)
    source = MaskedText(
        sources=(),
        paths=paths,
        test_paths=paths,
        kind="words",
        vocab_size=None,
        context=16,
        val=0.1,
        mask_fraction=0.3,
        batch_size=8,
    )
    what = recipe("masked", source, MaskedLanguageModeling())
    return trained(folder, with_values(what, {"trainer.epochs": 3}))


@pytest.mark.slow
def test_hidden_words_are_found(masked: Path) -> None:
    run = edgewise.load(masked)
    texts = ["the blue <mask> ran", "the [MASK] film [MASK]"]
    one, two = run.predict(texts, top=2)
    tokenizer = run.predictor.tokenizer
    shown = tokenizer.encode("<cls> the <mask> film <mask> <sep>").ids
    logits = run.model(Tokens(torch.tensor([shown])), torch.tensor([2, 4])).detach()
    scores = logits[:, 5:].softmax(-1)
    wanted = [(mask, *pair) for mask in (0, 1) for pair in zip(*scores[mask].topk(2), strict=True)]
    assert [(word["mask"], word["word"]) for word in two["words"]] == [
        (mask + 1, tokenizer.id_to_token(int(token) + 5)) for mask, _, token in wanted
    ]
    found = [word["probability"] for word in two["words"]]
    assert found == pytest.approx([float(value) for _, value, _ in wanted])
    assert two["text"] == f"the {two['words'][0]['word']} film {two['words'][2]['word']}"
    assert one["text"] == f"the blue {one['words'][0]['word']} ran"
    (every,) = run.predict("the blue <mask> ran", top=1000)
    assert sum(word["probability"] for word in every["words"]) == pytest.approx(1, abs=1e-4)
    assert not [word for word in every["words"] if "<" in word["word"]]


@pytest.mark.slow
def test_embeddings_of_texts_that_share_words_are_nearer(tmp_path: Path) -> None:
    draw = random.Random(0)
    topics = (["goal", "match", "team", "ball"], ["stock", "bank", "price", "fund"])
    lines = [" ".join(draw.choices(draw.choice(topics), k=6)) for _ in range(300)]
    (tmp_path / "mine.txt").write_text("\n".join(lines))
    paths = (str(tmp_path / "mine.txt"),)
    fields = {"sources": (), "paths": paths, "test_paths": paths, "kind": "words"}
    source = TextHalves(**fields, vocab_size=None, batch_size=32, max_length=8)
    what = recipe("halves", source, Contrastive())
    run = edgewise.load(trained(tmp_path, with_values(what, {"trainer.epochs": 3})))
    texts = ["goal match", "team ball", "bank price", "goal " * 20]
    answers = run.predict(texts)
    goal, ball, bank, long = (torch.tensor(answer["embedding"]) for answer in answers)
    assert float(goal.norm()) == pytest.approx(1, abs=1e-6)
    assert float(goal @ ball) > float(goal @ bank)
    assert answers[3]["read"] == "the first 8 of 22 tokens"
    assert float(long.norm()) == pytest.approx(1, abs=1e-6)
    assert "error" in run.predict([" "])[0]


def test_texts_without_a_mask_or_too_long_are_named(masked: Path) -> None:
    none, long, good = edgewise.load(masked).predict(
        ["the cat", "cat " * 20 + "<mask>", "the <mask> ran"]
    )
    assert "write <mask> or [MASK]" in none["error"]
    assert "at most 16 tokens" in long["error"]
    assert "23 tokens" in long["error"]
    assert good["text"].startswith("the ")


def test_pieces_of_words_join_the_word_before() -> None:
    found = [[{"word": "##ing"}], [{"word": "now"}]]
    assert fill_masks("go <mask> on [MASK]!", found)["text"] == "going on now!"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writer")
    (folder / "mine.txt").write_text("\n".join(sentences(200)))
    source = TextFiles(paths=(str(folder / "mine.txt"),), kind="words", context=12)
    return trained(folder, recipe("writer", source, LanguageModeling(), models.gpt))


@pytest.mark.slow
def test_a_language_model_writes_the_same_for_the_same_seed(
    writer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        command = ["predict", str(writer), "the cat", "--max-new-tokens=40"]
        assert main([*command, "--seed", seed, "--top-k", "10", "--top-p", "0.9"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("the cat")
    assert len(texts[0].split()) > 20, "longer than the context of 12"
    run = edgewise.load(writer)
    options = {"max_new_tokens": 40, "seed": 1, "top_k": 10, "top_p": 0.9}
    others = run.predict(["a dog", "the cat"], **options)
    assert others[1]["text"] == texts[0].removesuffix("\n"), "beside another and alone"
    greedy = []
    for seed in ("1", "2"):
        assert main([*command, "--temperature", "0", "--seed", seed]) == 0
        greedy.append(capsys.readouterr().out)
    assert greedy[0] == greedy[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        partial(models.reformer, chunk=4, local_chunk=4),
        partial(models.bigbird, graph=graphs.causal()),
        partial(models.performer, causal=True),
    ],
    ids=lambda model: model.func.__name__,
)
def test_models_write_with_and_without_a_cache(model: Any, tmp_path: Path) -> None:
    """The likeliest token after all before it, also where each step reads them anew."""
    (tmp_path / "mine.txt").write_text("\n".join(sentences(200)))
    source = TextFiles(paths=(str(tmp_path / "mine.txt"),), kind="words", context=12)
    what = recipe("writer", source, LanguageModeling(), model)
    run = edgewise.load(trained(tmp_path, what))
    (answer,) = run.predict("the cat", max_new_tokens=6, temperature=0)
    ids = run.recipe.data.encode(run.predictor.tokenizer, "the cat")
    for _ in range(6):
        logits = run.model.trunk.logits(run.model.trunk(ids[None])[0, -1])
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)])
    assert answer["text"] == run.recipe.data.decode(run.predictor.tokenizer, ids)


def test_a_model_of_words_reads_and_writes_line_ends(writer: Path) -> None:
    (answer,) = edgewise.load(writer).predict("the cat\nsat", max_new_tokens=200)
    assert answer["text"].startswith("the cat\nsat ")
    assert answer["text"].count("\n") > 1, "one that the model wrote"


def test_prompts_and_runs_that_give_no_text(
    writer: Path, labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(writer), ""]) == 1
    assert "a non-empty prompt" in capsys.readouterr().err
    assert main(["predict", str(labels), "a", "--temperature", "0.5"]) == 2
    assert "one of top" in capsys.readouterr().err
    for option, value, said in (
        ("--max-new-tokens", "-5", "a number of at least 0"),
        ("--seed", "-1", "an integer from 0"),
        ("--temperature", "-1", "a number of at least 0"),
        ("--top-k", "0", "at least 1"),
    ):
        assert main(["predict", str(writer), "a", option, value]) == 2
        assert said in capsys.readouterr().err


def test_answers_are_plain_json(labels: Path, tags: Path, masked: Path) -> None:
    for run, value in ((labels, "a film"), (tags, "a film"), (masked, "a <mask>")):
        answers = edgewise.load(run).predict(value, **({"top": 2} if run != tags else {}))
        assert json.loads(json.dumps(answers)) == answers
