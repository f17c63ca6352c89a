"""Kills runs at random moments, continues them, and compares all that they leave, bit for bit.

``python -m tests.fuzz.kills --kills 20 --seed 0``
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import signal
import tempfile
import time
from dataclasses import replace
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from edgewise import models
from edgewise.app.kinds import find
from edgewise.app.kinds.language import LanguageModeling, TextFiles
from edgewise.app.kinds.links import EdgeList
from edgewise.app.runs import train, train_seeds, with_values
from edgewise.app.train import CosineSchedule, OptimizerSettings, Recipe, TrainerSettings
from tests import forked

TIMES = {"seconds", "cpu_seconds"}
"""All that two runs may differ in."""
TRAINER = {
    "trainer.epochs": 8,
    "trainer.accelerator": "cpu",
    "trainer.monitor": "val/loss",
    "trainer.mode": "min",
    "trainer.clip_norm": 1.0,
    "trainer.save_every": 0.05,
}
SMALL = {"model.width": 16, "model.depth": 1, "model.heads": 2, "model.ffn_dim": 16}


def digits() -> Recipe:
    """Images, warped at random, with dropout, a moving average and a schedule."""
    more = {"model.dropout": 0.2, "data.batch_size": 64, "trainer.ema_decay": 0.9}
    return with_values(find("digits"), {**TRAINER, **SMALL, **more})


def text(folder: Path) -> Recipe:
    """A language model with dropout, whose steps take three batches; it keeps a tokenizer."""
    source = folder / "text.txt"
    if not source.exists():
        words, draw = [f"word{i}" for i in range(12)], random.Random(0)
        source.write_text(" ".join(draw.choices(words, k=12_000)))
    recipe = Recipe(
        name="text",
        summary="",
        model=partial(models.gpt, dropout=0.2, max_length=24),
        data=TextFiles(paths=(str(source),), kind="words", context=24, batch_size=4),
        task=LanguageModeling(),
        optimizer=OptimizerSettings(lr=1e-2),
        schedule=CosineSchedule(),
        trainer=TrainerSettings(accumulate_grad_batches=3, average_last_epochs=2),
    )
    return with_values(recipe, {**TRAINER, **SMALL, "trainer.epochs": 4})


def sampled(folder: Path) -> Recipe:
    """Links, whose batches have sampled neighbourhoods and sampled negatives."""
    source = folder / "links.txt"
    if not source.exists():
        draw = random.Random(0)
        links = {tuple(sorted(draw.sample(range(300), 2))) for _ in range(3000)}
        source.write_text("".join(f"{a} {b}\n" for a, b in sorted(links)))
    data = EdgeList(path=str(source), fanouts=(3, 3), batch_size=20)
    fields = {**TRAINER, "trainer.epochs": 2, "model.width": 16, "model.dropout": 0.2}
    return with_values(replace(find("links"), data=data), fields)


def run(what: str, folder: Path, out: Path) -> None:
    """Train, or go on where there is something to go on with."""
    started = (out / "recipe.json").exists()
    if what == "seeds":
        train_seeds(with_values(digits(), {"trainer.epochs": 3}), 2, out, resume=started)
    else:
        recipes = {"text": partial(text, folder), "sampled": partial(sampled, folder)}
        train(recipes.get(what, digits)(), out, resume=started)


RUNS = ("digits", "text", "sampled", "seeds")


def start(what: str, folder: Path, out: Path) -> ForkServerProcess:
    """:func:`run` in a process of its own."""
    return forked.start(folder / "said.txt", run, what, folder, out)


def finish(process: ForkServerProcess, folder: Path) -> None:
    """Wait until the process has done all of its work."""
    process.join()
    if process.exitcode != 0:
        raise SystemExit((folder / "said.txt").read_text())


def left(out: Path) -> dict[str, object]:
    """What a run has left, by file, without the times."""
    found: dict[str, object] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        if path.name == "metrics.json":
            metrics = json.loads(path.read_text())
            found[name] = {key: value for key, value in metrics.items() if key not in TIMES}
        elif path.name == "log.csv":
            rows = csv.DictReader(path.read_text().splitlines())
            found[name] = [
                {key: value for key, value in row.items() if key not in TIMES} for row in rows
            ]
        else:
            found[name] = path.read_bytes()
    return found


class Whole:
    """A run that nothing broke, and how long it took to begin and to end."""

    def __init__(self, what: str, folder: Path) -> None:
        self.what, self.folder = what, folder
        began = time.monotonic()
        process = start(what, folder, folder / "whole")
        self.opening = wait_for(folder / "whole" / "recipe.json", process) - began
        finish(process, folder)
        self.training = time.monotonic() - began - self.opening
        self.left = left(folder / "whole")

    def kill(self, out: Path, draw: random.Random) -> str:
        """Start or continue the run in ``out`` and kill it; says when, or "" if it had ended."""
        process, early = start(self.what, self.folder, out), draw.random() < 0.1
        begun = (out / "recipe.json").exists()
        if early or begun:
            moment = draw.uniform(0, self.opening + (0 if early else self.training))
            said = f"{moment:.2f} s after the start"
        else:
            wait_for(out / "recipe.json", process)
            moment = draw.uniform(0, self.training)
            said = f"{moment:.2f} s after recipe.json"
        process.join(moment)
        process.kill()
        process.join()
        return said if process.exitcode == -signal.SIGKILL else ""

    def check(self, out: Path) -> None:
        """Continue the run in ``out`` to its end, which is that of the unbroken one."""
        finish(start(self.what, self.folder, out), self.folder)
        found = left(out)
        differing = {
            name for name in {*found, *self.left} if found.get(name) != self.left.get(name)
        }
        assert not differing, f"{out}: other {', '.join(sorted(differing))} than {self.folder}"


def wait_for(path: Path, process: ForkServerProcess) -> float:
    """When the file is there, or the process has ended."""
    while not path.exists() and process.exitcode is None:
        time.sleep(0.002)
    return time.monotonic()


def fuzz(kills: int, seed: int, folder: Path, runs: tuple[str, ...] = RUNS) -> int:
    """Kill so many times, in turn through the runs; gives how many runs were compared."""
    draw, done, compared = random.Random(seed), 0, 0
    wholes: dict[str, Whole] = {}
    while done < kills:
        what = runs[compared % len(runs)]
        if what not in wholes:
            (folder / what).mkdir()
            wholes[what] = Whole(what, folder / what)
        out = folder / what / f"run-{compared}"
        for _ in range(min(draw.choice((1, 1, 2)), kills - done)):
            moment = wholes[what].kill(out, draw)
            if moment:
                done += 1
                print(f"{done}: {what}, killed {moment}", flush=True)
        wholes[what].check(out)
        compared += 1
    return compared


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compared = fuzz(arguments.kills, arguments.seed, Path(folder))
    print(f"{arguments.kills} kills, {compared} runs: each ends as the one that nothing broke")


if __name__ == "__main__":
    main()
