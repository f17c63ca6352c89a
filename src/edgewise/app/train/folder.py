"""Run folders: functions that read and write the files of a run, in common formats."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from edgewise._utils.digits import map_leaves
from edgewise._utils.errors import (
    ArgumentError,
    EdgewiseError,
    Interrupted,
    MissingDataError,
    RunExistsError,
    WriteError,
    reading,
    require,
)
from edgewise._utils.limits import check_memory, check_regular, read_json_object
from edgewise._utils.writing import DPI, TEMPORARY, write_file
from edgewise.app.train.process import agreed, rank_and_world_size
from edgewise.layers.pruning import keep_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, float]
RECIPE = "recipe.json"
LOG, CURVES = "log.csv", "curves.png"
METRICS, NOTES = "metrics.json", "notes.json"
WEIGHTS, CHECKPOINT = "model.safetensors", "checkpoint.ckpt"
PREPROCESSING, PREPROCESSING_TENSORS = "preprocessing.json", "preprocessing.safetensors"
TEST_EXAMPLES = "test_examples.safetensors"
"""File with the metrics of each test example; see :meth:`Task.per_example_metrics`."""
HEADS = "kept_heads.json"
"""File in the folder of a pruned run that lists the remaining attention heads of each layer."""
MAX_HEADS = 128
"""Number of heads that a pruned layer may have had for each remaining head."""
BEGINNINGS = {"tokenizer.json", PREPROCESSING, PREPROCESSING_TENSORS}
"""Files that are written before the first step, in addition to the first file (see ``claimed``)."""
RUN_FILES = {RECIPE, LOG, CURVES, METRICS, NOTES, TEST_EXAMPLES, HEADS, *BEGINNINGS}
RUN_FILES |= {WEIGHTS, CHECKPOINT, "held_out.safetensors", "baseline.json"}
"""Files of a run folder, which other results must not replace."""
BEGIN_AGAIN = "delete this file; --resume then restarts the run from its beginning"
DIGEST = "sha256"
SHOWN = 3
"""Maximum number of weights that an error lists."""


@dataclass(frozen=True)
class RunFolder:
    """Folder with the files of one run. Each file is written completely or not at all.

    Example:
        >>> from pathlib import Path
        >>> from edgewise.app.train import RunFolder
        >>> RunFolder(Path("runs/mine")).weights.name
        'model.safetensors'
    """

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Path of the checkpoint from which an unfinished run is resumed."""
        return self.path / CHECKPOINT

    @property
    def weights(self) -> Path:
        """Path of the weights of the kept epoch of a finished run."""
        return self.path / WEIGHTS

    def refuse_existing(self, *, resumable: bool = True) -> None:
        """Raise RunExistsError if the path exists and is not an empty folder, apart from temporary
        files of killed processes. The error suggests ``--resume`` if ``resumable``.
        """
        if rank_and_world_size()[0]:  # Rank 0 checks and writes the folder.
            return
        if self.path.is_dir() and set(self.path.iterdir()) <= set(self.path.glob(TEMPORARY)):
            return
        if self.path.exists():
            raise self._exists(resumable=resumable)

    def make(self) -> None:
        """Create the folder if it does not exist."""
        with self._as_write_error(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def refuse_overwriting(self) -> None:
        """Raise RunExistsError if the folder contains files of a finished run."""
        written = any(self.has(name) for name in (LOG, WEIGHTS, METRICS))
        if self.has(METRICS) or (written and not self.has(CHECKPOINT)):
            raise RunExistsError(
                f"{self.path} contains a finished run, which is never overwritten. "
                "Remedy: name another folder."
            )

    def _exists(self, *, resumable: bool = True) -> RunExistsError:
        resume = "continue the run with --resume, or " if resumable else ""
        return RunExistsError(
            f"{self.path} exists, and a run is never overwritten. "
            f"Remedy: {resume}name another folder with --out."
        )

    def refuse_several(self) -> None:
        """Raise ArgumentError if the folder contains several runs, one for each seed or fold."""
        runs = self.runs()
        if runs:
            raise ArgumentError(
                str(self.path),
                expected="the folder of one run",
                got=f"a folder of several runs, {runs[0].name} to {runs[-1].name}",
                remedy=f"name the folder of one run, such as {runs[0]}",
            )

    def runs(self) -> list[Path]:
        """Return the folders of the runs for several seeds or folds in this folder, in order."""
        recipes = (
            path for kind in ("seed", "fold") for path in self.path.glob(f"{kind}-*/{RECIPE}")
        )
        runs = [path.parent for path in recipes]
        for run in runs:
            if run.is_symlink():
                raise _outside(run)
        return sorted(runs, key=lambda run: (len(run.name), run.name))

    @contextmanager
    def claimed(self, name: str, record: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
        """Create the folder and its first file, so that no other process can use the folder.

        After an error in the ``with`` block, both are deleted, unless the folder has other files,
        such as a checkpoint. They stay if the run is interrupted or killed, and can be resumed.

        Raises:
            RunExistsError: another process created the file first.
            WriteError: the folder cannot be written.
        """
        created = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        claimed = False
        try:
            with agreed():
                self.make()
                self.write_json(name, record, replace=resume)
                claimed = not resume and not rank_and_world_size()[0]
            yield
        except Interrupted:
            raise
        except Exception:
            if claimed:
                self._give_up(name)
            for folder in created:
                # rmdir fails if the folder is not empty or was not created.
                with suppress(OSError):
                    folder.rmdir()
            raise

    def _give_up(self, name: str) -> None:
        """Delete the files that are written before training, if the folder contains no others."""
        with suppress(OSError):
            files = list(self.path.iterdir())
            if {file.name for file in files} <= {name, *BEGINNINGS}:
                for file in files:
                    file.unlink()

    def write(self, name: str, fill: Callable[[Path], object], *, replace: bool = True) -> Path:
        """Write a file atomically with ``fill``, which gets a temporary path; return its path.
        Without ``replace``, an existing file raises RunExistsError. Of several processes, only that
        of rank 0 writes.
        """
        final = self.path / name
        if rank_and_world_size()[0]:
            return final
        with self._as_write_error(final):
            try:
                return write_file(final, fill, replace=replace)
            except FileExistsError:
                if replace:
                    raise
                raise self._exists() from None

    @contextmanager
    def _as_write_error(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, EdgewiseError):
                raise
            raise WriteError(path, error, resumable=self.checkpoint.is_file()) from error

    def write_json(self, name: str, value: Any, *, replace: bool = True) -> None:
        """Write a value to a file as indented JSON, with ``null`` for NaN and infinity."""
        text = json.dumps(finite(value), indent=2) + "\n"
        self.write(name, lambda file: file.write_text(text, encoding="utf-8"), replace=replace)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of this run.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file does not contain a JSON object.
        """
        with self.reading(name, "a JSON file with an object") as path:
            return read_json_object(path)

    def read_metrics(self) -> dict[str, Any]:
        """Read ``metrics.json``, with NaN for ``null``."""
        metrics: dict[str, Any] = map_leaves(
            self.read_json(METRICS), lambda leaf: math.nan if leaf is None else leaf
        )
        return metrics

    @contextmanager
    def reading(self, name: str, expected: str, remedy: str = "restore the file") -> Iterator[Path]:
        """Yield the path of a file; errors in the ``with`` block name it as missing or damaged. The
        error says what was ``expected``, and the ``remedy`` for a damaged file.
        """
        path = self.path / name
        with reading(path, expected=expected, remedy=remedy):
            try:
                yield self.file(name)
            except MissingDataError:  # It names another file, such as one of the data.
                raise
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingDataError(
                    f"{path}: no such file. Remedy: name a run folder that `edgewise train` wrote."
                ) from error

    def has(self, name: str) -> bool:
        """Return whether the folder contains the file ``name``."""
        return self.file(name).is_file()

    def file(self, name: str) -> Path:
        """Return the path of a file.

        Raises:
            ArgumentError: it is not a regular file, or a link to a file outside the folder, which
                may come from someone else.
        """
        path = self.path / name
        try:
            inside = path.resolve().is_relative_to(self.path.resolve())
        except (OSError, RuntimeError):  # A link that names itself.
            inside = False
        if not inside:
            raise _outside(path)
        if path.exists():
            check_regular(path)
        return path

    def write_log(self, rows: list[Row]) -> None:
        """Write ``log.csv``, with the metrics of each epoch in a row."""
        table = io.StringIO()
        writer = csv.DictWriter(table, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
        text = table.getvalue()
        self.write(LOG, lambda file: file.write_text(text, encoding="utf-8", newline=""))

    def read_log(self) -> list[Row]:
        """Read the rows of ``log.csv``."""
        with (
            self.reading(LOG, "a table of numbers, a row for each epoch") as path,
            path.open(newline="", encoding="utf-8") as file,
        ):
            return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def check_checkpoint(self) -> None:
        """Raise ArgumentError if the checksums in the checkpoint show that it is damaged."""
        with (
            self.reading(CHECKPOINT, "an undamaged checkpoint", BEGIN_AGAIN) as path,
            ZipFile(path) as archive,
        ):
            damaged = archive.testzip()
            if damaged is not None:
                raise BadZipFile(f"a wrong checksum of {damaged}")

    @contextmanager
    def restoring(self, has_begun: Callable[[], bool]) -> Iterator[None]:
        """Report errors raised before training begins as a damaged or wrong checkpoint."""
        try:
            yield
        except Exception:
            if has_begun():
                raise
            with self.reading(CHECKPOINT, "a checkpoint of this run", BEGIN_AGAIN):
                raise

    def write_tensors(self, name: str, tensors: dict[str, Tensor]) -> str:
        """Write tensors to a file with a SHA-256 digest of its content, and return the digest."""
        require("safetensors", extra="predict", purpose="saving weights")
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        tensors = {key: value.detach().cpu().clone() for key, value in tensors.items()}
        digest = _digest(tensors)
        try:
            self.write(name, lambda file: save_file(tensors, file, metadata={DIGEST: digest}))
        except SafetensorError as error:
            raise WriteError(
                self.path / name, OSError(str(error)), resumable=self.checkpoint.is_file()
            ) from error
        return digest

    def read_tensors(self, name: str, digest: str | None = None) -> dict[str, Tensor]:
        """Read the tensors of a file by name, and verify their digest.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file is damaged, or its digest differs from ``digest``.
            MissingExtraError: safetensors is not installed.
        """
        require("safetensors", extra="predict", purpose="reading weights")
        from safetensors import safe_open

        with (
            self.reading(name, "an undamaged file of tensors", "train again") as path,
            safe_open(path, "pt") as file,
        ):
            check_memory(str(self.path / name), path.stat().st_size, name, "free memory")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            actual = _digest(tensors)
            if (file.metadata() or {}).get(DIGEST, actual) != actual:
                raise ValueError("a wrong digest")
            if digest not in (None, actual):
                raise ValueError("tensors of another run")
            return tensors

    def count_weights(self) -> int:
        """Return the number of values in ``model.safetensors``, from its header. Layers with
        removed heads count ``MAX_HEADS`` times, because the model is built with all heads.
        """
        require("safetensors", extra="predict", purpose="reading weights")
        from safetensors import safe_open

        layers = self.read_json(HEADS) if self.has(HEADS) else {}
        pruned = tuple(f"{layer}." for layer in layers)
        name = WEIGHTS
        with (
            self.reading(name, "an undamaged file of tensors", "train again") as path,
            safe_open(path, "pt") as file,
        ):
            return sum(
                math.prod(file.get_slice(key).get_shape())
                * (MAX_HEADS if key.startswith(pruned) else 1)
                for key in file.keys()  # noqa: SIM118
            )

    def load_weights(self, model: nn.Module) -> None:
        """Load ``model.safetensors`` into a model, from which pruned heads are removed first.

        Raises:
            MissingDataError: the file does not exist.
            ArgumentError: the file is damaged, or belongs to another model.
        """
        if self.has(HEADS):
            keep_heads(model, self.read_json(HEADS))
        state = model.state_dict()
        weights = self.read_tensors(WEIGHTS)
        self._check_values(weights, state)
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise ArgumentError(
                str(self.weights),
                expected=f"the weights of the model in {RECIPE}",
                got=differing(disagreements(weights, state)),
                remedy="train again if the run is of an earlier version of Edgewise; otherwise use "
                f"{RECIPE} and {WEIGHTS} of the same run",
            ) from error

    def _check_values(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Raise ArgumentError if weights are NaN, or have another type than those of the model."""
        for name, weight in weights.items():
            dtype = state[name].dtype if name in state else weight.dtype
            if weight.dtype != dtype:
                got, remedy = str(weight.dtype), f"convert the file to {dtype}, or train again"
            elif weight.is_floating_point() and bool(weight.isnan().any()):
                got, remedy = "NaN", "train again, with a lower optimizer.lr if the loss was NaN"
            else:
                continue
            raise ArgumentError(
                str(self.weights),
                expected=f"numbers of type {dtype} in {name}",
                got=got,
                remedy=remedy,
            )

    def write_figure(self, name: str, figure: Figure) -> None:
        """Write a figure to an image file, whose suffix selects the format, such as ``.png``."""
        image_format = figure_format(self.path / name)
        self.write(name, lambda file: figure.savefig(file, dpi=DPI, format=image_format))


def refuse_run_file(argument: str, path: Path) -> None:
    """Raise ArgumentError if a result would replace a file of a run."""
    if path.name in RUN_FILES and path.with_name(RECIPE).exists():
        raise ArgumentError(
            argument,
            expected="a file that is not one of the files of a run",
            got=str(path),
            remedy=f"choose another name, such as {path.with_stem(f'new-{path.stem}')}",
        )


def _outside(path: Path) -> ArgumentError:
    return ArgumentError(
        str(path),
        expected="a regular file or folder inside the run folder",
        got="a link",
        remedy="copy the content to this place, if you trust the folder",
    )


def figure_format(path: Path) -> str:
    """Return the image format that the suffix of a file selects, such as "png"."""
    require("matplotlib", extra="plot", purpose="drawing")
    from matplotlib.backend_bases import FigureCanvasBase

    suffix, suffixes = path.suffix.removeprefix(".").lower(), FigureCanvasBase.filetypes
    if suffix in suffixes:
        return suffix
    raise ArgumentError(
        str(path),
        expected=f"a name that ends in .{', .'.join(sorted(suffixes))}",
        got=path.name,
        remedy=f"write {path.stem}.png",
    )


def finite(value: Any) -> Any:
    """Return nested lists and dicts with None in place of NaN and infinity, for JSON."""
    return map_leaves(value, lambda x: None if isinstance(x, float) and not math.isfinite(x) else x)


def _digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the names, dtypes, shapes and values of tensors."""
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
        digest.update(weight.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def disagreements(saved: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    """Return a text for each weight that only one side has, or whose shapes differ."""
    shapes = {
        name: tuple(
            str(list(weights[name].shape)) if name in weights else "none"
            for weights in (saved, expected)
        )
        for name in {**expected, **saved}  # The order is that of the model.
    }
    return [
        f"{name} is {in_folder} in the folder, {in_model} in the model"
        for name, (in_folder, in_model) in shapes.items()
        if in_folder != in_model
    ]


def differing(disagreements: list[str]) -> str:
    """Return a text with the number of weights that differ, and the first few of them."""
    count = len(disagreements)
    noun = "weights that differ" if count > 1 else "weight that differs"
    rest = f"; and {count - SHOWN} more" if count > SHOWN else ""
    return f"{count} {noun}: {'; '.join(disagreements[:SHOWN])}{rest}"
