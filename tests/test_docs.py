"""What the documents say is so: what is generated is fresh, code runs, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import edgewise as ew
from edgewise import encodings, graphs, recipes, runs, training
from edgewise.cli.parser import parse
from edgewise.data.text.tokenizer import KINDS
from edgewise.interop import huggingface
from edgewise.runs.train_recipe import prepare
from tests.places import needs

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
DRY_RUN = runpy.run_path(str(ROOT / "examples" / "dry_run.py"))


@pytest.mark.parametrize("name", DRY_RUN["ARCHITECTURES"])
def test_every_architecture_of_the_dry_run_computes(name: str) -> None:
    torch.manual_seed(0)
    out = DRY_RUN["ARCHITECTURES"][name]()
    assert out.isfinite().all()
    assert out.std() > 0


@pytest.mark.parametrize("script", ["generate.py", "results.py"])
def test_what_is_generated_is_fresh(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of architectures, and results of the recipes as they are."""
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs" / script), run_name="__main__")
    assert not ended.value.code, "".join(capsys.readouterr())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@needs("Cora")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sampled_neighbourhoods_train_about_as_well_as_the_whole_graph() -> None:
    pytest.importorskip("torch_geometric")
    example = runpy.run_path(str(ROOT / "examples" / "sampled_neighbours.py"))
    sampled, whole = example["accuracies"]().values()
    assert sampled > 0.75
    assert abs(sampled - whole) < 0.05


def test_the_readme_primitive_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    given = [scope[name] for name in ("query", "key", "value")]
    shown = {"sentence": graphs.complete(), "decoder": graphs.causal()}
    shown["longformer"] = graphs.window(64) | graphs.hubs([0])
    for name, graph in shown.items():
        expected = ew.attend(*given, graph, engine="dense")
        torch.testing.assert_close(scope[name], expected)
    assert scope["weighted"].isfinite().all()


def test_the_worked_examples_of_contributing_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    model, pattern, _, signs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)
    exec(model, example.__dict__)
    exec(pattern, example.__dict__)
    out = example.graphsage(5, 3)(torch.randn(4, 5), graphs.window(1))
    assert out.shape == (4, 3)
    reads = [[j <= i and (i - j) % 2 == 0 for j in range(5)] for i in range(5)]
    assert example.Strided(2).bind(5).dense().tolist() == reads
    exec(signs, example.__dict__)
    loaders = example.Signs().load().loaders(0)
    assert [sum(len(b.target) for b in loaders[k]) for k in loaders] == [200, 50, 50]
    batch = next(iter(loaders["train"]))
    assert torch.equal(batch.inputs[0].prod(-1) > 0, batch.target == 1)


def test_the_code_of_the_encodings_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "encodings.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    assert scope["added"].shape == scope["biased"].shape == (10, 32)
    assert (tmp_path / "alibi.png").exists()
    for name in encodings.ENCODINGS:
        assert f"| `{name}` |" in page, name


def test_the_code_of_the_hugging_face_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    numbers = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=9, intermediate_size=8, **numbers)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "bert-base-uncased")
    llama = transformers.LlamaConfig(vocab_size=9, intermediate_size=8, **numbers)
    t5 = transformers.T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    monkeypatch.chdir(tmp_path)
    ids = torch.randint(3, 9, (2, 6))
    scope: dict[str, object] = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "prompts": ids,
        "source_ids": ids,
        "source_mask": None,
        "start": torch.zeros(2, 1, dtype=torch.long),
        "eos": 2,
        "pad": 0,
        "t5": huggingface.load(transformers.T5ForConditionalGeneration(t5)),
    }
    page = (ROOT / "docs" / "huggingface.md").read_text()
    loading, writing = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(loading, scope)
    assert scope["scores"].shape == (2, 6, 9)
    scope["model"] = huggingface.load(transformers.LlamaForCausalLM(llama))
    exec(writing, scope)
    for kind in huggingface.FAMILIES:
        assert f"`{kind}`" in page, kind


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of a Trainer's own
def test_the_code_of_the_training_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("torch_geometric")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "training.md").read_text()
    own, rings, task, trainer = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, object] = {}
    exec(own, scope)
    assert scope["metrics"]["test/accuracy"] > 0.8
    assert (tmp_path / "runs" / "mine" / "metrics.json").is_file()
    exec(rings, scope)
    assert scope["metrics"]["test/accuracy"] > 0.8
    exec(task, scope)
    exec(trainer, scope)
    assert scope["module"].measured["val/accuracy"] > 0.5
    relative = scope["Relative"]()
    ones = DataLoader(TensorDataset(torch.ones(4, 8), torch.ones(4, 1)))
    loaders = {"train": ones, "val": ones, "test": ones}
    metrics = training.fit(
        torch.nn.Linear(8, 1),
        relative,
        loaders,
        training.RunFolder(tmp_path / "runs" / "relative"),
        optimizer=training.Optimizer(lr=0.01),
        trainer=training.TrainerSettings(epochs=2, monitor="val/mape", better="lower"),
    )
    assert metrics["test/mape"] < 5


def test_the_code_of_the_text_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    book = "it was a dark and stormy night. " * 999
    (tmp_path / "book.txt").write_text(book)
    prepared = []
    monkeypatch.setattr(runs, "train", lambda recipe, _: prepared.append(prepare(recipe)))
    page = (ROOT / "docs" / "text.md").read_text()
    training, tokens, packed = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(training, {})
    model, splits = prepared[0]
    assert model(*next(iter(splits.loaders(0)["train"])).inputs).shape == (12 * 64, len(set(book)))
    scope: dict[str, object] = {}
    exec(tokens, scope)
    assert scope["sizes"].tolist() == [4, 7]
    exec(packed, scope)
    torch.testing.assert_close(scope["same"], scope["model"](scope["batch"]))
    for kind in KINDS:
        assert f"| `{kind}` |" in page, kind
    for named in re.findall(r"edgewise train ([\w-]+)", page):
        assert named in recipes.RECIPES


def test_the_page_on_your_own_texts_runs_and_names_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "texts.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert {answer["label"] for answer in scope["answers"]} <= {"good", "bad"}
    for line in re.findall(r"^edgewise (?:train|predict) .*", page, re.MULTILINE):
        command, fields = parse(shlex.split(line)[1:])
        if command.command == "train":
            runs.with_values(recipes.find(command.recipe), fields)
