"""Runs that start from a Hugging Face folder: its model, its tokenizer, its weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import edgewise
from edgewise.cli import main
from edgewise.data.text.tokenizer import special_id, special_ids
from edgewise.recipes import Recipe, find
from edgewise.runs import evaluate_run, train, with_values
from edgewise.runs.train_recipe import prepare
from edgewise.training import RunFolder
from tests.errors import refused

transformers = pytest.importorskip("transformers")
hf = pytest.importorskip("tokenizers")
pytest.importorskip("lightning")

ROWS = [(f"a {'good' if i % 2 else 'bad'} film number {i % 9}", str(i % 2)) for i in range(60)]
BERT = ("[PAD]", "[unused]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 300,
}


def saved(folder: Path, kind: str = "bert") -> Path:
    """A model of random weights, whose table has rows for more tokens than there are."""
    torch.manual_seed(0)
    special = BERT if kind == "bert" else ROBERTA
    words = sorted({word for text, _ in ROWS for word in text.split()})
    vocabulary = {word: i for i, word in enumerate([*special, *words])}
    unknown = "[UNK]" if kind == "bert" else "<unk>"
    tokenizer = hf.Tokenizer(hf.models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = hf.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(special))
    tokenizer.enable_truncation(3)  # as some are saved
    tokenizer.enable_padding(length=9)
    config, made = {
        "bert": (transformers.BertConfig, transformers.BertModel),
        "roberta": (transformers.RobertaConfig, transformers.RobertaForMaskedLM),
    }[kind]
    rows = len(vocabulary) + 7
    made(config(vocab_size=rows, pad_token_id=special.index(PAD[kind]), **SIZES)).save_pretrained(
        folder
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


PAD = {"bert": "[PAD]", "roberta": "<pad>"}


def labels(folder: Path, start: Path, **values: object) -> Recipe:
    (folder / "mine.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in ROWS))
    fields = {
        "from": str(start),
        "data.path": str(folder / "mine.tsv"),
        "trainer.epochs": 1,
        "trainer.accelerator": "cpu",
    }
    return with_values(find("texts"), fields | values)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.filterwarnings("ignore:not loaded")
def test_the_trunk_begins_as_theirs(tmp_path, kind):
    start = saved(tmp_path / "theirs", kind)
    model, splits = prepare(labels(tmp_path, start))
    tokenizer = splits.tokenizer
    names = {"bert": ("[CLS]", "[SEP]"), "roberta": ("<s>", "</s>")}[kind]
    (tokens,) = splits.test.make(torch.tensor([0])).inputs
    assert len(tokens.ids) == 7, "truncation and padding were saved with the tokenizer"
    assert [tokenizer.id_to_token(int(tokens.ids[i])) for i in (0, -1)] == list(names)
    theirs = getattr(transformers, {"bert": "BertModel", "roberta": "RobertaModel"}[kind])
    model.eval()
    with torch.no_grad():
        wanted = theirs.from_pretrained(start).eval()(tokens.ids[None]).last_hidden_state[0]
        torch.testing.assert_close(tokens.states(model.trunk), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:not loaded")
def test_special_tokens_by_their_names(tmp_path):
    tokenizer = prepare(labels(tmp_path, saved(tmp_path / "theirs")))[1].tokenizer
    found = [special_id(tokenizer, name) for name in ("pad", "unk", "cls", "sep", "mask")]
    assert found == [0, 2, 3, 4, 5]
    assert special_ids(tokenizer).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_run_from_a_folder_answers_without_it(tmp_path):
    start = saved(tmp_path / "theirs")
    recipe = labels(tmp_path, start)
    with pytest.warns(UserWarning, match=r"no place for them: pooler\.0\.bias, pooler\.0\.weight"):
        metrics = train(recipe, tmp_path / "run")
    shutil.rmtree(start)
    assert evaluate_run(tmp_path / "run")["test/loss"] == pytest.approx(metrics["test/loss"])
    record = RunFolder(tmp_path / "run").read_json("recipe.json")
    assert record["model"]["use"] == "bert"
    assert record["model"]["width"] == 16
    assert record["model"]["dropout"] == find("texts").model.keywords["dropout"]
    (tmp_path / "mine.tsv").unlink()
    (answer,) = edgewise.load(tmp_path / "run").predict("a good film number 3")
    assert answer["label"] in ("0", "1")


@pytest.mark.filterwarnings("ignore:not loaded")
def test_folders_that_cannot_be_started_from(tmp_path, capsys):
    start = saved(tmp_path / "theirs")
    recipe = labels(tmp_path, start)
    (start / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json: no such file"):
        train(recipe, tmp_path / "run")
    (tmp_path / "tokenizer.json").rename(start / "tokenizer.json")
    config = (start / "config.json").read_text()
    (start / "config.json").write_text(config.replace('"bert"', '"electra"'))
    name = f"{start}/config.json: model_type"
    with refused(name, expected="bert", got="'electra'", remedy="choose"):
        train(recipe, tmp_path / "run")
    (start / "config.json").write_text(config)
    assert main(["train", "digits", "--from", str(start), "--out", str(tmp_path / "run")]) == 2
    assert "Remedy" in capsys.readouterr().err
    masked = {"data.sources": "", "data.paths": str(tmp_path / "mine.tsv")}
    masked |= {"from": str(start), "data.test_paths": masked["data.paths"], "data.val": 0.1}
    with refused("--from", expected="the model", got="head.bias is none", remedy="no head"):
        train(with_values(find("bert-wikitext"), masked), tmp_path / "run")
    assert not (tmp_path / "run").exists()
