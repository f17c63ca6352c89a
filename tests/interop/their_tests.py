"""Run another library's tests with pytest, and compare the outcomes with those of a control run.

The module is also the plugin of pytest that records outcomes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

REPORT = "THEIR_TESTS_REPORT"
"""Environment variable with the path of the file of outcomes, one JSON list a line."""
HEADER = """\
| tests | original: passed, failed, skipped | with Edgewise | worse with Edgewise |
| --- | --- | --- | --- |"""


class Outcome(NamedTuple):
    """Outcome of a test, ``"passed"``, ``"failed"`` or ``"skipped"``, and the message of it."""

    kind: str
    message: str


Outcomes = Mapping[str, Outcome]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the outcome of a test, of its setup if it does not pass, or of a subtest."""
    if REPORT in os.environ and (report.when == "call" or not report.passed):
        crash = getattr(report.longrepr, "reprcrash", None)
        message = "" if crash is None else crash.message.partition("\n")[0]
        with Path(os.environ[REPORT]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome, message]) + "\n")


def run_pytest(folder: str | Path, *arguments: str, **environment: str) -> dict[str, Outcome]:
    """Run pytest in a folder, with plugins of this folder, and return the outcome of each test."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "outcomes"
        report.touch()
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        variables = {"PYTHONPATH": os.pathsep.join(paths), REPORT: str(report), **environment}
        options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-p", "their_tests", *arguments]
        subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=folder,
            env={**os.environ, **variables},
            stdout=sys.stderr,
            check=False,
        )
        return read_outcomes(report.read_text(encoding="utf-8").splitlines())


def read_outcomes(lines: Iterable[str]) -> dict[str, Outcome]:
    """Return the outcome of each test, the first failure if it has subtests."""
    outcomes: dict[str, Outcome] = {}
    for line in lines:
        name, kind, message = json.loads(line)
        if name not in outcomes or outcomes[name].kind != "failed":
            outcomes[name] = Outcome(kind, message)
    return outcomes


def print_table(prefixes: Mapping[str, str], control: Outcomes, tested: Outcomes) -> None:
    """Print counts of the tests with each prefix, and the messages of the tests that got worse."""
    print(HEADER)
    for name, prefix in prefixes.items():
        pair = (
            {test: outcome for test, outcome in outcomes.items() if test.startswith(prefix)}
            for outcomes in (control, tested)
        )
        print(row(name, *pair))
    for test, outcome in regressions(control, tested).items():
        print(f"{test}: {outcome.kind}, {outcome.message}")


def row(name: str, control: Outcomes, tested: Outcomes) -> str:
    """Return a row of the table: counts of both, and the names of the tests that got worse."""
    names = [test.rpartition("::")[2] for test in regressions(control, tested)]
    return f"| {name} | {_counts(control)} | {_counts(tested)} | {', '.join(names) or 'none'} |"


def regressions(control: Outcomes, tested: Outcomes) -> dict[str, Outcome]:
    """Return the outcomes of the tests that pass in the control only."""
    passed = [name for name, outcome in control.items() if outcome.kind == "passed"]
    outcomes = {name: tested.get(name, Outcome("missing", "")) for name in passed}
    return {name: outcome for name, outcome in outcomes.items() if outcome.kind != "passed"}


def _counts(outcomes: Outcomes) -> str:
    counter = Counter(outcome.kind for outcome in outcomes.values())
    return ", ".join(str(counter[kind]) for kind in ("passed", "failed", "skipped"))
