"""A run recommends items to users, and proposes links, from what it has kept of its data."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import time
from dataclasses import replace

import pytest
import torch

import edgewise
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.items import InteractionFiles
from edgewise.app.kinds.links import EdgeList
from edgewise.app.runs import train, with_values
from edgewise.app.train import RunFolder
from tests import forked
from tests.errors import refused

pytest.importorskip("lightning")

GENRES, EACH, USERS = ("crime", "love", "space"), 8, 24


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """Users of one genre each, who have chosen all of its films but one or two."""
    random = torch.Generator().manual_seed(0)
    rows = ["person;film;day"]
    for user in range(USERS):
        own = torch.randperm(EACH, generator=random)[: EACH - 1 - user % 2].tolist()
        rows += [f"Zoë {user};{GENRES[user % 3]} {i};2024-01-{d + 1:02}" for d, i in enumerate(own)]
    path = tmp_path_factory.mktemp("own") / "ratings.csv"
    path.write_text("\n".join(rows))
    return path


@pytest.fixture(scope="module")
def recommender(ratings, tmp_path_factory):
    """A run, moved to another place, and its data gone."""
    path = tmp_path_factory.mktemp("runs")
    copy = shutil.copy(ratings, path / "copy.csv")
    data = InteractionFiles(
        path=str(copy), user="person", item="film", time="day", batch_size=40, negatives=12
    )
    recipe = with_values(
        replace(find("interactions"), data=data),
        {"trainer.accelerator": "cpu", "trainer.epochs": 8, "model.width": 16},
    )
    train(recipe, path / "run")
    (path / "copy.csv").unlink()
    shutil.move(path / "run", path / "moved")
    return path / "moved"


def had(ratings, user: str) -> set[str]:
    rows = [row.split(";") for row in ratings.read_text().splitlines()[1:]]
    return {film for name, film, _ in rows if name == user}


def test_items_that_a_user_does_not_have_with_reasons(recommender, ratings):
    run = edgewise.load(recommender)
    first, second = run.predict(["Zoë 3", "Zoë 4"], top=30)
    for user, answer in (("Zoë 3", first), ("Zoë 4", second)):
        own, items = had(ratings, user), [row["item"] for row in answer["items"]]
        assert answer["input"] == user
        assert not set(items) & own, "what was held out is known, too"
        assert len(items) + len(own) == len(GENRES) * EACH
        scores = [row["score"] for row in answer["items"]]
        assert scores == sorted(scores, reverse=True)
        assert all(len(row["evidence"]) == 3 for row in answer["items"])
        assert all(set(row["evidence"]) <= own for row in answer["items"])
    assert first["items"][0]["item"].startswith("crime")
    assert second["items"][0]["item"].startswith("love")
    assert all(reason.startswith("love") for reason in second["items"][0]["evidence"])


def test_scores_are_those_of_the_model(recommender):
    run = edgewise.load(recommender)
    kept = run.predictor.preprocessing.values
    users, items = len(kept["users"]), len(kept["items"])
    pairs = kept["known"] + torch.tensor([[0], [users]])
    graph = edgewise.graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), users + items)
    user = kept["users"].index("Zoë 5")
    with torch.no_grad():
        expected = run.model(torch.tensor([user]), torch.arange(items), graph)[0]
    for row in run.predict("Zoë 5")[0]["items"]:
        assert row["score"] == pytest.approx(float(expected[kept["items"].index(row["item"])]))


def test_unknown_users_and_bad_options(recommender):
    run = edgewise.load(recommender)
    wrong, right = run.predict(["Zoe 3", "Zoë 3"], evidence=0)
    assert "did you mean 'Zoë 3'?" in wrong["error"]
    assert "one of the 24 users" in wrong["error"]
    assert right["items"][0].keys() == {"item", "score"}
    assert "train again" in run.predict([17])[0]["error"]
    assert run.predict(17) == run.predict([17]) == run.predict(torch.tensor([17]))
    with pytest.raises(ArgumentError, match="top"):
        run.predict(["Zoë 3"], top=0)
    with pytest.raises(ArgumentError, match="evidence"):
        run.predict(["Zoë 3"], evidence=-1)


def test_from_the_shell(recommender, tmp_path, capsys):
    asked = tmp_path / "asked.csv"
    asked.write_text("note,person\nx,Zoë 1\ny,Zoë 99\n")
    out = tmp_path / "out.jsonl"
    assert main(["predict", str(recommender), "--input", str(asked), "--out", str(out)]) == 1
    assert "line 3 of asked.csv" in capsys.readouterr().err
    good, bad = map(json.loads, out.read_text().splitlines())
    assert good["person"] == "Zoë 1"
    assert good["items"][0]["item"].startswith("love")
    assert "error" in bad
    asked.write_text("person,item,rank\nZoë 1,old,9\n")
    table = tmp_path / "out.csv"
    assert main(["predict", str(recommender), "--input", str(asked), "--out", str(table)]) == 0
    with table.open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert (row["item"], row["rank"], row["predicted_rank"]) == ("old", "9", "1")
    assert row["predicted_item"] == good["items"][0]["item"]
    asked.write_text("persn\nZoë 1\n")
    assert main(["predict", str(recommender), "--input", str(asked)]) == 2
    assert "expected a column 'person'" in capsys.readouterr().err


def test_a_terminated_command_leaves_nothing_half_written(recommender, tmp_path):
    asked, out = tmp_path / "asked.csv", tmp_path / "out"
    asked.write_text("person\n" + "Zoë 1\n" * 200_000)
    out.mkdir()
    words = ["predict", str(recommender), "--input", str(asked), "--out", str(out / "answers.csv")]
    process = forked.start(tmp_path / "said.txt", main, words)
    deadline = time.monotonic() + 100
    while not any(out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 143
    assert (tmp_path / "said.txt").read_text() == "edgewise: interrupted.\n"
    assert list(out.iterdir()) == []


def test_what_another_run_has_kept_is_refused(recommender, tmp_path):
    shutil.copytree(recommender, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    kept = folder.read_tensors("preprocessing.safetensors")
    flipped = {name: t.flip(-1) for name, t in kept.items()}
    folder.write_tensors("preprocessing.safetensors", flipped)
    name = str(folder.path / "preprocessing.safetensors")
    with refused(name, expected="tensors", got="another run", remedy="train again"):
        edgewise.load(folder.path)


@pytest.fixture(scope="module")
def friends(tmp_path_factory):
    """A run on three circles of friends, moved, and its data gone."""
    path = tmp_path_factory.mktemp("friends")
    first, second = torch.triu_indices(30, 30, 1)
    random = torch.Generator().manual_seed(0)
    same = (first // 10 == second // 10) & (torch.rand(len(first), generator=random) < 0.7)
    rows = [
        f"p{a},p{b},2" for a, b in zip(first[same].tolist(), second[same].tolist(), strict=True)
    ]
    (path / "friends.csv").write_text("\n".join(["who,whom,since", *rows]))
    data = EdgeList(path=str(path / "friends.csv"), source="who", destination="whom", batch_size=20)
    fields = {"trainer.accelerator": "cpu", "trainer.epochs": 25, "model.width": 16}
    train(with_values(replace(find("links"), data=data), fields), path / "run")
    (path / "friends.csv").unlink()
    shutil.move(path / "run", path / "moved")
    return path / "moved", {frozenset(row.split(",")[:2]) for row in rows}


def test_friends_are_proposed(friends):
    path, known = friends
    (answer,) = edgewise.load(path).predict(["p3"], top=100)
    proposed = [row["id"] for row in answer["links"]]
    linked = {name for pair in known if "p3" in pair for name in pair} - {"p3"}
    assert set(proposed) == {f"p{i}" for i in range(30)} - linked - {"p3"}
    circle = {f"p{i}" for i in range(10)} - linked - {"p3"}
    assert set(proposed[: len(circle)]) == circle, "those of the same circle come first"
    best = answer["links"][0]
    common = {name for name in linked if frozenset([name, best["id"]]) in known}
    assert best["common"] == len(common)
    assert len(best["evidence"]) == min(3, len(common))
    assert set(best["evidence"]) <= common
    assert answer["links"][-1]["score"] < best["score"] < 1


def test_unknown_people(friends):
    run = edgewise.load(friends[0])
    assert "did you mean 'p29'" in run.predict(["p299"])[0]["error"]
    with refused("evidence", expected="at least 0", got="-1", remedy="0"):
        run.predict(["p1"], evidence=-1)


def test_between_two_kinds_of_node_the_other_kind_is_proposed():
    from edgewise.app.kinds.links.predict import LinkSuggestions
    from edgewise.app.predict.node_ids import KnownIds, Neighbours
    from edgewise.graphs import edges
    from edgewise.models import link_predictor

    links = LinkSuggestions.__new__(LinkSuggestions)
    links.nodes = KnownIds([f"n{i}" for i in range(7)], "node")
    links.left, links.right = range(3), range(3, 7)
    pairs = torch.tensor([[0, 0, 1], [3, 4, 6]])
    links.linked = Neighbours(torch.cat([pairs, pairs.flip(0)], dim=1), 7)
    links.model = link_predictor(7, width=4)
    links.states = torch.randn(7, 4)
    links.graph = edges(torch.cat([pairs, pairs.flip(0)], dim=1), 7)
    with torch.no_grad():
        film, actor = links.answer([0, 6], top=9, evidence=0)
    assert {row["id"] for row in film["links"]} == {"n5", "n6"}
    assert {row["id"] for row in actor["links"]} == {"n0", "n2"}
