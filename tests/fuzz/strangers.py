"""Fuzz of files from strangers: nothing runs, nothing outside changes, and each answer is named.

    python -m tests.fuzz.strangers --count 2000 --seed 0

Each input is a run folder, a table, an image, a checkpoint or a tokenizer with one hostile change.
A command of ``edgewise`` reads it in a forked child, with limits of memory and time, in the folder
that holds the received files. Beside them lie modules with the names of packages. An input passes
if the command succeeds, or ends with a named error, and

- no code of the stranger runs, no process is started, no socket is opened, nothing is unpickled,
  and no file is opened for writing outside the output folder (an audit hook watches),
- ``sys.path`` is unchanged, and so are all files outside the output folder,
- the output has no control characters, and nothing of a secret file beside the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from edgewise.app.cli import main as edgewise_main
from edgewise.app.kinds import find
from edgewise.app.runs import to_record, with_values
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.runs.vocabulary import write_tokenizer
from edgewise.app.train import Recipe, RunFolder
from edgewise.app.train.folder import CURVES, METRICS, PREPROCESSING_TENSORS, RECIPE, TEST_EXAMPLES
from edgewise.app.train.held_out import keep_held_out
from edgewise.app.train.preprocessing import keep_preprocessing
from edgewise.app.train.splits import TextSplits
from edgewise.app.train.text.tokenizer import parse_tokenizer, vocabulary_hash
from edgewise.graphs.user_patterns import IMPORT
from tests.fuzz.damage import damage

SECRET = "the-secret-of-this-computer"
MARKER = "CODE_OF_A_STRANGER"
"""Name that all planted code contains."""
PLANTED = ("safetensors", "tokenizers", "mypatterns", "sitecustomize", "multiprocessing")
"""Modules that lie beside the received files."""
CODE = f"{MARKER} = open('ran', 'w')\n"
SMALL = {"model.width": "8"}
TINY = {"trainer.epochs": "1", "trainer.accelerator": "cpu"}


def untrained(recipe: Recipe, path: Path) -> None:
    """Write the run folder of a recipe, with the initial weights."""
    model, splits = prepare(recipe)
    folder, record = RunFolder(path), to_record(recipe)
    folder.make()
    if isinstance(splits, TextSplits):
        record["vocabulary"] = vocabulary_hash(splits.tokenizer)
        write_tokenizer(folder, splits.tokenizer)
    folder.write_json(RECIPE, record)
    keep_preprocessing(folder, splits)
    folder.write_tensors("model.safetensors", model.state_dict())
    keep_held_out(folder, model, splits)
    folder.write_log([{"epoch": 1.0, "train/loss": 1.0, "val/loss": 1.0}])
    folder.write_json(METRICS, {"val/loss": 1.0, "test/loss": 1.0, "seconds": 1.0})
    (path / CURVES).write_bytes(b"\x89PNG\r\n\x1a\n")


@dataclass(frozen=True)
class Received:
    """A run folder with what it is asked.

    Attributes:
        recipe: name of the recipe.
        fields: its fields; ``FOLDER`` stands for the folder of the tables.
        tables: content of its tables, by name.
        inputs: inputs on the command line.
    """

    recipe: str
    fields: dict[str, str]
    tables: dict[str, str]
    inputs: tuple[str, ...]


CHECKPOINT = "an unfinished run, whose checkpoint is a"


def rows(*lines: str) -> str:
    return "\n".join(lines) + "\n"


RECEIVED: dict[str, Received] = {
    "digits": Received(
        "digits", {**SMALL, "model.depth": "1", "model.heads": "1"}, {}, ("image.png",)
    ),
    "texts": Received(
        "texts",
        {**SMALL, "model.depth": "1", "data.path": "FOLDER/texts.csv"},
        {
            "texts.csv": rows(
                "text,label",
                *(f"{'Loved' if i % 3 else 'Hated'} it day {i}.,{i % 3 > 0}" for i in range(60)),
            )
        },
        ("Loved it.",),
    ),
    "nodes": Received(
        "nodes",
        {"data.nodes": "FOLDER/nodes.csv", "data.edges": "FOLDER/edges.csv"},
        {
            "nodes.csv": rows(
                "id,label,age,size", *(f"n{i},{'xyz'[i % 3]},{i % 7},{i / 3}" for i in range(30))
            ),
            "edges.csv": rows("source,target", *(f"n{i},n{(7 * i + 1) % 30}" for i in range(30))),
        },
        ("n3", "n4"),
    ),
    "interactions": Received(
        "interactions",
        {"data.path": "FOLDER/pairs.csv"},
        {
            "pairs.csv": rows(
                "user,item,time",
                *(f"u{i % 12},i{i * 5 % 17},2024-01-{i % 28 + 1:02}" for i in range(120)),
            )
        },
        ("u3",),
    ),
    "molecules": Received(
        "molecules",
        {
            **SMALL,
            "model.depth": "1",
            "data.path": "FOLDER/smiles.csv",
            "data.target": "y",
            "data.folds": "3",
        },
        {
            "smiles.csv": rows(
                "smiles,y", *("C" * n + end + f",{n}" for n in range(1, 11) for end in "ONF")
            )
        },
        ("CCO",),
    ),
    "series": Received(
        "series",
        {**SMALL, "model.depth": "1", "data.path": "FOLDER/series.csv", "data.history": "12"},
        {
            "series.csv": rows(
                "day,sales",
                *(f"{2010 + i // 12}-{i % 12 + 1:02}-01,{i % 12 + i / 7:.3f}" for i in range(120)),
            )
        },
        (),
    ),
}


def build(whole: Path, only: str = "") -> dict[str, list[str]]:
    """Write all run folders, and return the commands that read each of them."""
    commands = {}
    for name, received in RECEIVED.items():
        if only not in name:
            continue
        folder = whole / name
        folder.mkdir(parents=True)
        for file, text in received.tables.items():
            (folder / file).write_text(text)
        fields = {n: v.replace("FOLDER", str(folder)) for n, v in received.fields.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of small data
            untrained(with_values(find(received.recipe), {**fields, **TINY}), folder / "run")
        record = (folder / "run" / RECIPE).read_text().replace(f"{folder}/", "")
        (folder / "run" / RECIPE).write_text(record)  # data files beside the run, as received
        (folder / "other.csv").write_text(next(iter(received.tables.values()), "input\nx\n"))
        commands[name] = list(received.inputs)
    from PIL import Image

    if "digits" in commands:
        Image.linear_gradient("L").resize((8, 8)).save(whole / "digits" / "image.png")
    return commands


HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    10**6,
    10**9,
    10**30,
    1e300,
    math.nan,
    "",
    "x" * 5000,
    "\x1b]0;title\x07\x9b31m",
    "../secret.txt",
    "/dev/zero",
    "fifo",
    ".",
    "\0",
    "mypatterns:Strided(2)",
    "edgewise.graphs:complete()",
    "edgewise:interop()",
    "safetensors:x()",
    "__import__('mypatterns')",
    "window(1)" + " | window(1)" * 2000,
    "(" * 3000,
    f"hubs([{10**25}])",
    "tree(1.5)",
    "hubs([None])",
    "mypatterns",
    "gpt",
    "{0.__class__}",
    [],
    {},
    [1, "a", None],
    {"use": "mypatterns"},
    [[[[[]]]]],
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from leaves(item, (*path, key))


def change_json(path: Path, random: Random) -> str:
    record = json.loads(path.read_text())
    chosen = random.choice([leaf for leaf in leaves(record) if leaf])
    value = random.choice(HOSTILE)
    inner = record
    for key in chosen[:-1]:
        inner = inner[key]
    if random.random() < 0.1:
        del inner[chosen[-1]]
        value = "removed"
    else:
        inner[chosen[-1]] = value
    path.write_text(json.dumps(record))
    return f"{path.name}: {'.'.join(map(str, chosen))} = {value!r:.60}"


def change_graph(path: Path, random: Random) -> str:
    """Graphs are the fields whose texts are parsed."""
    record = json.loads((path / RECIPE).read_text())
    value = random.choice([text for text in HOSTILE if isinstance(text, str)])
    record["model"]["graph"] = value
    (path / RECIPE).write_text(json.dumps(record))
    return f"model.graph = {value!r:.60}"


def change_tensors(path: Path, random: Random) -> str:
    """Change one tensor, and write it with the digest of its new content."""
    folder, name = RunFolder(path.parent), path.name
    tensors = folder.read_tensors(name)
    key = random.choice(sorted(tensors))
    tensor = tensors[key]
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "NaN": lambda x: x.double() * math.nan,
        "all NaN": lambda x: torch.full_like(x, math.nan) if x.is_floating_point() else x - 1,
        "half": lambda x: x.half(),
        "large": lambda x: torch.full_like(x, 2**62 if x.dtype == torch.long else 100),
        "negative": lambda x: -x - 1,
        "shorter": lambda x: x[:-1] if x.dim() else x[None],
        "empty": lambda x: x[:0] if x.dim() else x[None][:0],
        "flat": lambda x: x.reshape(-1),
        "scalar": lambda x: x.reshape(-1)[:1].sum(),
        "integers": lambda x: x.long(),
    }
    how = random.choice(sorted(changes))
    tensors[key] = changes[how](tensor).contiguous()
    digest = folder.write_tensors(name, tensors)
    if name == PREPROCESSING_TENSORS:
        record = folder.read_json("preprocessing.json")
        folder.write_json("preprocessing.json", record | {"digest": digest})
    return f"{name}: {key} {how}"


def change_tokenizer(path: Path, random: Random) -> str:
    """Change one value, with the new hash in the recipe if the tokenizer can be read."""
    said = change_json(path, random)
    with contextlib.suppress(Exception):
        record = json.loads((path.parent / RECIPE).read_text())
        record["vocabulary"] = vocabulary_hash(parse_tokenizer(path.read_text()))
        (path.parent / RECIPE).write_text(json.dumps(record))
    return said


class Harm:
    """Object whose unpickling opens a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (CODE,)


def replace_file(path: Path, random: Random) -> str:
    """Put something that is no regular file in its place, or a pickle."""
    kinds = ("link out", "link to itself", "fifo", "folder", "device", "pickle", "checkpoint")
    kind = random.choice(kinds)
    path.unlink()
    if kind == "link out":
        path.symlink_to("../../secret.txt")
    elif kind == "link to itself":
        path.symlink_to(path.name)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Harm()))
    else:
        torch.save({"state_dict": Harm()}, path)
    return f"{path.name} is a {kind}"


def add_checkpoint(path: Path, random: Random) -> str:
    """Make the run an unfinished one, with a checkpoint that is none."""
    for name in (METRICS, "model.safetensors"):
        (path / name).unlink()
    checkpoint = path / "checkpoint.ckpt"
    kind = random.choice(("pickle", "archive with a pickle", "archive", "damaged archive", "file"))
    if kind == "pickle":
        checkpoint.write_bytes(pickle.dumps(Harm()))
    elif kind == "file":
        checkpoint.write_bytes(random.randbytes(200))
    else:
        states = {"state_dict": {"a": torch.zeros(3)}, "epoch": 0, "global_step": 1}
        harm = {"callbacks": Harm()} if "pickle" in kind else {}
        torch.save({**states, **harm, "pytorch-lightning_version": "2.6.0"}, checkpoint)
        if "damaged" in kind:
            damage(checkpoint, random)
    return f"{CHECKPOINT} {kind}"


def add_seeds(path: Path, random: Random) -> str:
    kind = random.choice(("seed", "fold"))
    target = random.choice((".", "..", "../run", "/"))
    (path / f"{kind}-0").symlink_to(target)
    return f"{kind}-0 is a link to {target}"


def change_bytes(path: Path, random: Random) -> str:
    return f"{damage(path, random)} of {path.name}"


CELLS = ("\x1b[2J", "=cmd|' /C calc'!A0", "1e999", "NaN", "", "x" * 200_000, "\0", "C" * 300, "☃")


def change_cell(path: Path, random: Random) -> str:
    lines = path.read_text(errors="replace").split("\n")
    line = random.randrange(len(lines))
    cells = lines[line].split(",")
    cell = random.choice(CELLS)
    cells[random.randrange(len(cells))] = cell
    lines[line] = ",".join(cells)
    path.write_text("\n".join(lines))
    return f"line {line + 1} of {path.name}: {cell!r:.30}"


def change_name(path: Path, random: Random) -> str:
    """Give a table the suffix of another format, with or without its compression."""
    suffix = random.choice((".xlsx", ".parquet", ".gz", ".zip", ".jsonl", ".sdf", ".txt", ".npz"))
    new = path.with_suffix(suffix)
    content = path.read_bytes()
    new.write_bytes(zlib.compress(content, wbits=31) if suffix == ".gz" else content)
    return f"{path.name} as {suffix}"


def change(folder: Path, random: Random) -> str:
    """Make one hostile change to the received files, and say which."""
    run = folder / "run"
    files = sorted(path for path in run.iterdir() if path.is_file())
    tables = sorted(folder.glob("*.csv")) + sorted(folder.glob("*.png"))
    tensors = [path for path in files if path.suffix == ".safetensors"]
    records = [path for path in files if path.suffix == ".json" and path.name != "tokenizer.json"]
    tokenizers = [run / "tokenizer.json"] if (run / "tokenizer.json").exists() else records
    changes: list[tuple[int, Callable[[], str]]] = [
        (6, lambda: change_json(random.choice(records), random)),
        (3, lambda: change_graph(run, random)),
        (4, lambda: change_tensors(random.choice(tensors), random)),
        (2, lambda: change_tokenizer(tokenizers[0], random)),
        (3, lambda: replace_file(random.choice(files), random)),
        (1, lambda: add_seeds(run, random)),
        (2, lambda: add_checkpoint(run, random)),
        (3, lambda: change_bytes(random.choice(files), random)),
        (3, lambda: change_bytes(random.choice(tables), random)),
        (3, lambda: change_cell(random.choice(tables), random)),
        (1, lambda: change_name(random.choice(tables), random)),
    ]
    ((_, chosen),) = random.choices(changes, weights=[weight for weight, _ in changes])
    return chosen()


def command(name: str, inputs: list[str], what: str, random: Random) -> list[str]:
    """Return a command that reads the received files.

    Args:
        name: name of the run folder.
        inputs: inputs of its predictions.
        what: what was changed.
        random: random numbers.
    """
    train = ["train", RECEIVED[name].recipe, *training(name)]
    if CHECKPOINT in what:
        return [*train, "--out", "run", "--resume"]
    table = random.choice(("other.csv", *RECEIVED[name].tables))
    asked = inputs or ["--input", table]
    commands = [
        ["predict", "run", *asked],
        ["predict", "run", *asked, "--out", "out/answers.csv"],
        ["predict", "run", "--input", "image.png" if name == "digits" else table],
        ["test", "run"],
        ["predict", "run", "--help"],
        ["explain", "run", *inputs, "--out", "out/page.html"],
        [*train, "--out", "out/new", "--from", "run"],
    ]
    (chosen,) = random.choices(commands, weights=(6, 2, 3, 4, 1, 1, 1))
    return chosen


def training(name: str) -> list[str]:
    fields = {n: v.replace("FOLDER/", "") for n, v in RECEIVED[name].fields.items()}
    return [word for n, v in {**fields, **TINY}.items() for word in (f"--{n}", v)]


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.")
CHANGES = ("os.remove", "os.rename", "os.link", "os.symlink", "os.chmod", "os.mkdir", "os.rmdir")


OWN_FILES = (".edgewise-", TEST_EXAMPLES)
"""Files that the command ``test`` writes into a run folder."""


class Watch:
    """Audit hook that notes what a stranger must not do.

    Args:
        folder: folder of the received files.
        resumes: whether the command resumes the run, and may change it.
    """

    def __init__(self, folder: Path, *, resumes: bool) -> None:
        self.folder, self.notes = str(folder), list[str]()
        own = [f"{folder}/run/{name}" for name in OWN_FILES]
        temporary = f"{tempfile.gettempdir()}/tmp"
        self.writable = (
            *(f"{folder}/out", temporary, "/dev/null"),
            *([f"{folder}/run"] if resumes else own),
        )

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "exec":
            code = args[0]
            if code.co_filename.startswith(self.folder) or MARKER in code.co_names:
                self.notes.append(f"code of {code.co_filename} runs")
        elif event == "import":
            if str(args[1] or "").startswith(self.folder):
                self.notes.append(f"import of {args[0]}")
        elif event == "open":
            path, _mode, flags = args
            if flags & WRITES and isinstance(path, (str, bytes)):
                self.check_path(event, path)
        elif event in CHANGES:
            paths = [path for path in args[:2] if isinstance(path, (str, bytes, os.PathLike))]
            base = "." if args[-1] == -1 else os.readlink(f"/proc/self/fd/{args[-1]}")  # noqa: PTH115
            for path in paths:
                self.check_path(event, os.path.join(base, os.fsdecode(path)))  # noqa: PTH118
        elif event == "pickle.find_class" or event.startswith(FORBIDDEN):
            self.notes.append(f"{event} {args!r:.80}")

    def check_path(self, event: str, path: str | bytes | os.PathLike[str]) -> None:
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - pathlib would call the hook
        if not full.startswith(self.writable):
            self.notes.append(f"{event} {full}")


WAIT = 6
"""Maximum ratio of the time to the CPU time of an input, because other processes may be running."""


@dataclass(frozen=True)
class Limits:
    """Limits of one input: bytes of address space, and seconds of CPU time."""

    memory: int
    seconds: int


def in_child(words: list[str], folder: Path, limits: Limits) -> None:
    """Run a command in a forked child, which ends with its exit code; 99 if something was noted."""
    os.chdir(folder)
    out = os.open(folder / "out" / "printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    # What the parent has mapped does not count: a worker of pytest may have several GiB.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + limits.memory, mapped + limits.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds, limits.seconds))
    sys.dont_write_bytecode = True  # A command imports its module when it runs.
    path, watch = list(sys.path), Watch(folder, resumes="--resume" in words)
    sys.addaudithook(watch)
    try:
        code = edgewise_main(words)
    except SystemExit as end:  # argparse
        code = int(end.code or 0)
    except BaseException as error:
        print(f"raised {type(error).__name__}: {error}", file=sys.stderr)
        code = 70
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    notes = [*watch.notes, *(["sys.path has changed"] if sys.path != path else [])]
    if notes:
        (folder / "out" / "notes").write_text("\n".join(notes))
        code = 99
    os._exit(code)


def state(folder: Path, *, resumes: bool) -> str:
    """Return a digest of all files that a command must not change."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        first = path.relative_to(folder).parts[0]
        if first == "out" or path.name in OWN_FILES or (first == "run" and resumes):
            continue
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest.update(f"{path} {path.lstat().st_mode}".encode() + content)
    return digest.hexdigest()


CONTROLS = set(range(0x20)) - {0x09, 0x0A} | {0x7F}


def judge(status: int, folder: Path, unchanged: bool) -> str:
    """Return what an input came to, "result" or "refused"; or what is bad, after "bad: "."""
    content = (folder / "out" / "printed").read_bytes()
    text = content.decode("utf-8", errors="replace")
    last = text.strip().rsplit("\n", 1)[-1][:400]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"bad: killed by {signal.Signals(number).name} {last}"
    code = os.WEXITSTATUS(status)
    if code == 99:
        return f"bad: {(folder / 'out' / 'notes').read_text()}"
    if code not in (0, 1, 2):
        return f"bad: exit code {code}: {last}"
    if CONTROLS & set(content) or any(0x7F <= ord(c) < 0xA0 for c in text):
        return f"bad: control characters are printed: {text[:200]!r}"
    if SECRET in text:
        return f"bad: the secret is printed: {last}"
    if (folder / "ran").exists():
        return "bad: code ran"
    if not unchanged:
        return "bad: files outside the output folder have changed"
    if code == 2 and "Remedy" not in text and "usage:" not in text:
        return f"bad: an error without a remedy: {last}"
    return "refused" if code == 2 else "result"


def attack(
    number: int, seed: int, whole: Path, commands: dict[str, list[str]], limits: Limits
) -> tuple[str, str]:
    """Read one hostile input, and return what it was, and what it came to."""
    random = Random(f"{seed} {number}")
    name = list(commands)[number % len(commands)]
    base = whole.parent / "received"
    shutil.rmtree(base, ignore_errors=True)
    folder = base / name
    shutil.copytree(whole / name, folder)
    (base / "secret.txt").write_text(f"{SECRET},b\n1,2\n")
    for module in PLANTED:
        (folder / f"{module}.py").write_text(CODE)
    os.mkfifo(folder / "fifo")
    (folder / "out").mkdir()
    what = change(folder, random)
    words = command(name, commands[name], what, random)
    resumes = "--resume" in words
    before = state(folder, resumes=resumes)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            in_child(words, folder, limits)
        finally:
            os._exit(98)
    deadline = time.monotonic() + WAIT * limits.seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:  # The child waits for something.
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        time.sleep(0.005)
    return f"{name}, {what}, {' '.join(words)}", judge(
        status, folder, state(folder, resumes=resumes) == before
    )


def run(
    count: int, seed: int, limits: Limits, *, first: int = 0, only: str = ""
) -> tuple[Counter[str], list[str]]:
    """Read this many hostile inputs.

    Returns:
        how often each outcome was seen, and the bad inputs.
    """
    seen: Counter[str] = Counter()
    bad = []
    torch.set_num_threads(1)  # The threads of this process are not in its children.
    environment = {name: os.environ.pop(name, None) for name in (IMPORT, "EDGEWISE_TRACEBACK")}
    try:
        with tempfile.TemporaryDirectory(
            prefix="strangers-", dir=os.environ.get("TMPDIR")
        ) as temporary:
            whole = Path(temporary) / "whole"
            commands = build(whole, only)
            for number in range(first, first + count):
                what, outcome = attack(number, seed, whole, commands, limits)
                kind = outcome.split(":")[0]
                seen[kind] += 1
                if kind == "bad":
                    bad.append(f"{number}: {what}\n    {outcome}")
                    print(bad[-1], flush=True)
    finally:
        os.environ.update({name: value for name, value in environment.items() if value is not None})
    return seen, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000, help="number of inputs")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=4, help="GiB of address space")
    parser.add_argument("--seconds", type=int, default=20, help="seconds of CPU time for one input")
    parser.add_argument("--only", default="", help="run folders with this in their name")
    given = parser.parse_args()
    limits = Limits(int(given.memory * 2**30), given.seconds)
    start = time.perf_counter()
    seen, bad = run(given.count, given.seed, limits, first=given.first, only=given.only)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(seen.items()))
    print(f"{sum(seen.values())} inputs in {time.perf_counter() - start:.0f} s: {counts}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
