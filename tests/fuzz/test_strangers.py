"""A short run of the fuzz of files from strangers, and faults that it must notice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")
pytest.importorskip("PIL")
pytest.importorskip("sklearn")
pytest.importorskip("tokenizers")

from tests.fuzz import strangers
from tests.fuzz.strangers import CODE, SECRET, Limits

LIMITS = Limits(4 * 2**30, 20)


@pytest.mark.slow
def test_received_files_give_results_or_named_errors() -> None:
    seen, bad = strangers.run(16, 0, LIMITS, only="t")
    assert not bad, "\n".join(bad)
    assert seen["refused"] > 2
    assert seen["result"] > 2


def careless_code(_words: list[str]) -> int:
    exec(compile(Path("safetensors.py").read_text(), "safetensors.py", "exec"))
    return 0


def careless_write(_words: list[str]) -> int:
    Path("run/recipe.json").write_text("{}")
    return 0


def careless_link(_words: list[str]) -> int:
    print(Path("../secret.txt").read_text())
    return 0


def careless_process(_words: list[str]) -> int:
    return os.system("true")


def careless_terminal(_words: list[str]) -> int:
    print("\x1b[2J")
    return 0


def careless_error(_words: list[str]) -> int:
    raise KeyError("labels")


def careless_memory(_words: list[str]) -> int:
    return len(bytearray(5 * 2**30))


def careless_wait(_words: list[str]) -> int:
    return len(Path("fifo").read_bytes())


@pytest.mark.slow(after=2)
@pytest.mark.parametrize(
    ("careless", "said"),
    [
        (careless_code, "code of safetensors.py runs"),
        (careless_write, "open "),
        (careless_link, "secret"),
        (careless_process, "os.system"),
        (careless_terminal, "control characters"),
        (careless_error, "KeyError"),
        (careless_memory, "MemoryError"),
        (careless_wait, "killed"),
    ],
)
def test_the_fuzz_notices(careless: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "edgewise_main", careless)
    monkeypatch.setattr(strangers, "WAIT", 1)
    monkeypatch.setattr(strangers, "build", _one_run)
    _, bad = strangers.run(1, 0, Limits(4 * 2**30, 2))
    assert said in bad[0]
    assert CODE
    assert SECRET


def _one_run(whole: Path, _only: str) -> dict[str, list[str]]:
    """Write a run folder that no command reads."""
    run = whole / "digits" / "run"
    run.mkdir(parents=True)
    (whole / "digits" / "other.csv").write_text("input\nx\n")
    for name in ("recipe.json", "metrics.json"):
        (run / name).write_text('{"model": {"graph": "window(1)"}, "a": 1}')
    strangers.RunFolder(run).write_tensors("model.safetensors", {"a": strangers.torch.zeros(2)})
    return {"digits": ["x"]}
