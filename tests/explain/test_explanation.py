"""Explanations of answers: names, positions and texts of each kind of run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import explain, models
from edgewise.app.kinds import find
from edgewise.app.kinds.language import LanguageModeling, TextFiles
from edgewise.app.runs import train, with_values
from edgewise.explain.explanation import grid_positions
from tests.errors import refused
from tests.explain import small_runs

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")
SMALL = {"model.width": 8, "model.depth": 2, "model.heads": 2}
SMALL |= {"trainer.epochs": 1, "trainer.accelerator": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("explained")


def assert_named(found: explain.Explanation) -> None:
    for layer in found.recorded:
        targets, sources = found.labels_of(layer)
        assert (len(targets), len(sources)) == (layer.graph.num_targets, layer.graph.num_sources)


def test_a_sentence_has_its_tokens(folder: Path) -> None:
    run = edgewise.load(small_runs.sentences(folder / "sentences"))
    found = explain.explanation(run, "a big film")
    assert found.kind == "sequence"
    assert found.labels == ["<cls>", "a", "big", "film", "<sep>"]
    assert found.answer.startswith("label praise, probability 0.")
    assert len(found.recorded) == 2
    assert_named(found)
    assert "praise" in repr(found)
    named = explain.explanation(run, "a big film", labels="vwxyz", kind="graph", heads=[1])
    assert named.labels == [*"vwxyz"]
    assert named.kind == "graph"
    assert named.recorded[0].heads == [1]
    with refused("input", expected="a sentence", got="3", remedy="sentence"):
        explain.explanation(run, 3)


@pytest.mark.slow
def test_a_beginning_is_continued(folder: Path) -> None:
    (folder / "mine.txt").write_text("the cat sat on the mat .\n" * 200)
    source = TextFiles(paths=(str(folder / "mine.txt"),), kind="words", context=12, batch_size=4)
    sizes = {"width": 8, "depth": 1, "heads": 2, "ffn_dim": 8, "max_length": 12, "dropout": 0.0}
    path = small_runs.trained(folder / "gpt", models.gpt, source, LanguageModeling(), **sizes)
    found = explain.explanation(edgewise.load(path), "the cat sat")
    assert found.kind == "sequence"
    assert [label.strip() for label in found.labels] == ["the", "cat", "sat"]
    assert found.answer.startswith("the cat sat")
    assert_named(found)


@pytest.mark.slow
def test_a_translation_has_two_texts(folder: Path) -> None:
    run = edgewise.load(small_runs.translations(folder / "translations", epochs=40))
    found = explain.explanation(run, "the cat sat")
    assert found.kind == "pair of sequences"
    assert [label.strip() for label in found.labels] == ["the", "cat", "sat", "<eos>"]
    assert found.target_labels[0] == "<bos>"
    assert found.answer == run.predict(["the cat sat"])[0]["translation"] != ""
    encoder, decoder, cross = found.recorded
    assert found.labels_of(encoder) == (found.labels, found.labels)
    assert found.labels_of(decoder) == (found.target_labels, found.target_labels)
    assert found.labels_of(cross) == (found.target_labels, found.labels)
    assert_named(found)


@pytest.mark.slow
def test_a_molecule_has_atoms_with_places(folder: Path) -> None:
    pytest.importorskip("rdkit")
    smiles = ["CCO", "CCN", "c1ccccc1O", "CC(=O)O", "CCCl", "CCCC", "COC", "CC#N"]
    rows = [f"{one};{number}" for number, one in enumerate(smiles)]
    (folder / "mine.csv").write_text("\n".join(["structure;y", *rows]))
    values = {"data.path": str(folder / "mine.csv"), "data.val": 0.25, "data.target": "y"}
    train(with_values(find("molecules"), values | SMALL), folder / "molecules")
    found = explain.explanation(edgewise.load(folder / "molecules"), "CC(=O)O")
    assert found.kind == "molecule"
    assert found.labels == ["C1", "C2", "O3", "O4"]
    assert found.positions is not None
    assert found.positions.shape == (4, 2)
    assert len(found.positions.unique(dim=0)) == 4
    assert found.details["smiles"] == found.details["input"] == "CC(=O)O"
    assert found.details["bonds"] == [[0, 1], [1, 2], [1, 3]]
    assert found.details["orders"] == [1.0, 2.0, 1.0]
    assert found.answer.startswith("y ")
    assert_named(found)


def test_a_model_without_a_run_has_numbers() -> None:
    model = models.vit(8, 3, 4, width=8, depth=1, heads=2).eval()
    found = explain.explanation(model, torch.randn(1, 3, 8, 8))
    assert found.kind == "image"
    assert found.labels[:5] == [*(f"row 1, column {i}" for i in range(1, 5)), "row 2, column 1"]
    assert found.details["image"].shape == (3, 8, 8)
    positions = found.positions_of(found.recorded[0])
    assert positions is not None
    assert positions[:5].tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [0, -1]]
    text = explain.explanation(
        models.gpt(9, width=8, depth=1, heads=2).eval(), torch.arange(3)[None]
    )
    assert (text.kind, text.labels) == ("sequence", ["0", "1", "2"])
    named: Any = explain.explanation(
        models.gpt(9, width=8, depth=1, heads=2).eval(), {"input_ids": torch.arange(3)[None]}
    )
    assert named.kind == "sequence"
    with refused("model", expected="Module", got="str", remedy="load"):
        explain.explanation("runs/mine", "a")


def test_positions_of_patches() -> None:
    with_token = grid_positions(2, 2, class_token=True)
    assert with_token.tolist() == [[-1, 1], [0, 0], [1, 0], [0, -1], [1, -1]]


def test_merged_patches_have_the_shape_of_the_image() -> None:
    model = models.swin((8, 16), 1, 3, patch=2, width=8, depths=(1, 1), heads=2, window=2).eval()
    shown = explain.explanation(model, torch.randn(1, 1, 8, 16))
    first, merged = shown.recorded
    assert shown.labels_of(first)[0][8] == "row 2, column 1"
    assert shown.labels_of(merged)[0] == [
        f"row {row}, column {column}" for row in (1, 2) for column in (1, 2, 3, 4)
    ]
    assert shown.positions_of(merged)[4].tolist() == [0, -1]


def tokenizer() -> Any:
    """A tokenizer of transformers for six words, with padding on the right."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = ["<pad>", "<s>", "</s>", "the", "Ġfilm", "▁is", "dull"]
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<pad>")
    tool = tokenizers.Tokenizer(model)
    tool.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tool, pad_token="<pad>")


TEXT = "<s> the Ġfilm ▁is dull </s>"
TOKENS = ["<s>", "the", " film", " is", "dull", "</s>"]


def hugging_face(name: str, kind: str, vocab_size: int = 7) -> Any:
    """A small model of transformers with random weights."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("edgewise.interop.huggingface")
    sizes: dict[str, Any] = {"vocab_size": vocab_size, "pad_token_id": 0, "bos_token_id": 1}
    if name == "Bart":
        sizes |= {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "eos_token_id": 2}
        sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        sizes |= {"decoder_start_token_id": 1, "max_position_embeddings": 32}
    elif name == "T5":
        sizes |= {"d_model": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
        sizes |= {"decoder_start_token_id": 1, "eos_token_id": 2}
    else:
        sizes |= {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}{kind}")
    return model._from_config(config, attn_implementation="edgewise").eval()


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_text_of_transformers_has_its_tokens_without_padding(name: str, side: str) -> None:
    model, tool = hugging_face(name, "ForSequenceClassification"), tokenizer()
    inputs = tool(TEXT, return_tensors="pt")
    shown = explain.explanation(model, inputs)
    assert (shown.kind, shown.labels) == ("sequence", TOKENS)
    with torch.no_grad():
        probability = model(**inputs).logits[0].softmax(-1).max()
    assert shown.answer.startswith("label LABEL_")
    assert shown.answer.endswith(f"probability {probability:.3f}")
    padded = tool(TEXT, return_tensors="pt", padding="max_length", max_length=9, padding_side=side)
    assert padded["input_ids"].shape == (1, 9)
    without = explain.explanation(model, padded)
    assert without.labels == TOKENS
    recorded = shown.recorded[0].weights
    if name == "Bert" and side == "right":  # Else positions are those of other tokens.
        torch.testing.assert_close(without.recorded[0].weights, recorded)
    with torch.no_grad(), explain.record(model) as raw:
        model(**padded)
    is_token = padded["attention_mask"][0].bool()
    expected = torch.zeros(9, 9, 2)
    expected[raw[0].graph.target, raw[0].graph.source] = raw[0].weights.reshape(-1, 2)
    found = torch.zeros(6, 6, 2)
    source, target = without.recorded[0].edge_index
    found[target, source] = without.recorded[0].weights.reshape(-1, 2)
    torch.testing.assert_close(found, expected[is_token][:, is_token])
    some = explain.explanation(model, padded, targets=[int(is_token.nonzero()[2])])
    source, target = some.recorded[0].edge_index
    assert target.unique().tolist() == [2]
    torch.testing.assert_close(some.recorded[0].weights.reshape(-1, 2), found[2, source])


SENTENCES = ["The café plays an old film.", "Playing the naïve part", "an older film, replayed"]


def trained_tokenizer(name: str) -> Any:
    """A tokenizer of transformers whose vocabulary is learnt from sentences: WordPiece, or BPE of
    bytes.
    """
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    start, end, pad, unknown = special = ["[CLS]", "[SEP]", "[PAD]", "[UNK]"]
    parts = tokenizers.pre_tokenizers, tokenizers.trainers
    if name == "Bert":
        tool = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=unknown))
        tool.normalizer = tokenizers.normalizers.BertNormalizer(strip_accents=False)
        tool.pre_tokenizer = parts[0].BertPreTokenizer()
        trainer = parts[1].WordPieceTrainer(vocab_size=60, special_tokens=special)
    else:
        tool = tokenizers.Tokenizer(tokenizers.models.BPE())
        tool.pre_tokenizer = parts[0].ByteLevel(add_prefix_space=False)
        trainer = parts[1].BpeTrainer(
            vocab_size=290, special_tokens=special, initial_alphabet=parts[0].ByteLevel.alphabet()
        )
    tool.train_from_iterator(SENTENCES, trainer)
    if name != "GPT2":
        tool.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{start} $A {end}", special_tokens=[(start, 0), (end, 1)]
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tool, pad_token=pad)


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Bart"])
def test_labels_are_the_text_that_a_trained_tokenizer_split(name: str) -> None:
    tool, text = trained_tokenizer(name), "The naïve film plays"
    model = hugging_face(name, "ForConditionalGeneration" if name == "Bart" else "Model", len(tool))
    inputs = tool(text, return_tensors="pt", padding="max_length", max_length=30)
    count = int(inputs["attention_mask"].sum())
    given = {**inputs}
    if name == "Bart":
        target = tool("un café", return_tensors="pt")
        given["decoder_input_ids"] = target["input_ids"]
    shown = explain.explanation(model, given, tokenizer=tool)
    assert len(shown.labels) == count
    words = shown.labels if name == "GPT2" else shown.labels[1:-1]
    if name == "Bert":
        assert " ".join(words).replace(" ##", "") == text.lower()
        assert any(word.startswith("##") for word in words)
    else:
        assert "".join(words) == text.replace("ï", r"\xc3\xaf"), "two tokens, of a byte each"
        assert len(words) < len(text)
    assert_named(shown)
    for layer in shown.recorded:
        total = torch.zeros(layer.graph.num_targets, 2)
        total.index_add_(0, layer.edge_index[1], layer.weights.reshape(-1, 2))
        torch.testing.assert_close(total, torch.ones_like(total), msg="no weight is on padding")
    if name == "Bart":
        assert "".join(shown.target_labels[1:-1]) == "un café", "é is one token"
        assert shown.labels_of(shown.recorded[2]) == (shown.target_labels, shown.labels)
    else:
        assert explain.explanation(model, inputs).labels == shown.labels, "without the tokenizer"


def test_lists_and_slow_tokenizers() -> None:
    model, tool = hugging_face("Bert", "Model"), tokenizer()
    assert explain.explanation(model, tool(TEXT)).labels == TOKENS
    plain = dict(tool(TEXT))
    assert explain.explanation(model, plain).labels == [*"012345"]
    assert explain.explanation(model, plain, tokenizer=tool).labels == TOKENS
    assert explain.explanation(model, plain, labels="abcdef").labels == [*"abcdef"]
    batch = tool([TEXT, "the dull"], return_tensors="pt", padding=True)
    with refused("inputs", expected="one text", got="shape [2, 6]", remedy="at a time"):
        explain.explanation(model, batch)


@pytest.mark.parametrize("name", ["Bart", "T5"])
def test_cross_attention_has_the_tokens_of_both_texts(name: str) -> None:
    model, tool = hugging_face(name, "ForConditionalGeneration"), tokenizer()
    inputs = tool(TEXT, return_tensors="pt", padding="max_length", max_length=8)
    model.generation_config.max_new_tokens = 5
    target = torch.tensor([[1, 6, 4, 3]])
    shown = explain.explanation(model, {**inputs, "decoder_input_ids": target}, tokenizer=tool)
    words = ["<s>", "dull", " film", "the"]
    assert shown.kind == "pair of sequences"
    encoder, decoder, cross = (shown.labels_of(layer) for layer in shown.recorded)
    assert encoder == (TOKENS, TOKENS)
    assert decoder == (words, words)
    assert cross == (words, TOKENS)
    sums = torch.zeros(4, 2).index_add(
        0, shown.recorded[2].edge_index[1], shown.recorded[2].weights.reshape(-1, 2)
    )
    torch.testing.assert_close(sums, torch.ones(4, 2))
    generated = explain.explanation(model, inputs, tokenizer=tool, layers=[2])
    with torch.no_grad():
        expected = model.generate(**inputs)[0, :-1]
    assert len(generated.target_labels) == len(expected)
    assert generated.target_labels[0] == "<s>"
    assert generated.labels_of(generated.recorded[0]) == (generated.target_labels, TOKENS)
    shifted = explain.explanation(model, {**inputs, "labels": target}, tokenizer=tool)
    assert shifted.target_labels == ["<s>", "<s>", "dull", " film"]


def test_sources_of_another_text_have_no_tokens_of_the_targets() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 7, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, is_decoder=True, add_cross_attention=True)
    model = transformers.BertModel._from_config(config, attn_implementation="edgewise").eval()
    ids = torch.arange(1, 6)[None]
    shown = explain.explanation(
        model, {"input_ids": ids, "encoder_hidden_states": torch.randn(1, 5, 16)}, labels="abcde"
    )
    assert shown.labels_of(shown.recorded[0]) == ([*"abcde"], [*"abcde"])
    assert shown.labels_of(shown.recorded[1]) == ([*"abcde"], [*"01234"])


def test_windows_of_transformers_are_refused() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1], "num_heads": [2]}
    config = transformers.SwinConfig(**sizes, window_size=4)
    model = transformers.SwinModel._from_config(config, attn_implementation="edgewise").eval()
    with refused("model", expected="all tokens", got="windows", remedy="huggingface.load"):
        explain.explanation(model, {"pixel_values": torch.randn(1, 3, 16, 16)})


def test_drop_ins_of_pyg_have_nodes_from_0() -> None:
    pytest.importorskip("torch_geometric")
    from edgewise.interop.pyg import GATConv, SAGEConv

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SAGEConv(4, 8), GATConv(8, 3, heads=2)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edge_index).relu(), edge_index)

    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    shown = explain.explanation(Net(), (torch.randn(5, 4), edge_index))
    assert (shown.kind, shown.labels) == ("graph", [*"01234"])
    named = explain.explanation(
        Net(), {"x": torch.randn(5, 4), "edge_index": edge_index}, labels="abcde"
    )
    assert named.labels_of(named.recorded[-1]) == ([*"abcde"], [*"abcde"])


def test_bad_inputs_are_named_before_a_page_is_written() -> None:
    model = models.bert(9, width=8, depth=1, heads=2, ffn_dim=8).eval()
    ids = torch.randint(9, (1, 4))
    with refused("heads", expected="at least one", got="none", remedy="omit heads"):
        explain.explanation(model, ids, heads=[])
    with refused("targets", expected="at least one", got="none", remedy="omit targets"):
        explain.explanation(model, ids, targets=[])
    with refused("layers", expected="from 0 to 0", got="7", remedy="edgewise heads"):
        explain.explanation(model, ids, layers=7)
    with refused("layers", expected="attention.sublayer", got="none", remedy="omit layers"):
        explain.explanation(model, ids, layers=[])
    with refused("labels", expected="each node, 4", got="3 names", remedy="omit labels"):
        explain.explanation(model, ids, labels="abc")
    for empty in (ids[:, :0], ids[:0]):
        with refused("inputs", expected="at least one node", got="0", remedy="not empty"):
            explain.explanation(model, empty)
    with refused("model", expected="attention", got="LSTM", remedy="huggingface.load"):
        explain.explanation(models.lstm(9, width=8).eval(), ids)
    with torch.no_grad():
        model.embedding.tokens.weight[3] = torch.inf
    with refused("weights", expected="finite", got="of 32 weights", remedy="parameters"):
        explain.explanation(model, torch.tensor([[1, 3, 2, 5]]))
