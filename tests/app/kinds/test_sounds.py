"""Recordings: splits, formats, damaged files, predictions and their reasons, baselines."""

from __future__ import annotations

import shutil
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import edgewise
from edgewise._utils.errors import MissingDataError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.sounds import Sounds, SpokenDigits
from edgewise.app.kinds.sounds.features import tenths, tokens_of, with_background
from edgewise.app.kinds.sounds.files import Recording, read_recording, resampled
from edgewise.app.runs import baselines, train, with_values
from tests.errors import case, refused
from tests.places import needs

wavfile = pytest.importorskip("scipy.io.wavfile")
pytest.importorskip("lightning")

RATE = 8000
PITCH = {"low": 300, "high": 1500}


def beep(pitch: float, tenth: int, *, seed: int = 0, rate: int = RATE, gain: float = 0.5) -> Any:
    """Half a second of quiet noise, with a tone in one tenth of a second."""
    samples = 0.01 * np.random.default_rng(seed).standard_normal(rate // 2)
    inside = slice(tenth * rate // 10, (tenth + 1) * rate // 10)
    samples[inside] += np.sin(2 * np.pi * pitch * np.arange(rate // 10) / rate)
    return (gain * samples * 2**14).astype(np.int16)


def save(path: Path, samples: Any, rate: int = RATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, samples)
    return path


def beeps(folder: Path, count: int = 40) -> Path:
    for i in range(count):
        name = list(PITCH)[i % 2]
        save(folder / name / f"{i}.wav", beep(PITCH[name], i % 5, seed=i))
    return folder


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on low and high tones, whose recordings are gone."""
    folder = tmp_path_factory.mktemp("beeps")
    data = Sounds(path=str(beeps(folder / "sounds")), bands=12, window=2, batch_size=8)
    small = {"model.width": 16, "model.depth": 1, "model.heads": 2, "trainer.epochs": 8}
    small |= {"trainer.accelerator": "cpu", "optimizer.lr": 1e-2}
    train(with_values(replace(find("sounds"), data=data), small), folder / "run")
    shutil.rmtree(folder / "sounds")
    return folder / "run"


def test_splits_and_tokens_of_a_folder(tmp_path: Path) -> None:
    data = Sounds(path=str(beeps(tmp_path)), bands=12, window=2)
    splits = data.load()
    assert splits.model_arguments == {"in_width": 24, "edge_width": 5, "out_width": 2}
    assert splits.preprocessing["labels"] == ["high", "low"]
    assert splits.preprocessing["rate"] == RATE
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [29, 3, 8]
    batch = splits.train.make(torch.arange(29))
    x, graph = batch.inputs
    assert x.shape == (29 * 25, 24)  # Tokens of 20 ms.
    torch.testing.assert_close(x.mean(0), torch.zeros(24), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(24), atol=1e-4, rtol=0)
    source, target = graph.edge_index
    assert torch.equal(source // 25, target // 25)
    assert torch.equal(batch.keywords["edge_attr"].argmax(1) - 2, source - target)


def test_columns_of_a_table_give_classes_splits_and_groups(tmp_path: Path) -> None:
    rows = ["recording,target,speaker"]
    for i in range(20):
        save(tmp_path / "all" / f"{i}.wav", beep(300 + 50 * i, i % 5))
        rows.append(f"all/{i}.wav,{'even' if i % 2 == 0 else 'odd'},s{i // 2 % 5}")
    table = tmp_path / "mine.csv"
    table.write_text("\n".join(rows))
    data = Sounds(path=str(table), val=0.25, bands=4)
    listing = data.listing()
    assert (listing.column, len(set(listing.groups))) == ("recording", 5)
    index = data._index(listing)
    speakers = [{listing.groups[i] for i in members.tolist()} for members in index.values()]
    assert [len(names) for names in speakers] == [3, 1, 1]
    assert len(set.union(*speakers)) == 5
    assert [len(Sounds(path=str(table), group="none").listing().groups)] == [0]
    words = ["train"] * 12 + ["val"] * 4 + ["test"] * 4
    lines = [f"{row},{word}" for row, word in zip(rows, ["split", *words], strict=True)]
    table.write_text("\n".join(lines))
    splits = data.load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [12, 4, 4]
    with refused("data.fold", expected="0", got="1", remedy="omit data.fold"):
        replace(data, fold=1).load()
    with refused("data.file", expected="a column", got="no such column", remedy="name a column"):
        Sounds(path=pandas.DataFrame({"x": ["a"], "target": ["b"]})).load()
    table.write_text("path,target\nall/0.wav,a\nall/gone.wav,b\n" + "all/1.wav,b\n" * 9)
    with pytest.raises(MissingDataError, match=r"gone\.wav: no such file"):
        data.load()


@pytest.mark.slow
@needs("spoken_digits")
def test_splits_of_the_spoken_digits() -> None:
    data = SpokenDigits()
    listing = data.listing()
    index = data._index(listing)
    assert [len(members) for members in index.values()] == [2400, 300, 300]
    assert {int(listing.files[i].stem.split("_")[2]) for i in index["test"].tolist()} == {*range(5)}
    tested = []
    for fold in range(6):
        data = SpokenDigits(split="speaker", fold=fold)
        listing = data.listing()
        names = {
            name: {listing.groups[i] for i in members.tolist()}
            for name, members in data._index(listing).items()
        }
        assert [len(names[part]) for part in ("train", "val", "test")] == [4, 1, 1]
        assert len(set.union(*names.values())) == 6
        tested += names["test"]
    assert len(set(tested)) == 6
    with refused("data.split", expected="published", got="random", remedy=""):
        SpokenDigits(split="random")  # type: ignore[arg-type]


def test_formats_have_the_same_tokens(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 3000, RATE // 2)
    samples = (beep(600, 2) + noise).astype(np.int16)
    expected = tokens_of(read_recording(save(tmp_path / "16.wav", samples)), 12)
    forms = {
        "8": ((samples / 256).round() + 128).astype(np.uint8),
        "32": samples.astype(np.int32) * 2**16,
        "float": samples.astype(np.float32) / 2**15,
        "double": samples / 2**15,
        "stereo": np.stack([samples, samples], axis=1),
        "quiet": samples // 10,
    }
    for name, values in forms.items():
        found = tokens_of(read_recording(save(tmp_path / f"{name}.wav", values)), 12)
        with case(name):
            atol = 0.2 if name == "8" else 0.05
            torch.testing.assert_close(found, expected, atol=atol, rtol=0)
    with wave.open(str(tmp_path / "24.wav"), "wb") as file:
        file.setparams((1, 3, RATE, 0, "NONE", ""))
        file.writeframes(b"".join(b"\0" + one.tobytes() for one in samples))
    found = tokens_of(read_recording(tmp_path / "24.wav"), 12)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_recordings_are_resampled_to_the_rate_of_the_training_set(tmp_path: Path) -> None:
    tone = torch.sin(2 * torch.pi * 700 * torch.arange(16000) / 16000)
    slow = resampled(Recording(tone, 16000), RATE)
    assert slow.samples.shape == (RATE,)
    torch.testing.assert_close(slow.samples[500:-500], tone[::2][500:-500], atol=0.01, rtol=0)
    beeps(tmp_path)
    for name, pitch in PITCH.items():
        save(tmp_path / name / "x.wav", beep(pitch, 2, rate=44100), 44100)
    data = Sounds(path=str(tmp_path), bands=12)
    splits = data.load()
    assert splits.preprocessing["rate"] == RATE
    fast, slow = (
        data.to_tokens(
            read_recording(save(tmp_path / "tone.wav", beep(1500, 2, rate=rate), rate)),
            splits.preprocessing,
        )
        for rate in (44100, RATE)
    )
    assert torch.equal(fast[11:14].argmax(1), slow[11:14].argmax(1))
    parts = (splits.train, splits.val, splits.test)
    members = [part.make(torch.arange(part.count)).keywords["batch"] for part in parts]
    assert {size for graph in members for size in (graph.stop - graph.start).tolist()} == {25}


def test_a_microphone_is_removed_with_the_mean_of_each_band() -> None:
    noise = torch.randn(RATE)
    dull = noise[1:] + 0.9 * noise[:-1]
    first, second = (
        tokens_of(Recording(samples, RATE), 12, subtract_mean=True) for samples in (noise, dull)
    )
    torch.testing.assert_close(first.view(-1, 12).mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    without = [tokens_of(Recording(samples, RATE), 12) for samples in (noise, dull)]
    assert (first - second).abs().mean() < 0.3 * (without[0] - without[1]).abs().mean()


def test_silent_and_short_recordings_have_finite_tokens() -> None:
    for samples in (torch.zeros(5000), torch.ones(1), torch.tensor([1.0, -1.0])):
        tokens = tokens_of(Recording(samples, RATE), 12)
        assert tokens.shape == (-(-len(samples) // 160), 24)
        assert tokens.isfinite().all()


def test_bad_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.wav", beep(300, 0))
    content = path.read_bytes()
    for changed, got in (
        (b"", ""),
        (b"no recording", "File format"),
        (content[:1000], "Reached EOF prematurely"),
        (content[:30], ""),
    ):
        path.write_bytes(changed)
        with case(changed[:12]), refused(str(path), expected="WAV", got=got, remedy="save the"):
            read_recording(path)
    broken = np.array([0, np.nan, 1], np.float32)
    for samples, rate, got in (
        (np.zeros(0, np.int16), RATE, "no samples"),
        (broken, RATE, "not a number"),
        (beep(300, 0), 10, "10 Hz"),
        (beep(300, 0), 2_000_000_000, "2,000,000,000 Hz"),
    ):
        save(path, samples, rate)
        with case(got), refused(str(path), expected="", got=got, remedy="remove this file"):
            read_recording(path)
    save(path, beep(300, 0))
    monkeypatch.setenv("EDGEWISE_MAX_SOUND_BYTES", "5000")
    with refused(str(path), expected="5,000 bytes", got="8,044", remedy="SOUND_BYTES"):
        read_recording(path)
    with pytest.raises(MissingDataError, match="no such file"):
        read_recording(tmp_path / "gone.wav")


def test_too_few_classes_and_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beeps(tmp_path)
    with refused("data.path", expected="two classes", got="no recordings", remedy="a folder"):
        Sounds(path=str(tmp_path / "low")).load()
    for name in ("bands", "window", "batch_size"):
        with refused(f"data.{name}", expected="at least 1", got="0", remedy="choose"):
            Sounds(**{name: 0})
    monkeypatch.setattr("edgewise.app.kinds.sounds.data.read_recording", None)
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 1e4)
    with refused("data.path", expected="free memory", got="40 recordings", remedy="fewer"):
        Sounds(path=str(tmp_path)).load()


def test_predictions_do_not_depend_on_the_loudness(run_folder: Path, tmp_path: Path) -> None:
    run = edgewise.load(run_folder)
    loud = [save(tmp_path / "loud" / f"{i}.wav", beep(300 + 1200 * (i % 2), i)) for i in range(4)]
    quiet = [
        save(tmp_path / "quiet" / f"{i}.wav", beep(300 + 1200 * (i % 2), i, gain=0.05))
        for i in range(4)
    ]
    answers = run.predict(loud)
    assert [answer["label"] for answer in answers] == ["low", "high"] * 2
    for first, second in zip(answers, run.predict(quiet), strict=True):
        assert first["label"] == second["label"]
        assert first["probability"] == pytest.approx(second["probability"], abs=0.02)
    fast = save(tmp_path / "fast.wav", beep(1500, 1, rate=22050), 22050)
    assert run.predict([fast], top=2)[0]["top"][0]["label"] == "high"


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050])
@pytest.mark.parametrize("seconds", [0.05, 0.23, 1.0])
def test_a_tenth_gets_the_sound_of_the_quietest_whole_tenth(rate: int, seconds: float) -> None:
    samples = torch.from_numpy(np.random.default_rng(0).standard_normal(round(rate * seconds)))
    recording = Recording(samples.float(), rate)
    tenth, labels = tenths(len(tokens_of(recording, 12)))
    assert len(labels) == int(tenth.max()) + 1
    for removed in torch.eye(len(labels), dtype=torch.bool):
        background, _ = with_background(recording, removed)
        assert background.isfinite().all()
        assert len(background) == len(samples)
        changed = (background != recording.samples).double().mean()
        assert changed <= 0.11 / seconds
        assert (changed > 0) == (len(labels) > 1) or background.eq(0).all()


def test_commands_read_files_folders_and_tables(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "new" / "b.wav", beep(1500, 1))
    (tmp_path / "new" / "a.wav").write_bytes(b"no recording")
    words = [str(tmp_path / "new"), str(tmp_path / "gone.wav")]
    assert main(["predict", str(run_folder), *words]) == 1
    printed = capsys.readouterr()
    assert "high" in printed.out
    assert "a.wav" in printed.err
    assert "gone.wav, which does not exist" in printed.err
    (tmp_path / "table.csv").write_text("file,note\nnew/b.wav,x\n")
    assert main(["predict", str(run_folder), "--input", str(tmp_path / "table.csv")]) == 0
    assert "high" in capsys.readouterr().out
    assert "a WAV file" in edgewise.load(run_folder).predict([3])[0]["error"]


def test_reasons_and_the_page_name_the_time_of_the_tone(run_folder: Path, tmp_path: Path) -> None:
    run = edgewise.load(run_folder)
    for tenth in (0, 3):
        path = save(tmp_path / f"{tenth}.wav", beep(1500, tenth, seed=9))
        (attribution,) = run.explain([path], top=1)
        assert attribution.answer == "high"
        assert attribution.reasons[0].part == f"0.{tenth}-0.{tenth + 1} s"
    found = edgewise.explain.explanation(run, path)
    assert found.kind == "sequence"
    assert found.labels == [f"{token / 50:.2f} s" for token in range(25)]


def test_the_baseline_separates_low_and_high(tmp_path: Path) -> None:
    data = Sounds(path=str(beeps(tmp_path)), bands=12)
    found = list(baselines(replace(find("sounds"), data=data)))
    assert [one.name for one in found] == [
        "logistic regression on mean over time",
        "logistic regression on mean and deviation over time",
    ]
    assert [one.metrics["test/accuracy"] for one in found] == [1, 1]
