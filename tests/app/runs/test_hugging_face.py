"""Runs that start from a Hugging Face folder: its model, its tokenizer, its weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import edgewise
from edgewise._utils.errors import MissingDataError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import evaluate_run, from_record, to_record, train, with_values
from edgewise.app.runs.record import differences
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import ConstantSchedule, LinearSchedule, Recipe, RunFolder
from edgewise.app.train.text.tokenizer import special_id, special_ids
from edgewise.graphs import window
from edgewise.layers import FeedForward
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


def saved(folder: Path, kind: str = "bert", model: str = "", **other: object) -> Path:
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
        "bert": (transformers.BertConfig, model or "BertModel"),
        "roberta": (transformers.RobertaConfig, model or "RobertaForMaskedLM"),
    }[kind]
    numbers = {"vocab_size": len(vocabulary) + 7, "pad_token_id": special.index(PAD[kind]), **SIZES}
    theirs = getattr(transformers, made)(config(**numbers, **other))
    if model:  # whose head would begin so near 0 that nothing shows
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(folder)
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
    start = saved(tmp_path / "theirs", hidden_dropout_prob=0.15)
    metrics = train(labels(tmp_path, start), tmp_path / "run")
    shutil.rmtree(start)
    assert evaluate_run(tmp_path / "run")["test/loss"] == pytest.approx(metrics["test/loss"])
    record = RunFolder(tmp_path / "run").read_json("recipe.json")
    assert record["model"]["use"] == "bert"
    assert record["model"]["width"] == 16
    assert record["model"]["dropout"] == record["task"]["dropout"] == 0.15
    (tmp_path / "mine.tsv").unlink()
    # BERT of transformers has no dropout within its feed-forward networks.
    model = edgewise.load(tmp_path / "run").model
    rates = [m[2].p for m in model.modules() if isinstance(m, FeedForward)]
    assert rates
    assert not any(rates)
    (answer,) = edgewise.load(tmp_path / "run").predict("a good film number 3")
    assert answer["label"] in ("0", "1")


def test_the_defaults_are_those_of_fine_tuning(tmp_path, capsys):
    start = saved(tmp_path / "theirs", hidden_dropout_prob=0.15, classifier_dropout=0.2)
    scratch, tuned = find("texts"), labels(tmp_path, start)
    assert isinstance(tuned.schedule, LinearSchedule)
    assert (tuned.model.keywords["dropout"], tuned.task.dropout, tuned.task.pool) == (
        0.15,
        0.2,
        "class",
    )
    assert (tuned.data.word_dropout, tuned.data.naive_bayes) == (0, False)
    assert tuned.optimizer.lr < scratch.optimizer.lr / 2
    assert tuned.trainer.monitor == scratch.trainer.monitor
    # Values of the user are kept, before and after the folder is named, as are those of a record.
    values = {"optimizer.lr": 0.1, "data.word_dropout": 0.2, "schedule.floor": 0.5}
    own = labels(tmp_path, start, **values)
    assert (own.optimizer.lr, own.data.word_dropout, own.schedule.floor) == (0.1, 0.2, 0.5)
    windows = with_values(find("tags"), {"from": str(start), "model.graph": "window(2)"})
    assert windows.model.keywords["graph"] == window(2)
    constant = replace(own, schedule=ConstantSchedule())
    assert not differences(from_record(to_record(constant)), constant)
    options = ["--data.path", str(tmp_path / "mine.tsv"), "--trainer.accelerator", "cpu"]
    options += ["--trainer.min_steps", "3", "--trainer.epochs", "1", "--out", str(tmp_path / "run")]
    assert main(["train", "texts", "--from", str(start), *options]) == 0
    printed = capsys.readouterr()
    note = (
        f"edgewise: fine-tuning {start}: adamw with learning rate 5e-05 and weight decay 0.01, "
        "linear schedule with warm-up over 10 % of the steps, 1 epoch, at least 3 steps, "
        "weights of the last epoch, gradient norm at most 1, dropout 0.15, graph complete(), "
        "pooling class, no word dropout, no naive Bayes."
    )
    assert printed.err.count("fine-tuning") == printed.err.count(note) == 1
    assert "fine-tuning" not in printed.out
    assert RunFolder(tmp_path / "run").read_metrics()["epochs"] == 2, "2 batches in an epoch"
    assert tuned.trainer.min_steps == 0, "a number of epochs is the user's own"
    assert with_values(scratch, {"from": str(start)}).trainer.min_steps > 0


def test_a_refused_recipe_prints_no_settings(tmp_path, capsys):
    start = saved(tmp_path / "theirs")
    (tmp_path / "mine.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in ROWS))
    options = ["--data.path", str(tmp_path / "mine.tsv"), "--optimizer.decay_only", "no_such_name"]
    options += ["--out", str(tmp_path / "run")]
    assert main(["train", "texts", "--from", str(start), *options]) != 0
    assert "fine-tuning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "argument", "got"),
    [
        ({"hidden_dropout_prob": None}, "hidden_dropout_prob", "None"),
        ({"hidden_dropout_prob": "x"}, "hidden_dropout_prob", "'x'"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob", "1.5"),
        ({"classifier_dropout": []}, "classifier_dropout", "[]"),
    ],
)
def test_a_dropout_that_is_no_probability_is_refused(tmp_path, values, argument, got):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **values}))
    with refused(f"{path}: {argument}", expected="", got=got, remedy="such as 0.1"):
        with_values(find("texts"), {"from": str(tmp_path)})


def test_a_run_whose_folder_is_gone_is_not_resumed_with_other_settings(tmp_path):
    start = tmp_path / "theirs"
    start.mkdir()
    (start / "config.json").write_text(json.dumps({"model_type": "bert"}))
    run = RunFolder(tmp_path / "run")
    run.make()
    run.write_json("recipe.json", to_record(labels(tmp_path, start)))
    shutil.rmtree(start)
    with pytest.raises(MissingDataError, match="no such folder, from which"):
        train(labels(tmp_path, start), run.path, resume=True)


@pytest.mark.parametrize(("pool", "loaded"), [("class", True), ("mean", False)])
@pytest.mark.filterwarnings("ignore:not loaded")
def test_the_pooler_begins_the_head(tmp_path, pool, loaded):
    start = saved(tmp_path / "theirs")
    model, _ = prepare(labels(tmp_path, start, **{"task.pool": pool}))
    pooler = transformers.BertModel.from_pretrained(start).pooler.dense
    assert torch.equal(model.head.dense.weight, pooler.weight) == loaded
    assert torch.equal(model.head.dense.bias, pooler.bias) == loaded


LABELS = {"id2label": {0: "1", 1: "0"}, "label2id": {"1": 0, "0": 1}}
"""Theirs in another order than ours, which are sorted."""


def a_batch(recipe: Recipe, start: Path, kind: type) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the first four examples, ours as training begins and theirs."""
    model, splits = prepare(recipe)
    batch = splits.test.make(torch.arange(4))
    tokens = batch.inputs[0].padded(special_id(splits.tokenizer, "pad"))
    theirs = kind.from_pretrained(start).eval()
    with torch.no_grad():
        return model.eval()(*batch.inputs), theirs(tokens.ids, attention_mask=tokens.mask).logits


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_head_for_the_same_labels_is_kept(tmp_path, kind, recwarn):
    name = {"bert": "Bert", "roberta": "Roberta"}[kind]
    start = saved(tmp_path / "theirs", kind, f"{name}ForSequenceClassification", **LABELS)
    made = getattr(transformers, f"{name}ForSequenceClassification")
    recipe = labels(tmp_path, start, **{"model.dropout": 0.0})
    mine, other = a_batch(recipe, start, made)
    torch.testing.assert_close(mine, other.flip(1), atol=1e-5, rtol=1e-4)
    assert (other[:, 0] - other[:, 1]).abs().min() > 1e-3, "the order would not show"
    assert not [w for w in recwarn if "not loaded" in str(w.message)]
    # numbered labels are those that nobody named
    numbers = saved(tmp_path / "numbered", kind, f"{name}ForSequenceClassification")
    mine, other = a_batch(labels(tmp_path, numbers), numbers, made)
    torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_steps_of_fine_tuning_are_those_of_transformers(tmp_path, kind):
    """Without dropout, whose random numbers differ."""
    name = f"{'Bert' if kind == 'bert' else 'Roberta'}ForSequenceClassification"
    start = saved(tmp_path / "theirs", kind, name)
    recipe = labels(tmp_path, start, **{"model.dropout": 0.0, "task.dropout": 0.0})
    model, splits = prepare(recipe)
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    other = getattr(transformers, name).from_pretrained(start, **none)
    losses = []
    for trained in (model, other):
        trained.train()
        optimizer = recipe.optimizer.build(trained)
        losses.append([])
        for step in range(6):
            batch = splits.train.make(torch.arange(8) + 8 * (step % 3))
            if trained is model:
                logits = model(*batch.inputs)
            else:
                tokens = batch.inputs[0].padded(special_id(splits.tokenizer, "pad"))
                logits = other(tokens.ids, attention_mask=tokens.mask).logits
            loss = recipe.task.loss(logits, batch.target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.parameters(), recipe.trainer.clip_norm)
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert abs(losses[0][0] - losses[0][3]) > 1e-4, "the steps would not show"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:not loaded")
def test_several_labels_and_numbers_begin_from_a_folder(tmp_path):
    """Numbers have a model that rescales its outputs around the text model."""
    lines = [f"{text}\t{label}\t{i + 0.5}" for i, (text, label) in enumerate(ROWS)]
    (tmp_path / "own.tsv").write_text("\n".join(["text\ta\tn", *lines]) + "\n")
    names = {"id2label": {0: "a"}, "label2id": {"a": 0}}
    start = saved(tmp_path / "theirs", "bert", "BertForSequenceClassification", **names)
    values = {"data.path": str(tmp_path / "own.tsv"), "model.dropout": 0.0}
    made = transformers.BertForSequenceClassification
    one = {"data.target": "a", "data.task_type": "regression"}
    model, _ = prepare(labels(tmp_path, start, **values, **one))
    words = made.from_pretrained(start).bert.embeddings.word_embeddings.weight
    for own in (model, prepare(labels(tmp_path, start, **values, **{"data.target": "a,n"}))[0]):
        tables = own.model.trunk.state_dict().values()
        assert any(torch.equal(table, words[: len(table)]) for table in tables if table.dim() == 2)
    run = labels(tmp_path, start, **values, **{"data.target": "n", "data.task_type": "regression"})
    train(run, tmp_path / "run")
    sizes = {"model.width": 16, "model.heads": 2, "model.ffn_dim": 24}
    sizes |= {"model.max_length": 300, "model.types": 2}
    again = with_values(run, {"from": str(tmp_path / "run"), **sizes})
    wanted = RunFolder(tmp_path / "run").read_tensors("model.safetensors")
    found = prepare(again)[0].state_dict()
    trunk = [name for name in found if name.startswith("model.trunk.")]
    assert trunk
    assert all(torch.equal(found[name], wanted[name]) for name in trunk)


def test_a_head_for_the_same_tags_is_kept(tmp_path):
    start = saved(tmp_path / "theirs", "bert", "BertForTokenClassification", **LABELS)
    lines = ["".join(f"{word}\t{tag}\n" for word in text.split()) for text, tag in ROWS]
    (tmp_path / "mine.conll").write_text("\n".join(lines))
    fields = {"from": str(start), "data.path": str(tmp_path / "mine.conll")}
    recipe = with_values(find("tags"), fields)  # The graph of the recipe is a window.
    model, splits = prepare(recipe)
    batch = splits.test.make(torch.arange(2))
    tokens, sizes = batch.inputs
    assert bool((sizes == 1).all()), "a word is a token here"
    padded = tokens.padded(0)
    theirs = transformers.BertForTokenClassification.from_pretrained(start).eval()
    with torch.no_grad():
        other = theirs(padded.ids, attention_mask=padded.mask).logits.flatten(0, 1)
        other = other if padded.mask is None else other[padded.mask.flatten().bool()]
        torch.testing.assert_close(model.eval()(*batch.inputs), other.flip(1), atol=1e-5, rtol=1e-4)


def test_a_head_for_other_labels_is_named(tmp_path):
    named = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    start = saved(tmp_path / "theirs", "bert", "BertForSequenceClassification", **named)
    said = r"the labels bad, good of texts, but .* data are 0, 1, of texts.*: head\.output\.bias"
    with pytest.warns(UserWarning, match=said):
        model, _ = prepare(labels(tmp_path, start))
    assert model.head.pool.pool == "class"
    words = saved(tmp_path / "words", "bert", "BertForTokenClassification")
    with pytest.warns(UserWarning, match="0, LABEL_1 of words, but .* data are 0, 1, of texts"):
        prepare(labels(tmp_path, words))


def test_the_next_sentences_head_is_nobodys(tmp_path):
    start = saved(tmp_path / "theirs", "bert", "BertForPreTraining")
    with pytest.warns(UserWarning, match=r"not loaded.*: head\.bias((?!pooler).)*$"):
        prepare(labels(tmp_path, start))


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
    with refused(
        "--from", expected="the model", got="head.bias is none", remedy="head the folder contains"
    ):
        train(with_values(find("bert-wikitext"), masked), tmp_path / "run")
    assert not (tmp_path / "run").exists()
