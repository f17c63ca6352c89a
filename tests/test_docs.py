"""What the documents say is so: what is generated is fresh, code runs, links lead somewhere."""

from __future__ import annotations

import argparse
import ast
import doctest
import gzip
import importlib
import importlib.util
import itertools
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import edgewise as ew
from edgewise import encodings, graphs, models
from edgewise.app import runs
from edgewise.app.cli import baseline, commands, heads, main
from edgewise.app.cli.parser import parse
from edgewise.app.kinds import RECIPES, find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import OptimizerSettings, Recipe, RunFolder, TrainerSettings, fit
from edgewise.app.train.text.tokenizer import KINDS
from edgewise.interop import huggingface
from tests.errors import case
from tests.places import needs
from tests.sources import nodes_of

ROOT = Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"docs/reference/((api|models)/.*|commands\.md|recipes\.md)$")
"""Pages that the build of the site writes."""
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if not GENERATED.match(page.relative_to(ROOT).as_posix())
)


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


DRY_RUN = runpy.run_path(str(ROOT / "examples" / "scripts" / "dry_run.py"))


@pytest.mark.parametrize("name", DRY_RUN["ARCHITECTURES"])
def test_every_architecture_of_the_dry_run_computes(name: str) -> None:
    torch.manual_seed(0)
    out = DRY_RUN["ARCHITECTURES"][name]()
    assert out.isfinite().all()
    assert out.std() > 0


def test_the_tables_of_results_are_fresh(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["results.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs" / "results.py"), run_name="__main__")
    assert not ended.value.code, "".join(capsys.readouterr())


def test_the_table_of_architectures_has_a_row_for_every_model() -> None:
    generated = runpy.run_path(str(ROOT / "docs/_ext/generated_pages.py"))
    head, _, *rows = generated["architecture_table"]().splitlines()
    titles = "model", "graph of the attention or messages", "score of an edge"
    titles += "normalisation of the weights, and norm layers", "update of a node"
    assert head == f"| {' | '.join(titles)} |"
    assert [row.split("`")[1] for row in rows] == list(models.MODELS)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}


def test_links_lead_somewhere_and_rows_of_a_table_have_the_cells_of_its_head() -> None:
    """A bar in a cell begins another one, in code as well, unless it is escaped."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            path = (page.parent / target).resolve()
            assert path.exists() or GENERATED.match(name_of(path)), f"{page.name} links to {target}"
        for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(cells) == 1, f"{page.name}: {table.splitlines()[0]}"
        hidden = re.findall(r"^\s*% .*", text, flags=re.MULTILINE)
        assert not hidden, f"{page.name}: a line that begins with % is a comment: {hidden}"


@pytest.mark.slow
@needs("Cora")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sampled_neighbourhoods_train_about_as_well_as_the_whole_graph() -> None:
    pytest.importorskip("torch_geometric")
    example = runpy.run_path(str(ROOT / "examples" / "scripts" / "sampled_neighbours.py"))
    sampled, whole = example["accuracies"]().values()
    assert sampled > 0.75
    assert abs(sampled - whole) < 0.05


# Pages: Python runs from top to bottom in one scope and an empty folder; commands are read.


def blocks(page: str, language: str = "python") -> list[str]:
    """The blocks of code of a page, in their order."""
    text = (ROOT / page).read_text()
    return [
        code
        for kind, code in re.findall(r"^```([^\n`]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if kind == language
    ]


def table_of_molecules(folder: Path) -> None:
    """What the README calls mine.csv."""
    smiles = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "Cl")]
    rows = [f"{one},{-0.3 * len(one)}" for one in smiles]
    (folder / "mine.csv").write_text("\n".join(["smiles,solubility", *rows]) + "\n")


def run_commands(page: str) -> None:
    """Run the first commands of a page, trainings shortened to two epochs."""
    for program, *words in commands_of(blocks(page, "")[0]):
        if program == "edgewise" and "--input" not in words:
            short = ["--trainer.epochs", "2"] if words[0] == "train" else []
            assert main([*words, *short]) == 0


def trained_on_molecules(page: str, folder: Path) -> None:
    """What a page trains on a table of molecules."""
    pytest.importorskip("rdkit")
    pytest.importorskip("lightning")
    table_of_molecules(folder)
    run_commands(page)


def trained_on_series(folder: Path) -> None:
    """What the page trains on ten years of sales."""
    pytest.importorskip("lightning")
    pytest.importorskip("matplotlib")
    rows = [
        f"{2010 + month // 12}-{month % 12 + 1:02}-01,{100 + month + 9 * (month % 12)}"
        for month in range(120)
    ]
    (folder / "sales.csv").write_text("\n".join(["day,sales", *rows]) + "\n")
    run_commands("docs/howto/series.md")


def trained_on_texts(folder: Path) -> None:
    """The run and the file that the page on one's own data begins with."""
    pytest.importorskip("lightning")
    pytest.importorskip("tokenizers")
    rows = [f"{'Loved' if i % 2 else 'Hated'} it, day {i}.\t{i % 2}" for i in range(60)]
    (folder / "reviews.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (folder / "new.csv").write_text("text,by\nLoved it.,ann\n")
    small = ["--model.width", "8", "--model.depth", "1", "--trainer.epochs", "1"]
    assert main(["train", "texts", "--data.path", "reviews.tsv", *small]) == 0


def two_runs(_folder: Path) -> None:
    for name in ("gcn-cora", "gat-cora"):
        assert main(["train", name, "--trainer.epochs", "2"]) == 0


def friends(folder: Path) -> None:
    """An edge list of someone's own."""
    pairs = sorted(
        {(min(a, b), max(a, b)) for a in range(40) for b in ((a * 7 + 3) % 40, (a + 1) % 40)}
    )
    text = "source,target\n" + "".join(f"p{a},p{b}\n" for a, b in pairs if a != b)
    (folder / "friends.csv.gz").write_bytes(gzip.compress(text.encode()))


def checkpoints(folder: Path) -> None:
    """Small models with random weights in the place of published ones, with their vocabularies."""
    transformers = pytest.importorskip("transformers")
    numbers = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = transformers.BertConfig(vocab_size=30522, intermediate_size=8, **numbers)
    transformers.BertForMaskedLM(bert).save_pretrained(folder / "bert-base-uncased")
    classifier = "distilbert-base-uncased-finetuned-sst-2-english"
    transformers.BertForSequenceClassification(bert).save_pretrained(folder / classifier)
    longformer = transformers.LongformerConfig(vocab_size=99, attention_window=[4], **numbers)
    longformer = transformers.LongformerForSequenceClassification(longformer)
    longformer.save_pretrained(folder / "allenai" / "longformer-base-4096")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "to", "fall", "in", "love"]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder / classifier)
    gpt2 = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(gpt2).save_pretrained(folder / "gpt2")
    t5 = transformers.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    transformers.T5ForConditionalGeneration(t5).save_pretrained(folder / "t5-small")


def book(folder: Path) -> None:
    """A text of someone's own."""
    (folder / "book.txt").write_text("it was a dark and stormy night. " * 999)


PREPARED: dict[str, Callable[[Path], None]] = {
    "README.md": partial(trained_on_molecules, "README.md"),
    "docs/howto/molecules.md": partial(trained_on_molecules, "docs/howto/molecules.md"),
    "docs/howto/series.md": trained_on_series,
    "docs/howto/baselines.md": two_runs,
    "docs/howto/huggingface.md": checkpoints,
    "docs/howto/large_graphs.md": friends,
    "docs/howto/text.md": book,
    "docs/howto/your_data.md": trained_on_texts,
}
"""The files that a page's reader is to have."""
PACKAGES = {
    "docs/howto/baselines.md": ["lightning", "scipy", "torch_geometric"],
    "docs/howto/export.md": ["torch_geometric", "transformers"],
    "docs/howto/processes.md": ["lightning", "sklearn"],
    "docs/reference/encodings.md": ["matplotlib"],
    "docs/reference/graphs.md": ["matplotlib"],
    "docs/howto/hugging_face_data.md": ["datasets", "lightning", "transformers", "PIL"],
    "docs/howto/pyg.md": ["torch_geometric"],
    "docs/howto/text.md": ["lightning", "tokenizers"],
    "docs/howto/training.md": ["lightning", "torch_geometric"],
    "docs/howto/typed_graphs.md": ["torch_geometric"],
}
OWN_TEST = {
    "CONTRIBUTING.md": "its blocks are two files, not one program",
    "docs/howto/text.md": "one training is stopped after the first batch, as it takes minutes",
    "docs/howto/images.md": "test_own_graphs_and_images.py runs it after its commands",
    "docs/howto/nodes_and_links.md": "test_own_graphs_and_images.py runs it after its commands",
    "docs/howto/sounds.md": "test_own_graphs_and_images.py runs it after its commands",
    "docs/howto/tables.md": "test_own_graphs_and_images.py runs it after its commands",
    "docs/howto/recommendation.md": "test_own_graphs_and_images.py runs it after its commands",
}
"""Pages that a test of their own runs, and why."""
WITH_PYTHON = [name_of(p) for p in PAGES if "```python" in p.read_text()]


def run_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the names of a page mean after its last line."""
    for package in PACKAGES.get(page, []):
        pytest.importorskip(package)
    monkeypatch.chdir(folder)
    PREPARED.get(page, lambda _folder: None)(folder)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for number, code in enumerate(blocks(page)):
        exec(compile(code, f"{page}, block {number + 1}", "exec"), module.__dict__)
    return vars(module)


@pytest.mark.slow(
    "docs/howto/baselines.md",
    "docs/howto/explain.md",
    "docs/howto/export.md",
    "docs/howto/hugging_face_data.md",
    "docs/howto/huggingface.md",
    "docs/howto/molecules.md",
    "docs/howto/one_graph.md",
    "docs/howto/processes.md",
    "docs/howto/series.md",
    "docs/howto/training.md",
    "docs/howto/your_data.md",
    "docs/reference/engines.md",
)
@pytest.mark.parametrize("page", [page for page in WITH_PYTHON if page not in OWN_TEST])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of other libraries
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = run_page(page, tmp_path, monkeypatch)
    check = CHECKS.get(page)
    if check:
        check(scope, tmp_path)


def check_encodings(scope: dict[str, Any], folder: Path) -> None:
    assert scope["added"].shape == scope["biased"].shape == (10, 32)
    assert (folder / "alibi.png").exists()


def check_graphs(scope: dict[str, Any], folder: Path) -> None:
    assert scope["graph"].num_edges == 100
    assert (folder / "picture.png").exists()
    assert scope["both"].bind(6).dense()[5].tolist() == [False, True, False, False, True, True]


LOADS_WITHOUT_EDGEWISE = """
import sys, torch
for name, given in (("bert", torch.zeros(2, 12).long()), ("ring", torch.zeros(4, 8))):
    assert torch.jit.load(f"{name}.torchscript")(given).isfinite().all()
assert "edgewise" not in sys.modules
"""


def check_export(scope: dict[str, Any], folder: Path) -> None:
    model, ids, x = scope["model"], scope["input_ids"], scope["x"]
    with torch.no_grad():
        wanted, on_ring = model(ids), scope["on_ring"](x)
        theirs = scope["bert"](ids).last_hidden_state
        torch.testing.assert_close(scope["on_window"](ids), theirs)
        plain = huggingface.load(folder / "mine").eval()(ids)
        torch.testing.assert_close(scope["back"](ids).last_hidden_state, plain)
    assert not torch.allclose(theirs, plain)
    for same in (scope["again"].eval()(ids), scope["states"], scope["exported"]):
        torch.testing.assert_close(same, wanted)
    torch.testing.assert_close(torch.jit.load(folder / "bert.torchscript")(ids), wanted)
    torch.testing.assert_close(torch.jit.load(folder / "ring.torchscript")(x), on_ring)
    with pytest.raises(RuntimeError):
        scope["traced"](ids[:1, :7])
    subprocess.run([sys.executable, "-c", LOADS_WITHOUT_EDGEWISE], cwd=folder, check=True)


def check_processes(_scope: dict[str, Any], folder: Path) -> None:
    """The script of the page is started by torchrun, as the page says."""
    (folder / "train.py").write_text(blocks("docs/howto/processes.md")[0])
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"]
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    assert (folder / "runs/script/metrics.json").is_file()


def check_one_graph(_scope: dict[str, Any], folder: Path) -> None:
    """Two processes print the losses of one."""
    (folder / "train_graph.py").write_text(blocks("docs/howto/one_graph.md")[0])
    losses = []
    for count in ("1", "2"):
        words = ["-m", "torch.distributed.run", "--nproc-per-node", count, "train_graph.py"]
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        losses.append(done.stdout.splitlines()[:3])
        assert done.stdout.splitlines()[3].split()[:2] == ["process", "targets"]
    assert losses[0] == losses[1]
    assert losses[0][0].startswith("loss 1.2")


def check_hugging_face(scope: dict[str, Any], _folder: Path) -> None:
    assert scope["scores"].shape == (1, 4, 30522)
    assert scope["states"].shape == (1, 2000, 8)


def check_hugging_face_data(scope: dict[str, Any], _folder: Path) -> None:
    for metrics in ("metrics", "of_texts", "of_images"):
        assert scope[metrics]["test/accuracy"] > 0.8


def check_training(scope: dict[str, Any], folder: Path) -> None:
    assert scope["metrics"]["test/accuracy"] > 0.8
    for name in ("mine", "rings"):
        assert (folder / "runs" / name / "metrics.json").is_file()
    assert scope["module"].measured["val/accuracy"] > 0.5
    for model in (scope["in_a_loop"], scope["by_lightning"].model):
        joined = next(iter(scope["GraphLoader"](scope["rings"], batch_size=64)))
        with torch.no_grad():
            scores = model.eval()(joined.x, graphs.from_pyg(joined), batch=joined.batch.bincount())
        assert (scores.argmax(1) == joined.y).float().mean() > 0.8
    ones = DataLoader(TensorDataset(torch.ones(4, 8), torch.ones(4, 1)))
    metrics = fit(
        torch.nn.Linear(8, 1),
        scope["Relative"](),
        {"train": ones, "val": ones, "test": ones},
        RunFolder(folder / "runs" / "relative"),
        optimizer=OptimizerSettings(lr=0.01),
        trainer=TrainerSettings(epochs=2, monitor="val/mape", mode="min"),
    )
    assert metrics["test/mape"] < 5


def check_own_data(scope: dict[str, Any], _folder: Path) -> None:
    assert [len(answer["top"]) for answer in scope["answers"]] == [2, 2]
    assert scope["rows"][0]["by"] == "ann"
    assert {"text", "by", "predicted_label", "label"} >= set(scope["frame"]) - {"probability"}
    assert scope["frame"]["by"].tolist() == ["ann"]
    assert scope["metrics"]["test/accuracy"] >= 0


CHECKS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "docs/howto/export.md": check_export,
    "docs/howto/one_graph.md": check_one_graph,
    "docs/howto/processes.md": check_processes,
    "docs/reference/encodings.md": check_encodings,
    "docs/reference/graphs.md": check_graphs,
    "docs/howto/huggingface.md": check_hugging_face,
    "docs/howto/hugging_face_data.md": check_hugging_face_data,
    "docs/howto/training.md": check_training,
    "docs/howto/your_data.md": check_own_data,
}


def test_the_readme_primitive_runs() -> None:
    """Apart from the page, whose first block needs a trained run."""
    (code,) = [code for code in blocks("README.md") if "ew.attend" in code]
    scope: dict[str, Any] = {}
    exec(code, scope)
    given = [scope[name] for name in ("query", "key", "value")]
    shown = {"sentence": graphs.complete(), "decoder": graphs.causal()}
    shown["longformer"] = graphs.window(64) | graphs.hubs([0])
    for name, graph in shown.items():
        expected = ew.attend(*given, graph, engine="dense")
        torch.testing.assert_close(scope[name], expected)
    assert scope["weighted"].isfinite().all()


WITH_EXAMPLES = [
    path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
    for path in sorted(ROOT.glob("src/**/*.py"))
    if re.search(r"^ *>>> (?!.*doctest: \+SKIP)", path.read_text(), re.MULTILINE)
]
"""Modules with an example in a docstring that needs no trained run."""


EXAMPLES_NEED = {
    "baselines": ["sklearn"],
    "data": ["pandas", "sklearn", "tokenizers"],
    "data.molecules": ["rdkit"],
    "encodings.drawing": ["matplotlib"],
    "explain": ["matplotlib"],
    "explain.influence": ["networkx"],
    "inference": ["lightning", "sklearn"],
    "interop.huggingface": ["transformers"],
    "interop.pyg": ["torch_geometric"],
    "runs": ["lightning", "sklearn"],
    "tasks": ["torchmetrics"],
    "base_task": ["torchmetrics"],
    "training": ["lightning"],
}
"""Packages that the examples of a package or module need."""


@pytest.mark.slow("edgewise.app.runs.run", "edgewise.app.runs.train_recipe")
@pytest.mark.parametrize("module", WITH_EXAMPLES)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_the_examples_of_docstrings_run(module: str) -> None:
    """Each example imports what it uses."""
    for prefix, packages in EXAMPLES_NEED.items():
        if f"{module}.".startswith(f"edgewise.{prefix}."):
            for package in packages:
                pytest.importorskip(package)
    found = doctest.testmod(importlib.import_module(module), globs={})
    assert found.attempted
    assert not found.failed


def test_pages_name_all_that_there_is() -> None:
    texts = {name_of(page): page.read_text() for page in PAGES}
    for name in encodings.ENCODINGS:
        assert f"| `{name}` |" in texts["docs/reference/encodings.md"], name
    for kind in huggingface.FAMILIES:
        assert f"`{kind}`" in texts["docs/howto/huggingface.md"], kind
    for kind in KINDS:
        assert f"| `{kind}` |" in texts["docs/howto/text.md"], kind


def test_the_worked_examples_of_contributing_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pattern = blocks("CONTRIBUTING.md")
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)
    exec(model, example.__dict__)
    exec(pattern, example.__dict__)
    out = example.graphsage(5, 3)(torch.randn(4, 5), graphs.window(1))
    assert out.shape == (4, 3)
    reads = [[j <= i and (i - j) % 2 == 0 for j in range(5)] for i in range(5)]
    assert example.Strided(2).bind(5).dense().tolist() == reads


@pytest.mark.slow
def test_the_code_of_the_text_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    train = runs.train

    def train_or_prepare(recipe: Recipe, folder: Path) -> Any:
        if recipe.name != "gpt-mine":
            return train(recipe, folder)
        return prepared.append(prepare(recipe))

    monkeypatch.setattr(runs, "train", train_or_prepare)
    scope = run_page("docs/howto/text.md", tmp_path, monkeypatch)
    model, splits = prepared[0]
    batch = next(iter(splits.loaders(0)["train"]))
    text = (tmp_path / "book.txt").read_text()
    assert model(*batch.inputs).shape == (12 * 64, len(set(text)))
    assert scope["sizes"].tolist() == [4, 7]
    assert [len(answer["top"]) for answer in scope["answers"]] == [2, 2]
    torch.testing.assert_close(scope["same"], scope["model"](scope["batch"]))


def commands_of(block: str) -> list[list[str]]:
    """The words of each command; settings of the environment before it are left out."""
    lines = block.replace("\\\n", "").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [list(itertools.dropwhile(re.compile(r"[A-Z_]+=").match, w)) for w in words if w]


def commands_in_text(text: str) -> str:
    """A line for each command that stands in a sentence or a table, with all its words."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text))
    gaps = re.compile(
        r"\.\.\.|--help|\b(NAME|WORD|DIR|CALL|INPUT|FOLDER|RECIPE|RUN_DIR)\b|train --"
    )
    named = [span for span in spans if re.match(r"(edgewise|python) \S+ |make [a-z-]+$", span)]
    return "\n".join(span for span in named if not gaps.search(span))


COMMANDS = {
    name: [
        command
        for block in [
            *blocks(name, ""),
            *blocks(name, "sh"),
            commands_in_text(page.read_text()),
        ]
        for command in commands_of(block)
        if command
    ]
    for page in PAGES
    for name in [name_of(page)]
    if page.name != "own_recipes.md"  # test_plugins.py runs its commands with their package
}
CHEAP = ("list", "show", "doctor")
"""They take no time. The others are read by the parser, and their recipes and fields found."""


@pytest.mark.slow(after=11)
@pytest.mark.parametrize("page", [name for name, commands in COMMANDS.items() if commands])
def test_the_commands_of_a_page_are_valid(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[page]:
        monkeypatch.setenv("EDGEWISE_IMPORT", "")
        with case(shlex.join(command)):
            check_command(*command, capsys=capsys)


def test_the_first_page_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader runs its cells and its commands in one folder; trainings take one epoch here."""
    for package in ("lightning", "tokenizers", "sklearn", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/start.md").read_text()
    scope: dict[str, Any] = {}
    for kind, code in re.findall(r"^```(\S.*?)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if kind == "{code-cell} python":
            exec(re.sub(r"^:tags:.*", "", code).replace('"40"', '"1"'), scope)
        elif "train" in code:
            assert kind == "sh"
            (command,) = commands_of(code)
            assert main([*command[1:], "--trainer.epochs", "1"]) == 0
    for command in commands_of(commands_in_text(text)):
        assert main(command[1:]) == 0, capsys.readouterr().err
    assert {"predictions.csv", "page.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_model_of_the_first_page_needs_its_transformer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page shows decides: noise instead of the layers changes the answers, and the name of
    the winner is the strongest reason.
    """
    for package in ("lightning", "tokenizers"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/start.md").read_text()
    cells = re.findall(r"^```{code-cell} python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {}
    for code in cells:
        if "csv.writer" in code or "runs.train" in code:
            exec(re.sub(r"^:tags:.*", "", code), scope)
    run = ew.load("runs/matches")
    texts = [f"{a} {verb} {b}." for a, b in (("Anna", "Ben"), ("Emma", "Carla")) for verb in VERBS]
    texts += [f"{b} {verb} {a}." for a, b in (("Anna", "Ben"), ("Emma", "Carla")) for verb in VERBS]
    labels = [answer["label"] for answer in run.predict(texts)]
    assert labels == ["Anna", "Ben", "Emma", "Carla", "Ben", "Anna", "Carla", "Emma"]
    for label, why in zip(labels, run.explain(texts), strict=True):
        assert why.reasons[0].part.capitalize() == label
        assert why.reasons[0].contribution > 0
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in run.model.trunk.backbone.parameters():
            weight.copy_(weight.std() * torch.randn_like(weight))
    changed = [answer["label"] for answer in run.predict(texts)]
    assert sum(a != b for a, b in zip(labels, changed, strict=True)) >= 3


VERBS = ("beat", "lost to")
CHANGES = {"seed": "3", "trainer.epochs": "2", "trainer.monitor": "val/loss"}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", RECIPES)
def test_printed_commands_train_the_recipe_of_the_run(name: str, tmp_path: Path) -> None:
    """`suggest` and the comparison with baselines print commands, which give the same recipe."""
    recipe = runs.with_values(find(name), CHANGES)
    fields = {field: about.value for field, about in runs.fields_of(recipe).items()}
    graph = {"model.graph": "window(3) | hubs([0])"} if "model.graph" in fields else {}
    where, line = heads._training(recipe, graph, tmp_path / "a run")
    assert not where
    for text, changed in ((line, fields), (baseline.command("train", recipe), {})):
        words = shlex.split(text)
        assert words[0] == "edgewise"
        arguments = parse(words[1:])
        again = commands._recipe(arguments)
        values = {field: about.value for field, about in runs.fields_of(again).items()}
        differing = {field for field in changed if values[field] != fields[field]}
        assert differing <= set(graph)
        assert values["seed"] == 3
        assert values["trainer.monitor"] == "val/loss"
    check_command(*shlex.split(baseline.command("baseline", recipe)))


def strings_of(source: Path) -> Iterator[str]:
    """The strings of a module, docstrings too; "NAME" replaces the values in f-strings."""
    nodes = nodes_of(source)
    parts = {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            values = (v.value if isinstance(v, ast.Constant) else "NAME" for v in node.values)
            yield "".join(map(str, values))
        elif isinstance(node, ast.Constant) and id(node) not in parts:
            yield str(node.value)


def test_the_commands_in_errors_and_docstrings_are_valid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = set()
    for source in sorted((ROOT / "src").rglob("*.py")):
        for text in strings_of(source):
            for command in commands_of(commands_in_text(text)):
                seen.add(command[1])
                with case(f"{source.name}: {shlex.join(command)}"):
                    check_command(*command, capsys=capsys)
    assert {"train", "list"} <= seen


def check_command(
    program: str, *words: str, capsys: pytest.CaptureFixture[str] | None = None
) -> None:
    """Run a cheap command; check the words of any other."""
    if program == "edgewise":
        if capsys and words[0] in CHEAP and not any("mypatterns" in word for word in words):
            assert main([*words]) == 0
            assert capsys.readouterr().out
            return
        arguments = parse([*words])
        if "recipe" in arguments:
            check_fields(arguments)
    elif program == "python":
        known = "".join(file.read_text() for file in sources_of([*words]))
        options = [word for word in words[1:] if word.startswith("--")]
        for option in (option for option in options if "." not in option):  # Others: a recipe's.
            assert f'"{option}"' in known, option
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets
    else:
        assert program in ("pip", "zcat")
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(.*?)\]", " ".join(words)):
            assert set(extra.split(",")) <= set(known["optional-dependencies"])


def sources_of(words: list[str]) -> list[Path]:
    """The files of what `python` is to run, in which its options are named."""
    if words[0] != "-m":
        return [ROOT / words[0]]
    found = importlib.util.find_spec(words[1])
    assert found is not None, words[1]
    assert found.origin is not None
    origin = Path(found.origin)
    return sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]


def test_every_kind_of_own_data_has_a_command_that_there_is() -> None:
    page = (ROOT / "docs/howto/your_data.md").read_text()
    trained = set()
    for line in re.findall(r"`edgewise ((?:train|predict) .*?)`", page):
        arguments = parse(shlex.split(line))
        if arguments.command == "train":
            trained.add(arguments.recipe)
            check_fields(arguments)
        elif arguments.command == "predict":
            assert arguments.folder.name in trained
    kinds = "molecules texts tags pairs writing images sounds nodes gat-enzymes links interactions"
    assert trained == {*kinds.split(), "series", "tables", "triples"}


def check_fields(arguments: argparse.Namespace) -> None:
    """The recipe has these fields, and they take these values."""
    recipe = find(arguments.recipe)
    if model := getattr(arguments, "model", None):
        recipe = runs.with_values(recipe, {"model": model})
    given = {name: value for name, value in arguments.fields.items() if "mypatterns" not in value}
    runs.with_values(recipe, given)
    for value in getattr(arguments, "values", []):
        runs.with_values(recipe, {arguments.field: value})
    assert set(arguments.fields) <= set(runs.fields_of(recipe))


@pytest.mark.slow
def test_the_own_data_path_of_the_readme_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trained_on_molecules("README.md", tmp_path)
    assert "solubility" in capsys.readouterr().out
    (answer,) = ew.load("runs/mine").predict(["CCO"])
    assert isinstance(answer["solubility"], float)


def test_the_readme_names_the_commands_for_a_fresh_machine() -> None:
    assert {("make", "demo"), ("make", "test")} <= set(map(tuple, COMMANDS["README.md"]))


def test_the_demo_of_the_readme_is_what_make_demo_runs() -> None:
    """The table has the Makefile's graphs, with the edges that they have on eight digits."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (line,) = [line for line in makefile.splitlines() if "edgewise compare" in line]
    words = shlex.split(line.replace("$(WORKERS)", "2"))
    arguments = parse(words[words.index("compare") :])
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| `([^`]*\))` \| ([\d.]+) \| [\d.]+ ± [\d.]+ % \|$", text, re.MULTILINE)
    assert [graph.replace("\\|", "|") for graph, _ in rows] == arguments.values
    for graph, edges in rows:
        bound = graphs.parse(graph.replace("\\|", "|")).bind(8)
        assert f"{bound.num_edges / 8:.2f}" == edges


@pytest.mark.slow
@needs("tinyshakespeare")
def test_the_loss_of_a_unigram_model_is_that_of_the_page() -> None:
    loaders = find("gpt-shakespeare").data.load().loaders(0)
    train, test = (
        torch.cat([batch.target.flatten() for batch in loaders[split]])
        for split in ("train", "test")
    )
    counts = torch.bincount(train, minlength=int(test.max()) + 1).double() + 1
    loss = -(counts / counts.sum()).log()[test].mean()
    page = (ROOT / "docs/background/adaptive.md").read_text()
    assert f"A unigram model\nhas a test loss of {loss:.2f} nats." in page


OPENING = re.compile(r"(What|Whether|How|Who|Whom|Which|Of|By|So|Where|As|Without|With)\b")
"""A docstring that opens with these words does not say at once what the object is or does."""


def unclear_openings(source: Path) -> list[bool]:
    """Return for each docstring whether it opens with an interrogative or a preposition."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in nodes_of(source) if isinstance(node, kinds))
    texts = filter(None, map(ast.get_docstring, nodes))
    return [OPENING.match(text) is not None for text in texts]


def test_docstrings_open_with_what_the_object_is_or_does() -> None:
    """Fewer than 1 % open with an interrogative or a preposition; scikit-learn has 0.1 %."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/edgewise_examples/**/*.py")]
    found = {path.name: unclear_openings(path) for path in sorted(files)}
    unclear = [name for name, several in found.items() if any(several)]
    share = sum(map(sum, found.values())) / sum(map(len, found.values()))
    assert share < 0.01, f"{share:.1%}, in {', '.join(unclear)}"


def test_openings_of_docstrings_are_found(tmp_path: Path) -> None:
    source = '"""How it works."""\ndef f():\n    """Return 1."""\nclass A:\n    """Which?"""\n'
    (tmp_path / "code.py").write_text(source)
    assert unclear_openings(tmp_path / "code.py") == [True, False, True]
