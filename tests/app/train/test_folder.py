"""The files of a run: whole, of the umask's mode, read back as written or named as damaged."""

from __future__ import annotations

import json
import math
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from edgewise._utils.errors import (
    ArgumentError,
    EdgewiseError,
    Interrupted,
    MissingDataError,
    WriteError,
)
from edgewise.app.train import (
    Batch,
    Classification,
    ConstantSchedule,
    Loader,
    OptimizerSettings,
    RunFolder,
    TrainerSettings,
    fit,
)
from tests.errors import refused

pytest.importorskip("lightning")

SETTINGS = TrainerSettings(
    epochs=2, save_every=0, accelerator="cpu", monitor="val/loss", mode="min"
)


def go(folder: RunFolder, model: nn.Module | None = None, lr: float = 1e-3) -> None:
    """Train a very small model, or go on with it."""
    loader = Loader(lambda i: Batch((torch.ones(len(i), 2) * i[:, None],), i % 2), 8, 2)
    fit(
        model or nn.Linear(2, 2),
        Classification(),
        {"train": loader, "val": loader, "test": loader},
        folder,
        optimizer=OptimizerSettings(lr=lr),
        schedule=ConstantSchedule(),
        trainer=SETTINGS,
    )


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A folder with the checkpoint of a run that was stopped."""
    from edgewise.app.train import TrainingModule

    def training_step(self: TrainingModule, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == 3:
            raise KeyboardInterrupt
        return original(self, batch, batch_idx)

    original = TrainingModule.training_step
    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "training_step", training_step)
        patch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)
        with pytest.raises(Interrupted):
            go(RunFolder(tmp_path))
    assert RunFolder(tmp_path).checkpoint.is_file()
    return RunFolder(tmp_path)


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_files_have_the_mode_that_the_umask_leaves(
    umask: int, tmp_path: Path, stopped: RunFolder
) -> None:
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    go(stopped)
    modes |= {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert {"checkpoint.ckpt", "model.safetensors", "metrics.json", "log.csv"} <= modes.keys()
    assert set(modes.values()) == {0o666 & ~umask}, modes


def damaged(content: bytes) -> Iterator[bytes]:
    """The same file cut off, empty, garbled, and with one bit flipped anywhere."""
    yield from (b"", b"x", content[:20], content[: len(content) // 2], content[:-1])
    yield bytes(len(content))
    yield content[: len(content) // 2] + bytes(64) + content[len(content) // 2 + 64 :]
    draw = random.Random(0)
    for _ in range(150):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        yield bytes(flipped)


def test_damaged_weights_are_named_or_read_as_they_were(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    saved = {"a.weight": torch.randn(5, 3), "b": torch.tensor(3), "c": torch.ones(4).bfloat16()}
    run.write_tensors("model.safetensors", saved)
    whole, named = run.weights.read_bytes(), 0
    for content in damaged(whole):
        run.weights.write_bytes(content)
        try:
            found = run.read_tensors("model.safetensors")
        except ArgumentError as error:
            named += error.argument == str(run.weights)
        else:
            assert found.keys() == saved.keys()
            assert all(torch.equal(found[name], saved[name]) for name in saved)
    assert named > 120
    run.weights.write_bytes(whole)
    assert all(
        torch.equal(run.read_tensors("model.safetensors")[name], saved[name]) for name in saved
    )
    run.weights.unlink()
    with pytest.raises(MissingDataError, match="no such file"):
        run.read_tensors("model.safetensors")


def test_weights_without_a_digest_are_read_too(tmp_path: Path) -> None:
    """As other programs write them, and Edgewise before it had one."""
    run = RunFolder(tmp_path)
    save_file({"a": torch.ones(2)}, run.weights)
    assert torch.equal(run.read_tensors("model.safetensors")["a"], torch.ones(2))


def test_weights_can_be_read_by_others(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_tensors("model.safetensors", {"a": torch.ones(2)})
    assert torch.equal(load_file(tmp_path / "model.safetensors")["a"], torch.ones(2))


def test_a_damaged_checkpoint_is_named_or_holds_what_it_held(stopped: RunFolder) -> None:
    whole, named = stopped.checkpoint.read_bytes(), 0
    state = torch.load(stopped.checkpoint, weights_only=True)
    for content in damaged(whole):
        stopped.checkpoint.write_bytes(content)
        try:
            stopped.check_checkpoint()
        except ArgumentError as error:
            named += error.argument == str(stopped.checkpoint)
        else:
            try:
                found = torch.load(stopped.checkpoint, weights_only=True)
            except Exception:  # named where training restores it, as below
                continue
            assert found["global_step"] == state["global_step"]
            for name, weight in state["state_dict"].items():
                assert torch.equal(found["state_dict"][name], weight)
    assert named > 100


def test_a_run_does_not_go_on_from_a_damaged_checkpoint(stopped: RunFolder) -> None:
    whole = bytearray(stopped.checkpoint.read_bytes())
    weight = torch.load(stopped.checkpoint, weights_only=True)["state_dict"]["model.weight"]
    place = whole.index(weight.numpy().tobytes())
    whole[place + 3] ^= 0x40  # the exponent of a weight: the loss would become infinite
    stopped.checkpoint.write_bytes(whole)
    with refused(
        str(stopped.checkpoint),
        expected="an undamaged checkpoint",
        got="a wrong checksum",
        remedy="delete this file",
    ):
        go(stopped)
    stopped.checkpoint.unlink()
    go(stopped)
    assert stopped.has("metrics.json")


def test_a_checkpoint_of_something_else(stopped: RunFolder) -> None:
    with refused(
        str(stopped.checkpoint), expected="of this run", got="size mismatch", remedy="delete this"
    ):
        go(stopped, nn.Linear(2, 3))
    state = torch.load(stopped.checkpoint, weights_only=True)
    for part in ("state_dict", "optimizer_states", "callbacks"):
        torch.save({k: v for k, v in state.items() if k != part}, stopped.checkpoint)
        with pytest.raises(ArgumentError, match="checkpoint of this run"):
            go(stopped)
    torch.save([1, 2], stopped.checkpoint)
    with pytest.raises(ArgumentError, match="checkpoint of this run"):
        go(stopped)


def test_a_loss_that_becomes_infinite_still_names_the_rate(stopped: RunFolder) -> None:
    stopped.checkpoint.unlink()
    with refused("optimizer.lr", expected="stays finite", got="epoch", remedy="lower optimizer.lr"):
        go(stopped, lr=1e38)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a"', "\x00", "3"])
def test_damaged_texts_are_named(text: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.json").write_text(text)
    with refused(
        str(tmp_path / "metrics.json"), expected="JSON", got="", remedy="restore the file"
    ):
        run.read_json("metrics.json")
    (tmp_path / "log.csv").write_text("epoch,loss\n0,\x00x")
    with refused(str(tmp_path / "log.csv"), expected="a table of numbers", got="", remedy=""):
        run.read_log()


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)

    def full(part: Path) -> None:
        part.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match=r"x\.txt: cannot be written \(No space left .*Remedy"):
        run.write("x.txt", full)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for path in (Path("/proc/x"), Path("/dev/null/x"), tmp_path / "file" / "run"):
        with pytest.raises(WriteError, match="cannot be written"):  # noqa: SIM117
            with RunFolder(path).claimed("recipe.json", {}, resume=False):
                raise AssertionError
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_one_process_alone_claims_a_folder(tmp_path: Path) -> None:
    """All of them find it empty, and then all of them begin."""
    children = []
    read, write = os.pipe()
    for number in range(8):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until all are there
            code = 1
            try:
                run = RunFolder(tmp_path / "deep" / "run")
                with run.claimed("recipe.json", {"number": number}, resume=False):
                    code = 0
            except EdgewiseError:
                code = 3
            finally:
                os._exit(code)
        children.append(child)
    os.close(write)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(read)
    assert sorted(codes) == [0, *[3] * 7]
    winner = RunFolder(tmp_path / "deep" / "run").read_json("recipe.json")["number"]
    assert codes[winner] == 0
    assert [file.name for file in (tmp_path / "deep" / "run").iterdir()] == ["recipe.json"]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    run = RunFolder(tmp_path / "run")
    with run.claimed("recipe.json", {"a": 1}, resume=False):
        assert run.read_json("recipe.json") == {"a": 1}
        with (
            pytest.raises(EdgewiseError, match="never overwritten"),
            run.claimed("recipe.json", {"a": 2}, resume=False),
        ):
            raise AssertionError
    assert run.read_json("recipe.json") == {"a": 1}


def breaks(run: RunFolder, error: Exception, name: str) -> None:
    """Claim the folder, write one more file, and fail."""
    with run.claimed("recipe.json", {}, resume=False):
        run.write(name, Path.touch)
        raise error


def test_an_error_before_anything_is_worth_continuing_takes_the_folder_away(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "deep" / "run", tmp_path / "empty"):
        with pytest.raises(ZeroDivisionError):
            breaks(RunFolder(path), ZeroDivisionError(), "tokenizer.json")
    assert [file.name for file in tmp_path.iterdir()] == ["empty"]
    assert list((tmp_path / "empty").iterdir()) == []
    cases = ((ZeroDivisionError(), "checkpoint.ckpt"), (Interrupted(2), "tokenizer.json"))
    for error, name in cases:
        run = RunFolder(tmp_path / type(error).__name__)
        with pytest.raises(type(error)):
            breaks(run, error, name)
        assert {file.name for file in run.path.iterdir()} == {"recipe.json", name}


def test_what_a_killed_process_was_writing_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".edgewise-1.part").mkdir()
    (tmp_path / ".edgewise-1.part/recipe.json").write_text("{")  # killed before it had the folder
    run = RunFolder(tmp_path)
    run.refuse_existing()
    with run.claimed("recipe.json", {}, resume=False):
        pass
    (tmp_path / ".edgewise-2.part").mkdir()
    (tmp_path / ".edgewise-2.part/checkpoint.ckpt").write_text("half")
    with run.claimed("recipe.json", {}, resume=True):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["recipe.json"]


def test_a_picture_has_the_form_that_its_name_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    folder = RunFolder(tmp_path)
    folder.write_figure("drawn.svg", Figure())
    assert "<svg" in (tmp_path / "drawn.svg").read_text()
    folder.write_figure("drawn.PNG", Figure())
    assert (tmp_path / "drawn.PNG").read_bytes().startswith(b"\x89PNG")
    for name in ("drawn.xyz", "drawn"):
        with refused(str(tmp_path / name), expected=".png", got=name, remedy="drawn.png"):
            folder.write_figure(name, Figure())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.PNG", "drawn.svg"]


def test_json_has_null_for_what_is_no_number(tmp_path: Path) -> None:
    """``NaN`` and ``Infinity`` are no JSON: strict readers, such as a browser's, refuse them."""
    folder, nan = RunFolder(tmp_path), math.nan
    folder.write_json("metrics.json", {"a": nan, "b": {"mean": -math.inf, "values": [1.5, nan]}})

    def refuse(name: str) -> None:
        raise ValueError(name)

    text = (tmp_path / "metrics.json").read_text()
    found = json.loads(text, parse_constant=refuse)
    assert found == {"a": None, "b": {"mean": None, "values": [1.5, None]}}
    read = folder.read_metrics()
    assert math.isnan(read["a"])
    assert math.isnan(read["b"]["mean"])
    assert read["b"]["values"][0] == 1.5
    assert math.isnan(read["b"]["values"][1])


def test_weights_of_another_model_are_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_tensors("model.safetensors", {"weight": torch.zeros(2, 3), "extra": torch.zeros(4)})
    with refused(
        str(run.weights),
        expected="the model in recipe.json",
        got="3 weights that differ: weight is [2, 3] in the folder, [2, 5] in the model; bias is "
        "none in the folder, [2] in the model; extra is [4] in the folder, none in the model",
        remedy="train again",
    ):
        run.load_weights(torch.nn.Linear(5, 2))
    run.write_tensors("model.safetensors", {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)})
    with refused(str(run.weights), expected="", got="1 weight that differs: weight", remedy=""):
        run.load_weights(torch.nn.Linear(5, 2))


def test_only_started_runs_can_be_resumed_after_a_full_disk(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)

    def full(part: Path) -> None:
        raise OSError(28, "No space left on device", str(part))

    with pytest.raises(WriteError, match=r"another folder\.$"):
        run.write("heads.png", full)
    run.checkpoint.touch()
    with pytest.raises(WriteError, match=r"another folder; --resume continues the run\.$"):
        run.write("log.csv", full)
