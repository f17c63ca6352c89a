"""Links by relation: ranks, files, splits, batches without the answer, predictions, baselines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("lightning")
import edgewise
from edgewise._utils.errors import Interrupted
from edgewise.app.cli import main
from edgewise.app.files.edges import read_relations
from edgewise.app.kinds import find
from edgewise.app.kinds.triples import WN18RR, TripleFiles, TriplePrediction
from edgewise.app.kinds.triples.baseline import rules
from edgewise.app.kinds.triples.data import both_questions, triple_graph
from edgewise.app.kinds.triples.metrics import FilteredHits, FilteredMRR, ranks
from edgewise.app.runs import baselines, train, with_values
from edgewise.app.train import Batch
from edgewise.models import triple_predictor
from tests.app.train.test_resume import assert_same, break_at, ctrl_c
from tests.errors import case, refused
from tests.places import needs

PEOPLE = 30
SMALL = {"model.width": 16, "trainer.epochs": 12, "optimizer.lr": 0.05}
SMALL |= {"trainer.accelerator": "cpu", "trainer.save_every": 0, "model.dropout": 0.0}


def rows() -> list[tuple[str, str, str]]:
    """People of five towns: each triple with a town is there in both directions."""
    return [
        triple
        for i in range(PEOPLE)
        for triple in (
            (f"p{i}", "lives in", f"t{i % 5}"),
            (f"t{i % 5}", "has inhabitant", f"p{i}"),
            (f"p{i}", "knows", f"p{(i + 5) % PEOPLE}"),
        )
    ]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = ["head,relation,tail", *(",".join(row) for row in rows())]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "mine.csv"


def slow_ranks(outputs: Tensor, target: Tensor) -> list[float]:
    ranked = []
    for scores, columns in zip(outputs.tolist(), target.tolist(), strict=True):
        rivals = [s for i, s in enumerate(scores) if i not in columns]
        own = scores[columns[0]]
        ranked.append(1 + sum(s > own for s in rivals) + sum(s == own for s in rivals) / 2)
    return ranked


def test_ranks_are_those_of_each_answer_alone() -> None:
    torch.manual_seed(0)
    outputs = torch.randint(6, (50, 20)).float()
    target = torch.stack([torch.randperm(20)[:4] for _ in range(50)])
    target[:, 2:][torch.rand(50, 2) < 0.5] = -1
    assert ranks(outputs, target).tolist() == slow_ranks(outputs, target)


def test_a_constant_or_undefined_score_has_no_good_rank() -> None:
    target = torch.tensor([[3], [0]])
    for value in (0.0, float("nan")):
        assert ranks(torch.full((2, 101), value), target).tolist() == [51, 51]
    mrr, hits = FilteredMRR(), FilteredHits(10)
    for metric in (mrr, hits):
        metric.update(torch.zeros(2, 101), target)
    assert float(mrr.compute()) == pytest.approx(1 / 51)
    assert float(hits.compute()) == 0


def test_the_loss_leaves_out_other_right_answers() -> None:
    task, scores = TriplePrediction(), torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0]])
    target = torch.tensor([[0, 3, 1], [2, -1, -1]])
    expected = [
        torch.tensor([1.0, 3.0]).log_softmax(0)[0],
        torch.tensor([0.0, 1.0, 2.0, 3.0]).log_softmax(0)[2],
    ]
    torch.testing.assert_close(task.loss(scores, target), -torch.stack(expected).mean())


def named(splits: Any, triples: Tensor) -> set[tuple[str, str, str]]:
    ids, relations = splits.preprocessing["ids"], splits.preprocessing["relations"]
    return {(ids[h], relations[r], ids[t]) for h, r, t in triples.T.tolist()}


def test_files_in_every_form(path: Path) -> None:
    expected = set(rows())
    tab = path.with_name("mine.tsv")
    tab.write_text("\n".join("\t".join(row) for row in rows()))
    triples = path.with_name("mine.nt")
    triples.write_text("\n".join(f"<{h}> <{r.replace(' ', '_')}> <{t}> ." for h, r, t in rows()))
    other = path.with_name("other.csv")
    other.write_text("\n".join(["o,year,s,p", *(f"{t},1,{h},{r}" for h, r, t in rows())]))
    for name, options in (
        ("mine.csv", {}),
        ("mine.tsv", {}),
        ("mine.nt", {}),
        ("other.csv", {"head": "s", "relation": "p", "tail": "o"}),
        ("other.csv", {"head": "3", "relation": "4", "tail": "1", "header": False}),
    ):
        with case((name, options)):
            splits = TripleFiles(path=name, **options).load()
            known = named(splits, splits.preprocessing["known"])
            same = {(h, r.replace("_", " "), t) for h, r, t in known}
            assert same - {("s", "p", "o")} == expected


def test_damaged_files_are_refused(path: Path) -> None:
    wrong = path.with_name("wrong.csv")
    for text, options, argument, words in (
        ("a,b\nc,d\n", {}, "wrong.csv", ("head, relation and tail", "a,b", "line")),
        ("head,tail\nc,d\n", {}, "data.relation", ("columns head", "head, tail", "--data.rel")),
        ("head,relation,tail\na,,b\n", {}, "wrong.csv", ("a relation", "a,,b", "line")),
        ("head,relation,tail\na,r,\n", {}, "wrong.csv", ("an id", "a,r,", "line")),
        ("head,relation,tail\na,r\n", {}, "wrong.csv", ("3 columns", "a,r", "line")),
        ("head,relation,tail\na,r,b\n", {"head": "he"}, "data.head", ("head", "he", "head")),
        ("# Nothing.\n", {}, "wrong.csv", ("at least one edge", "none", "edge")),
    ):
        wrong.write_text(text)
        expected, got, remedy = words
        with case(text), refused(argument, expected=expected, got=got, remedy=remedy):
            read_relations("wrong.csv", **options)


def test_files_of_all_splits(path: Path) -> None:
    for name, text in (
        ("train.csv", "a,r,b\nb,r,c\na,s,c\n"),
        ("val.csv", "a,r,c\n"),
        ("test.csv", "c,s,d\n"),
    ):
        path.with_name(name).write_text(text)
    files = {"path": "train.csv", "val_path": "val.csv", "test_path": "test.csv", "header": False}
    splits = TripleFiles(**files).load()
    assert splits.model_arguments == {"num_nodes": 4, "relations": 4}
    batch = splits.test.make(torch.arange(2))
    ids = splits.preprocessing["ids"]
    assert [ids[node] for node in batch.inputs[0][0]] == ["c", "d"]
    assert [ids[column] for column in batch.target[:, 0]] == ["d", "c"]
    path.with_name("val.csv").write_text("a,q,c\n")
    with refused("val.csv", expected="relations of the training", got="'q'", remedy="remove"):
        TripleFiles(**files).load()
    path.with_name("val.csv").write_text("a,r,b\n")
    with refused("val.csv", expected="no triple of the files", got="1 triple", remedy="remove"):
        TripleFiles(**files).load()
    with refused("test.csv", expected="no triple of the files", got="1 triple", remedy="remove"):
        TripleFiles(**{**files, "val_path": "test.csv"}).load()
    with refused("data.val_path, data.test_path", expected="both", got="val", remedy="both"):
        TripleFiles(path="train.csv", val_path="val.csv")


def parts(splits: Any) -> dict[str, set[tuple[str, str, str]]]:
    """Return the triples of each split, from its questions about tails and about heads."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    relations = splits.model_arguments["relations"] // 2
    for name in ("val", "test"):
        split = getattr(splits, name)
        batch = split.make(torch.arange(split.count))
        (node, relation), right = batch.inputs[0], batch.target[:, 0]
        triples = torch.stack([node, relation, right])
        back = triples[[2, 1, 0]] - torch.tensor([[0], [relations], [0]])
        half = split.count // 2
        assert torch.equal(triples[:, :half], back[:, half:])
        found[name] = named(splits, triples[:, :half])
    graph = splits.val.make(torch.zeros(1, dtype=torch.long)).inputs[2]
    forward = graph.edge_type < relations
    triples = torch.stack([graph.source, graph.edge_type, graph.target])[:, forward]
    return {"train": named(splits, triples), **found}


def test_each_entity_and_relation_is_trained(path: Path) -> None:
    splits = TripleFiles(path=str(path), val=0.2, test=0.3).load()
    found = parts(splits)
    assert sum(map(len, found.values())) == len(set(rows()))
    assert set().union(*found.values()) == set(rows())
    assert len(found["val"]) == 18
    assert len(found["test"]) == 27
    trained = found["train"]
    assert {r for _, r, _ in trained} == {r for _, r, _ in rows()}
    ends = {end for head, _, tail in trained for end in (head, tail)}
    assert len(ends) == splits.model_arguments["num_nodes"]


def test_batches_ask_for_triples_that_pass_no_messages(path: Path) -> None:
    splits = TripleFiles(path=str(path), batch_size=8, negatives=6).load()
    relations = splits.model_arguments["relations"] // 2
    asked = set()
    loader = splits.loaders(0)["train"]
    for batch in loader:
        (node, relation), sample, graph = batch.inputs
        right = batch.keywords["positives"]
        assert len(sample) == 6
        assert not batch.target.any()
        messages = set(zip(graph.source.tolist(), graph.edge_type.tolist(), graph.target.tolist(),
                           strict=True))  # fmt: skip
        questions = list(zip(node.tolist(), relation.tolist(), right.tolist(), strict=True))
        assert not messages & set(questions)
        assert len(messages) + len(questions) == 2 * splits.train.count
        asked |= {q for q in questions if q[1] < relations}
    assert len(asked) == splits.train.count
    everything = TripleFiles(path=str(path), negatives=0).load().train.make(torch.arange(3))
    assert len(everything.inputs[1]) == splits.model_arguments["num_nodes"]
    assert everything.target.shape == (6, 1)


def test_an_evaluation_computes_the_states_once(path: Path, monkeypatch: Any) -> None:
    splits = TripleFiles(path=str(path)).load()
    model = triple_predictor(**splits.model_arguments, width=8).eval()
    calls: list[object] = []
    embed = model.embed
    monkeypatch.setattr(model, "embed", lambda *args: calls.append(args) or embed(*args))
    loader = splits.val.loader(batch_size=5, seed=None)
    expected = [model(*batch.inputs) for batch in loader]
    assert len(expected) > 2
    for _ in range(2):  # Two evaluations, with other weights in the second.
        calls.clear()
        with torch.no_grad():
            torch.testing.assert_close([batch.outputs(model) for batch in loader], expected)
        assert len(calls) == 1
        with torch.no_grad():
            model.embedding.weight.mul_(2)
        expected = [model(*batch.inputs) for batch in loader]
    assert next(iter(loader)).outputs(model).requires_grad


def test_rules_find_reversed_relations() -> None:
    names = ("lives in", "has inhabitant")
    triples = torch.tensor([[0, 1, 5], [0, 0, 1], [5, 6, 0]])  # 1 lives in 6; who inhabits 6?
    graph = triple_graph(triples, 7, names)
    question = torch.tensor([[6], [1]])
    score = rules(graph)(Batch((question, torch.arange(7), graph), torch.tensor([[1]])))
    assert int(score.argmax()) == 1
    # The pairs of "reversed lives in" are (5, 0) and (6, 1), of which one is "has inhabitant".
    assert score[0, 1] == pytest.approx(1 / 3)


def test_more_triples_order_entities_of_equal_confidence() -> None:
    # A pair of "likes" is one of "knows" in half of the cases; 5 is known more often than 4.
    triples = torch.tensor([[0, 0, 1, 1, 2, 3], [0, 0, 0, 1, 1, 1], [4, 5, 5, 5, 5, 4]])
    graph = triple_graph(triples, 6, ("likes", "knows"))
    question = torch.tensor([[0], [1]])
    score = rules(graph)(Batch((question, torch.arange(6), graph), torch.tensor([[5]])))[0]
    assert score[5] > score[4]
    assert score[5] == pytest.approx(score[4].item(), abs=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triples")
    lines = ["head,relation,tail", *(",".join(row) for row in rows())]
    (folder / "mine.csv").write_text("\n".join(lines) + "\n")
    recipe = with_values(find("triples"), {**SMALL, "data.path": str(folder / "mine.csv")})
    train(recipe, folder / "run")
    (folder / "mine.csv").unlink()
    return folder / "run"


def test_a_run_answers_both_questions(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test/mrr"] > 0.5
    assert metrics["test/hits@1"] <= metrics["test/hits@3"] <= metrics["test/hits@10"]
    assert main(["predict", str(run), "p3", "knows", "?", "--top", "2"]) == 0
    assert "probability" in capsys.readouterr().out
    tails, heads = edgewise.load(run).predict(["p3, knows, ?", "?, lives in, t1"], top=40)
    assert tails["input"] == "p3, knows, ?"
    for answer, known in ((tails, {"p8"}), (heads, {f"p{i}" for i in range(1, PEOPLE, 5)})):
        found = {entry["entity"] for entry in answer["answers"]}
        assert not found & known
        assert len(found) == PEOPLE + 5 - len(known)
        total = sum(entry["probability"] for entry in answer["answers"])
        assert total == pytest.approx(1, abs=1e-4)


def test_reasons_name_relations(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run), "p3, knows, ?", "--top", "1", "--why", "2"]) == 0
    shown = capsys.readouterr().out
    assert "(knows)" in shown or "(lives in" in shown or "(has inhabitant" in shown


def test_unknown_names_are_suggested(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for question, words in (
        ("p99, knows, ?", "35 nodes"),
        ("p3, know, ?", "knows"),
        ("p3, knows", "a head, a relation and a tail"),
        ("?, knows, ?", "head or tail is ?"),
        ("p3, knows, p4", "head or tail is ?"),
    ):
        with case(question):
            assert main(["predict", str(run), question]) == 1
            assert words in capsys.readouterr().err


def test_baselines_are_measured(path: Path) -> None:
    fast = {**SMALL, "data.path": str(path), "trainer.epochs": 3}
    measured = {b.name: b for b in baselines(with_values(find("triples"), fast))}
    assert list(measured) == ["rules of one step", "DistMult", "ComplEx"]
    assert measured["rules of one step"].metrics["test/mrr"] > 0.3
    assert len(measured["DistMult"].test_examples["mrr"]) == 18


@pytest.mark.slow
def test_an_interrupted_training_continues(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = with_values(find("triples"), {**SMALL, "data.path": str(path), "trainer.epochs": 2})
    train(recipe, path.with_name("whole"))
    break_at(monkeypatch, 9, ctrl_c)
    with pytest.raises(Interrupted):
        train(recipe, path.with_name("broken"))
    train(recipe, path.with_name("broken"), resume=True)
    assert_same(path.with_name("broken"), path.with_name("whole"))


@needs("WN18RR")
def test_wn18rr() -> None:
    splits = WN18RR().load()
    assert splits.model_arguments == {"num_nodes": 40_943, "relations": 22}
    assert [splits.train.count, splits.val.count, splits.test.count] == [86_835, 6_068, 6_268]
    batch = splits.val.make(torch.arange(64))
    known = both_questions(splits.preprocessing["known"], 11)
    for question, row in zip(batch.inputs[0].T, batch.target, strict=True):
        right = known[2, (known[:2] == question[:, None]).all(0)]
        assert set(row[row >= 0].tolist()) == set(right.tolist())
