"""What a run leaves behind, in files that others can read."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
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
from edgewise.training.interrupt import Interrupted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, float]
RECIPE = "recipe.json"
LOG, CURVES = "log.csv", "curves.png"
METRICS, NOTES = "metrics.json", "notes.json"
FITTED, FITTED_TENSORS = "fitted.json", "fitted.safetensors"
BEGINNINGS = {"tokenizer.json", FITTED, FITTED_TENSORS}
"""What is written before the first step, besides the file that claims the folder."""
BEGIN_AGAIN = "delete it, and --resume begins the run again"
DIGEST = "sha256"


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, each written whole or not at all."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """What an unfinished run continues from."""
        return self.path / "checkpoint.ckpt"

    @property
    def weights(self) -> Path:
        """The best weights of a finished run."""
        return self.path / "model.safetensors"

    def refuse_existing(self) -> None:
        """Raise RunExistsError if there is anything in the folder."""
        if self.path.is_dir() and set(self.path.iterdir()) <= set(self._parts()):
            return
        if self.path.exists():
            raise self._exists()

    def make(self) -> None:
        """Make the folder, where it is not there.

        Raises:
            WriteError: it cannot be made.

        """
        with _as_write_error(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def refuse_overwriting(self) -> None:
        """Raise RunExistsError if the folder holds what a finished run has written."""
        written = any(self.has(name) for name in (LOG, self.weights.name, METRICS))
        if self.has(METRICS) or (written and not self.checkpoint.is_file()):
            raise RunExistsError(
                f"{self.path} holds a run that has finished, and a run is never overwritten. "
                "Remedy: name another folder."
            )

    def _exists(self) -> RunExistsError:
        return RunExistsError(
            f"{self.path} exists, and a run is never overwritten. Remedy: --resume continues it, "
            "and --out names another folder."
        )

    def refuse_several(self) -> None:
        """Raise ArgumentError if it is a folder of several runs, by seed or by fold."""
        runs = sorted(
            (one for kind in ("seed", "fold") for one in self.path.glob(f"{kind}-*/{RECIPE}")),
            key=lambda one: (len(one.parent.name), one.parent.name),
        )
        if runs:
            raise ArgumentError(
                str(self.path),
                expected="the folder of one run",
                got=f"one of several, {runs[0].parent.name} to {runs[-1].parent.name}",
                remedy=f"name one of them, such as {runs[0].parent}",
            )

    @contextmanager
    def claimed(self, name: str, record: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
        """The folder, with ``record`` in the file ``name``, which one process alone can make.

        An error within takes both away again, unless there is something by then that is worth
        continuing. A run that is interrupted or killed keeps them, for ``resume``.

        Raises:
            RunExistsError: another process was faster.
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
                with suppress(OSError):  # it is not empty, or was never made
                    folder.rmdir()
            raise

    def _claim(self, name: str, record: Mapping[str, Any]) -> None:
        final, text = self.path / name, _indented(record)
        with self._part(final) as part:
            part.write_text(text, encoding="utf-8")
            try:
                try:
                    os.link(part, final)  # whole, and only where there is none
                except FileExistsError:
                    raise
                except OSError:  # a file system without hard links
                    with final.open("x", encoding="utf-8") as file:
                        file.write(text)
            except FileExistsError:
                raise self._exists() from None

    def _give_up(self, name: str) -> None:
        """Take away what a run begins with, where that is all there is."""
        begun = {name, *BEGINNINGS}
        with suppress(OSError):
            found = list(self.path.iterdir())
            if all(file.name in begun for file in found):
                for file in found:
                    file.unlink()

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Let ``fill`` write a file, which takes its name only when it is complete.

        Raises:
            WriteError: it cannot be written.

        """
        final = self.path / name
        with self._part(final) as part:
            part.touch()
            mode = stat.S_IMODE(part.stat().st_mode)  # as the umask wants it
            fill(part)
            part.chmod(mode)  # which some libraries make 0600
            part.replace(final)
        return final

    @contextmanager
    def _part(self, final: Path) -> Iterator[Path]:
        """A name beside ``final`` for what is being written, which is gone afterwards."""
        part = final.with_name(f".part-{os.getpid()}-{final.name}")
        with _as_write_error(final):
            try:
                yield part
            finally:
                part.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        """What is being written now, or was when its process was killed."""
        return list(self.path.glob(".part-*"))

    def write_json(self, name: str, value: Any) -> None:
        """Write ``value``, indented; ``null`` is what is NaN or infinite, which JSON cannot say."""
        text = _indented(value)
        self.write(name, lambda part: part.write_text(text, encoding="utf-8"))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a file of this run.

        Raises:
            MissingDataError: it is not there.
            ArgumentError: it is not an object in JSON.

        """
        with self._reading(name, "a JSON file with an object"):
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"a {type(value).__name__}")
            return value

    def read_metrics(self) -> dict[str, Any]:
        """``metrics.json``; what was not a number when it was written is NaN again.

        Raises:
            As :meth:`read_json`.

        """
        metrics: dict[str, Any] = _numbers(self.read_json(METRICS))
        return metrics

    @contextmanager
    def _reading(self, name: str, expected: str, remedy: str = "restore it") -> Iterator[None]:
        """Name the file where it is missing or damaged."""
        path = self.path / name
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingDataError(
                f"{path}: no such file. Remedy: name the folder of a run that `edgewise train` "
                "has made."
            ) from error
        except Exception as error:  # there is no list of what parsers say of damaged files
            if isinstance(error, (EdgewiseError, PermissionError)):
                raise
            raise ArgumentError(
                str(path),
                expected=expected,
                got=" ".join(str(error).split()) or type(error).__name__,
                remedy=remedy,
            ) from error

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return (self.path / name).is_file()

    def write_log(self, rows: list[Row]) -> None:
        """``log.csv``: a row for each epoch."""

        def fill(part: Path) -> None:
            with part.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, list(rows[0]) if rows else [])
                table.writeheader()
                table.writerows(rows)

        self.write(LOG, fill)

    def read_log(self) -> list[Row]:
        """The rows of ``log.csv``."""
        with (
            self._reading(LOG, "a table of numbers, a row for each epoch"),
            (self.path / LOG).open(newline="", encoding="utf-8") as file,
        ):
            return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def check_checkpoint(self) -> None:
        """Raise ArgumentError if the checkpoint is not as it was written: it has sums of itself."""
        with (
            self._reading(self.checkpoint.name, "a checkpoint as it was saved", BEGIN_AGAIN),
            ZipFile(self.checkpoint) as parts,
        ):
            damaged = parts.testzip()
            if damaged is not None:
                raise BadZipFile(f"other bytes in {damaged}")

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Name the checkpoint in an error within: it is whole, and of something else."""
        with self._reading(self.checkpoint.name, "a checkpoint of this run", BEGIN_AGAIN):
            yield

    def write_weights(self, weights: dict[str, Tensor]) -> None:
        """``model.safetensors``, with the digest of what is in it."""
        self.write_tensors(self.weights.name, weights)

    def read_weights(self) -> dict[str, Tensor]:
        """The tensors of ``model.safetensors``, by name; see :meth:`read_tensors`."""
        return self.read_tensors(self.weights.name)

    def write_tensors(self, name: str, tensors: dict[str, Tensor]) -> str:
        """A file of tensors by name, with the digest of what is in it, which it gives."""
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
        """The tensors of a file, by name.

        Args:
            name: of the file.
            digest: what :meth:`write_tensors` gave, where another file has kept it.

        Raises:
            MissingDataError: it is not there.
            ArgumentError: it is not as it was written, or of another run than the digest.
            MissingExtraError: safetensors is not installed.

        """
        require("safetensors", extra="predict", purpose="reading weights")
        from safetensors import safe_open

        with (
            self._reading(name, "tensors as they were saved", "train again"),
            safe_open(self.path / name, "pt") as file,
        ):
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            saved = (file.metadata() or {}).get(DIGEST)
            if saved is not None and saved != _digest(tensors):
                raise ValueError("other bytes")
            if digest is not None and digest != _digest(tensors):
                raise ValueError("those of another run")
            return tensors

    def load_weights(self, model: nn.Module) -> None:
        """Load ``model.safetensors``.

        Raises:
            MissingDataError: it is not there.
            ArgumentError: the weights are of another model, or damaged.

        """
        weights = self.read_weights()
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise ArgumentError(
                str(self.weights),
                expected=f"the weights of the model in {RECIPE}",
                got=" ".join(str(error).split()),
                remedy="keep the two files of one run together",
            ) from error

    def write_figure(self, name: str, figure: Figure) -> None:
        """Write a picture in the form that its name says, such as ``.png``, ``.svg`` or ``.pdf``.

        Raises:
            ArgumentError: there is no such form.

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
    """The value as JSON can have it: ``None`` in the place of NaN and infinity, however deep."""
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
    """SHA-256 of every name, type, shape and number."""
    found = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        found.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
        found.update(weight.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@contextmanager
def _as_write_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, EdgewiseError):
            raise
        raise WriteError(path, error) from error
