"""Run folders: reading and writing the files of a run, in common formats."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from edgewise.errors import (
    ArgumentError,
    EdgewiseError,
    MissingDataError,
    RunExistsError,
    WriteError,
    require,
)
from edgewise.layers.pruning import keep_heads
from edgewise.renamed import new_parameter_name
from edgewise.training.interrupt import Interrupted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, float]
RECIPE = "recipe.json"
LOG, CURVES = "log.csv", "curves.png"
METRICS, NOTES = "metrics.json", "notes.json"
PREPROCESSING, PREPROCESSING_TENSORS = "preprocessing.json", "preprocessing.safetensors"
HEADS = "kept_heads.json"
"""Name of the file in a pruned run that lists the remaining attention heads of each layer."""
OLD_FILES = {PREPROCESSING: "fitted.json", PREPROCESSING_TENSORS: "fitted.safetensors"}
"""Names of files in run folders of earlier versions, by present name."""
BEGINNINGS = {"tokenizer.json", PREPROCESSING, PREPROCESSING_TENSORS}
"""Files that are written before the first step, in addition to the file that claims the folder."""
BEGIN_AGAIN = "delete it, and --resume restarts the run"
DIGEST = "sha256"
SHOWN = 3
"""Maximum number of weights that an error lists."""


@dataclass(frozen=True)
class RunFolder:
    """Folder with the files of one run. Each file is written completely or not at all."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Path of the checkpoint from which an unfinished run resumes."""
        return self.path / "checkpoint.ckpt"

    @property
    def weights(self) -> Path:
        """Path of the best weights of a finished run."""
        return self.path / "model.safetensors"

    def refuse_existing(self, *, resumable: bool = True) -> None:
        """Raise RunExistsError if the folder exists and is not empty.

        Args:
            resumable: whether the command has the option ``--resume``, which the error suggests.
        """
        if self.path.is_dir() and set(self.path.iterdir()) <= set(self._parts()):
            return
        if self.path.exists():
            raise self._exists(resumable=resumable)

    def make(self) -> None:
        """Create the folder if it does not exist.

        Raises:
            WriteError: the folder cannot be created.
        """
        with self._as_write_error(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def refuse_overwriting(self) -> None:
        """Raise RunExistsError if the folder contains files of a finished run."""
        written = any(self.has(name) for name in (LOG, self.weights.name, METRICS))
        if self.has(METRICS) or (written and not self.checkpoint.is_file()):
            raise RunExistsError(
                f"{self.path} contains a finished run, which is never overwritten. "
                "Remedy: name another folder."
            )

    def _exists(self, *, resumable: bool = True) -> RunExistsError:
        remedy = "name another folder with --out"
        if resumable:
            remedy = f"continue the run with --resume, or {remedy}"
        return RunExistsError(
            f"{self.path} exists, and a run is never overwritten. Remedy: {remedy}."
        )

    def refuse_several(self) -> None:
        """Raise ArgumentError if the folder contains several runs, by seed or by fold."""
        runs = self.runs()
        if runs:
            raise ArgumentError(
                str(self.path),
                expected="the folder of one run",
                got=f"a folder of several runs, {runs[0].name} to {runs[-1].name}",
                remedy=f"name the folder of one run, such as {runs[0]}",
            )

    def runs(self) -> list[Path]:
        """Return the folders of several runs in this folder, in the order of seeds or folds."""
        found = (one for kind in ("seed", "fold") for one in self.path.glob(f"{kind}-*/{RECIPE}"))
        return sorted((one.parent for one in found), key=lambda run: (len(run.name), run.name))

    @contextmanager
    def claimed(self, name: str, record: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
        """Create the folder and the file ``name`` with ``record``, exclusively for this process.

        After an error in the ``with`` block, folder and file are deleted if there is no checkpoint.
        An interrupted or killed run keeps both, for ``resume``.

        Raises:
            RunExistsError: another process created the file first.
            WriteError: the folder cannot be written.
        """
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        claimed = False
        try:
            self.make()
            if resume:
                self.write_json(name, record)
            else:
                self._claim(name, record)
                claimed = True
            for part in self._parts():
                part.unlink(missing_ok=True)
            yield
        except Interrupted:
            raise
        except Exception:
            if claimed:
                self._give_up(name)
            for folder in made:
                # rmdir fails if the folder is not empty or was not created.
                with suppress(OSError):
                    folder.rmdir()
            raise

    def _claim(self, name: str, record: Mapping[str, Any]) -> None:
        final, text = self.path / name, _indented(record)
        with self._part(final) as part:
            part.write_text(text, encoding="utf-8")
            try:
                try:
                    # os.link is atomic, and fails if the file exists.
                    os.link(part, final)
                except FileExistsError:
                    raise
                except OSError:  # The file system has no hard links.
                    with final.open("x", encoding="utf-8") as file:
                        file.write(text)
            except FileExistsError:
                raise self._exists() from None

    def _give_up(self, name: str) -> None:
        """Delete the first files of a run if the folder contains nothing else."""
        begun = {name, *BEGINNINGS}
        with suppress(OSError):
            found = list(self.path.iterdir())
            if all(file.name in begun for file in found):
                for file in found:
                    file.unlink()

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Write the file ``name`` atomically.

        ``fill`` is called with a temporary path. The temporary file is then renamed to ``name``.

        Raises:
            WriteError: the file cannot be written.
        """
        final = self.path / name
        with self._part(final) as part:
            part.touch()
            # Permissions that a new file gets from the umask.
            mode = stat.S_IMODE(part.stat().st_mode)
            fill(part)
            # Some libraries set the mode to 0600.
            part.chmod(mode)
            part.replace(final)
        return final

    @contextmanager
    def _part(self, final: Path) -> Iterator[Path]:
        """Yield a temporary path next to ``final``, and delete it afterwards."""
        part = final.with_name(f".part-{os.getpid()}-{final.name}")
        with self._as_write_error(final):
            try:
                yield part
            finally:
                part.unlink(missing_ok=True)

    @contextmanager
    def _as_write_error(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, EdgewiseError):
                raise
            raise WriteError(path, error, resumable=self.checkpoint.is_file()) from error

    def _parts(self) -> list[Path]:
        """Return the temporary files in the folder, including leftovers of killed processes."""
        return list(self.path.glob(".part-*"))

    def write_json(self, name: str, value: Any) -> None:
        """Write indented JSON, with ``null`` for NaN and infinity."""
        text = _indented(value)
        self.write(name, lambda part: part.write_text(text, encoding="utf-8"))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of this run.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file does not contain a JSON object.
        """
        with self._reading(name, "a JSON file with an object"):
            value = json.loads(self._existing(name).read_text(encoding="utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"a {type(value).__name__}")
            return value

    def read_metrics(self) -> dict[str, Any]:
        """Read ``metrics.json``, with NaN for ``null``.

        Raises:
            See :meth:`read_json`.
        """
        metrics: dict[str, Any] = _numbers(self.read_json(METRICS))
        return metrics

    @contextmanager
    def _reading(
        self, name: str, expected: str, remedy: str = "restore the file"
    ) -> Iterator[None]:
        """Convert errors of reading into an error that names the missing or damaged file."""
        path = self.path / name
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingDataError(
                f"{path}: no such file. Remedy: name a run folder of `edgewise train`."
            ) from error
        except Exception as error:  # Parsers raise many types of errors for damaged files.
            if isinstance(error, (EdgewiseError, PermissionError)):
                raise
            raise ArgumentError(
                str(path),
                expected=expected,
                got=" ".join(str(error).split()) or type(error).__name__,
                remedy=remedy,
            ) from error

    def has(self, name: str) -> bool:
        """Return whether the folder contains the file ``name``."""
        return self._existing(name).is_file()

    def _existing(self, name: str) -> Path:
        """Return the path of a file, under its old name if only that file exists."""
        old = self.path / OLD_FILES.get(name, name)
        return old if old.is_file() and not (self.path / name).is_file() else self.path / name

    def write_log(self, rows: list[Row]) -> None:
        """Write ``log.csv``, with a row for each epoch."""

        def fill(part: Path) -> None:
            with part.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, list(rows[0]) if rows else [])
                table.writeheader()
                table.writerows(rows)

        self.write(LOG, fill)

    def read_log(self) -> list[Row]:
        """Read the rows of ``log.csv``."""
        with (
            self._reading(LOG, "a table of numbers, a row for each epoch"),
            (self.path / LOG).open(newline="", encoding="utf-8") as file,
        ):
            return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def check_checkpoint(self) -> None:
        """Raise ArgumentError if the checksums in the checkpoint show that it is damaged."""
        with (
            self._reading(self.checkpoint.name, "a checkpoint as it was saved", BEGIN_AGAIN),
            ZipFile(self.checkpoint) as parts,
        ):
            damaged = parts.testzip()
            if damaged is not None:
                raise BadZipFile(f"a wrong checksum of {damaged}")

    @contextmanager
    def restoring(self, has_begun: Callable[[], bool]) -> Iterator[None]:
        """Report an error that is raised before training begins as a checkpoint of another run."""
        try:
            yield
        except Exception:
            if has_begun():
                raise
            with self._reading(self.checkpoint.name, "a checkpoint of this run", BEGIN_AGAIN):
                raise

    def write_weights(self, weights: dict[str, Tensor]) -> None:
        """Write ``model.safetensors``; see :meth:`write_tensors`."""
        self.write_tensors(self.weights.name, weights)

    def read_weights(self, known: Collection[str] = ()) -> dict[str, Tensor]:
        """Read ``model.safetensors``; see :meth:`read_tensors`.

        Args:
            known: names of the model's parameters. Saved names of earlier versions are replaced by
                these names.
        """
        weights = self.read_tensors(self.weights.name)
        new = {name: new_parameter_name(name) for name in weights if name not in known}
        return {
            new[name] if new.get(name) in known else name: weight
            for name, weight in weights.items()
        }

    def write_tensors(self, name: str, tensors: dict[str, Tensor]) -> str:
        """Write named tensors to a file with a digest of its content, and return the digest."""
        require("safetensors", extra="predict", purpose="saving weights")
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        own = {key: value.detach().cpu().clone() for key, value in tensors.items()}
        digest = _digest(own)

        def fill(part: Path) -> None:
            try:
                save_file(own, part, metadata={DIGEST: digest})
            except SafetensorError as error:
                raise OSError(str(error)) from error

        self.write(name, fill)
        return digest

    def read_tensors(self, name: str, digest: str | None = None) -> dict[str, Tensor]:
        """Read the tensors of a file, and verify their digest.

        Args:
            name: name of the file.
            digest: digest that :meth:`write_tensors` returned, if it was saved elsewhere.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file is damaged, or its digest differs from ``digest``.
            MissingExtraError: safetensors is not installed.
        """
        require("safetensors", extra="predict", purpose="reading weights")
        from safetensors import safe_open

        with (
            self._reading(name, "an undamaged file of tensors", "train again"),
            safe_open(self._existing(name), "pt") as file,
        ):
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            saved = (file.metadata() or {}).get(DIGEST)
            if saved is not None and saved != _digest(tensors):
                raise ValueError("a wrong digest")
            if digest is not None and digest != _digest(tensors):
                raise ValueError("tensors of another run")
            return tensors

    def load_weights(self, model: nn.Module) -> None:
        """Load ``model.safetensors`` into a model; remove the heads that the run has removed.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file is damaged, or belongs to another model.
        """
        if self.has(HEADS):
            keep_heads(model, self.read_json(HEADS))
        weights = self.read_weights(model.state_dict())
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise ArgumentError(
                str(self.weights),
                expected=f"the weights of the model in {RECIPE}",
                got=differing(disagreements(weights, model.state_dict())),
                remedy="train again if the run is of an earlier version of Edgewise; otherwise use "
                f"{RECIPE} and {self.weights.name} of the same run",
            ) from error

    def write_figure(self, name: str, figure: Figure) -> None:
        """Write a picture in the format of its suffix, such as ``.png``, ``.svg`` or ``.pdf``.

        Raises:
            ArgumentError: the format is unknown.
        """
        form = Path(name).suffix.removeprefix(".").lower()
        forms = figure.canvas.get_supported_filetypes()
        if form not in forms:
            raise ArgumentError(
                str(self.path / name),
                expected=f"a name that ends in {', '.join(f'.{known}' for known in sorted(forms))}",
                got=name,
                remedy=f"write {Path(name).stem}.png",
            )
        self.write(name, lambda part: figure.savefig(part, dpi=150, format=form))


def finite(value: Any) -> Any:
    """Replace NaN and infinity in a nested value by ``None``, for JSON."""
    return _replaced(value, lambda one: isinstance(one, float) and not math.isfinite(one), None)


def _numbers(value: Any) -> Any:
    return _replaced(value, lambda one: one is None, math.nan)


def _replaced(value: Any, wrong: Callable[[Any], bool], by: float | None) -> Any:
    if isinstance(value, Mapping):
        return {name: _replaced(one, wrong, by) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(one, wrong, by) for one in value]
    return by if wrong(value) else value


def _indented(value: Any) -> str:
    return json.dumps(finite(value), indent=2) + "\n"


def _digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, dtypes, shapes and values."""
    found = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        found.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
        found.update(weight.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def disagreements(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """Describe each saved weight whose shape differs from that in a model, or that is missing."""
    shapes = {
        name: tuple(
            str(list(weights[name].shape)) if name in weights else "none"
            for weights in (found, wanted)
        )
        for name in {**wanted, **found}  # The order is that of the model.
    }
    return [
        f"{name} is {there} there and {here} here"
        for name, (there, here) in shapes.items()
        if there != here
    ]


def differing(wrong: list[str]) -> str:
    """Describe the number of weights that differ, and list the first few."""
    count = f"{len(wrong)} weight{'s that differ' if len(wrong) > 1 else ' that differs'}"
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return f"{count}: {'; '.join(wrong[:SHOWN])}{more}"
