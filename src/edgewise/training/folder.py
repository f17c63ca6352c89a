"""What a run leaves behind, in files that others can read."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from edgewise.errors import ArgumentError, MissingDataError, MissingExtraError, RunExistsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, float]


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
        if self.path.is_dir() and not any(self.path.iterdir()):
            return
        if self.path.exists():
            raise RunExistsError(
                f"{self.path} exists, and a run is never overwritten. Remedy: --resume continues "
                "it, and --out names another folder."
            )

    def refuse_several(self) -> None:
        """Raise ArgumentError if it is a folder of several runs, by seed or by fold."""
        runs = sorted(
            (one for kind in ("seed", "fold") for one in self.path.glob(f"{kind}-*/recipe.json")),
            key=lambda one: (len(one.parent.name), one.parent.name),
        )
        if runs:
            raise ArgumentError(
                str(self.path),
                expected="the folder of one run",
                got=f"one of several, {runs[0].parent.name} to {runs[-1].parent.name}",
                remedy=f"name one of them, such as {runs[0].parent}",
            )

    def create(self) -> None:
        """Make the folder, and its parents."""
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Let ``fill`` write a file, which takes its name only when it is complete."""
        final = self.path / name
        part = final.with_name(f".{os.getpid()}.{final.name}")
        try:
            fill(part)
            part.replace(final)
        finally:
            part.unlink(missing_ok=True)
        return final

    def write_json(self, name: str, value: Any) -> None:
        """Write ``value``, indented."""
        text = json.dumps(value, indent=2) + "\n"
        self.write(name, lambda part: part.write_text(text, encoding="utf-8"))

    def read_json(self, name: str) -> Any:
        """Read a file of this run.

        Raises:
            MissingDataError: it is not there.
            ArgumentError: it is not JSON.

        """
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingDataError(
                f"{path}: no such file. Remedy: name the folder of a run that `edgewise train` "
                "has made."
            ) from error
        except ValueError as error:
            raise ArgumentError(
                str(path), expected="a JSON file", got=str(error), remedy="restore it"
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

        self.write("log.csv", fill)

    def read_log(self) -> list[Row]:
        """The rows of ``log.csv``."""
        with (self.path / "log.csv").open(newline="", encoding="utf-8") as file:
            return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def write_weights(self, weights: dict[str, Tensor]) -> None:
        """``model.safetensors``."""
        try:
            from safetensors.torch import save_file
        except ImportError as error:
            raise MissingExtraError("safetensors", "train", "saving weights") from error
        own = {name: value.detach().cpu().clone() for name, value in weights.items()}
        self.write(self.weights.name, lambda part: save_file(own, part))

    def load_weights(self, model: nn.Module) -> None:
        """Load ``model.safetensors``.

        Raises:
            ArgumentError: the weights are of another model.

        """
        from safetensors.torch import load_file

        try:
            model.load_state_dict(load_file(self.weights))
        except RuntimeError as error:
            raise ArgumentError(
                str(self.weights),
                expected="the weights of the model in recipe.json",
                got=str(error),
                remedy="keep the two files of one run together",
            ) from error

    def write_figure(self, name: str, figure: Figure) -> None:
        """Write a picture."""
        self.write(name, lambda part: figure.savefig(part, dpi=150, format="png"))
