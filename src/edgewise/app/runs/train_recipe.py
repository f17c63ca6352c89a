"""Training of one recipe in a run folder."""

from __future__ import annotations

import inspect
import logging
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, EdgewiseError, Interrupted, in_one_line
from edgewise._utils.limits import built_within
from edgewise.app.runs.fine_tuning import check_start, load_start
from edgewise.app.runs.hugging_face import with_hf_model
from edgewise.app.runs.hybrid import Combined, fit_scales, keep_parts
from edgewise.app.runs.pretrained import fine_tuning_note
from edgewise.app.runs.recipe_fields import model_fields
from edgewise.app.runs.record import (
    EXAMPLES,
    STEP,
    check_examples,
    check_resumed,
    check_step,
    load_recipe,
    to_record,
)
from edgewise.app.runs.side_by_side import side_by_side
from edgewise.app.runs.vocabulary import with_vocabulary, write_tokenizer
from edgewise.app.train.fitting import fit
from edgewise.app.train.folder import METRICS, RECIPE, RunFolder
from edgewise.app.train.forest import Forest, NetworkAndForest
from edgewise.app.train.held_out import keep_held_out
from edgewise.app.train.layerwise import LayerwiseBatch
from edgewise.app.train.preprocessing import (
    Preprocessing,
    check_same_preprocessing,
    keep_preprocessing,
    preprocessing_of,
)
from edgewise.app.train.process import (
    agreed,
    check_same_data,
    rank_and_world_size,
    seed_everything,
)
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits, TextSplits
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.app.train.text.naive_bayes import CombinedClassifier, NaiveBayes
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import vocabulary_hash
from edgewise.explain.parts import is_hybrid
from edgewise.layers import GraphLayer, TextClassifier, shares_nodes

if TYPE_CHECKING:
    import lightning.pytorch as lightning

log = logging.getLogger("edgewise.app.runs")
"""Logger of notes on how a run is trained, at level INFO. Commands print them."""

SWITCHES = {"edge_width": "bonds", "descriptor_width": "descriptors"}
"""For each model argument that the data determine: the field of the data that enables it."""


def train(
    recipe: Recipe, path: Path, *, resume: bool = False, title: str | None = None
) -> dict[str, float]:
    """Train a recipe, and return the final metrics.

    All values are checked before the folder is created. With ``recipe.trainer.devices`` above 1,
    the processes are started by ``multiprocessing``, which imports the script of the caller in
    each of them: call ``train`` below ``if __name__ == "__main__":``.

    Args:
        recipe: recipe to train.
        path: run folder.
        resume: whether to resume an interrupted run in the folder. The results are those of an
            uninterrupted run. For a finished run, its metrics are returned.
        title: title of the progress display. Defaults to the recipe's name.

    Raises:
        RunExistsError: the folder is not empty, and ``resume`` is false.
        MissingDataError: there is no run to resume, or a data file is missing.
        ArgumentError: the run in the folder has another recipe, or a value is invalid.
        Interrupted: on Ctrl-C or SIGTERM, after a checkpoint has been saved, from which ``resume``
            continues.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> recipe = runs.with_values(find("digits"), {"trainer.epochs": 1})
        >>> metrics = runs.train(recipe, Path(mkdtemp()))
        >>> sorted(name for name in metrics if name.startswith("test"))
        ['test/accuracy', 'test/loss']
    """
    return train_on_splits(recipe, path, resume=resume, title=title)[0]


def train_on_splits(
    recipe: Recipe, path: Path, *, resume: bool = False, title: str | None = None
) -> tuple[dict[str, float], Splits | None]:
    """Train a recipe as :func:`train`, and return the final metrics and the data; None for data
    that this process has not loaded.
    """
    folder, title = RunFolder(path), title or recipe.name
    started = rank_and_world_size()[1]
    if started > 1 and recipe.trainer.devices == 1:  # By torchrun or srun.
        recipe = replace(recipe, trainer=replace(recipe.trainer, devices=started))
    with agreed():
        if recipe.start:
            recipe = with_hf_model(recipe)
        if resume:
            check_resumed(folder, recipe, "one")
            if folder.has(METRICS):
                return folder.read_metrics(), None
        else:
            folder.refuse_existing()
        model, splits = _prepare(recipe, folder)
        record = to_record(recipe)  # This raises an error if the run could not be resumed from it.
        record[STEP] = _step_size(recipe, splits)
        record[EXAMPLES] = {name: getattr(splits, name).count for name in ("train", "val", "test")}
        if resume:
            check_examples(folder, record[EXAMPLES])
            check_step(folder, record[STEP])
            check_same_preprocessing(folder, splits)
        if isinstance(splits, TextSplits):
            record["vocabulary"] = vocabulary_hash(splits.tokenizer)
    sizes = {f"{name} examples": count for name, count in record[EXAMPLES].items()}
    check_same_data({**sizes, "weights": sum(x.numel() for x in model.parameters())})
    if note := fine_tuning_note(recipe):
        log.info(note)
    with folder.claimed(RECIPE, record, resume=resume):
        if isinstance(splits, TextSplits):
            write_tokenizer(folder, splits.tokenizer)
        keep_preprocessing(folder, splits)
        if recipe.trainer.devices > 1 and started == 1:
            del model, splits
            _train_in_processes(path, recipe.trainer.devices, title)
            return folder.read_metrics(), None
        return _fit(recipe, model, splits, folder, title), splits


def _step_size(recipe: Recipe, splits: Splits) -> int:
    """Return the number of examples in a training step; data may limit the size of a batch."""
    loader, trainer = splits.loaders(recipe.seed)["train"], recipe.trainer
    return min(loader.size * trainer.devices // trainer.tensor_parallel, loader.drawn)


def prepare(recipe: Recipe) -> tuple[nn.Module, Splits]:
    """Build the model, load the data, and compute the loss of one batch as a test."""
    return _prepare(with_hf_model(recipe), None)


def _prepare(recipe: Recipe, folder: RunFolder | None) -> tuple[nn.Module, Splits]:
    """Build the model and load the data; ``recipe.start`` is ignored if there is a checkpoint."""
    begins = recipe.start and not (folder and folder.checkpoint.is_file())
    if begins:
        check_start(recipe)  # Before data are loaded.
    if isinstance(recipe.data, TextData):
        recipe = with_vocabulary(recipe, folder)
    metrics = recipe.task.metrics()
    if recipe.trainer.monitor.partition("/")[2] not in ("loss", *metrics):
        metrics = recipe.task.possible_metrics()
    recipe.trainer.check(metrics)
    splits = recipe.data.load()
    model = checked_model(recipe, splits)
    if begins:
        load_start(model, recipe, splits)
    return model, splits


def checked_model(recipe: Recipe, splits: Splits) -> nn.Module:
    """Return the model of a recipe for loaded data, after computing the loss of one batch."""
    seed_everything(recipe.seed)
    model = build_model(recipe, preprocessing_of(splits))
    if splits.codes is not None:
        layers = [layer for layer in model.modules() if isinstance(layer, GraphLayer)]
        encodings: dict[str, Any] = next(filter(None, (x.encodings() for x in layers)), {})
        splits.codes.prepare(encodings, shared=shares_nodes(model))
    described = recipe.for_targets(splits.targets, splits.class_counts)
    described.trainer.check(described.task.metrics(), model)
    if recipe.trainer.strategy == "fsdp" and isinstance(model, Combined):
        raise ArgumentError(
            "trainer.strategy",
            expected="ddp with Naive Bayes or randomised trees, whose weights are fitted to the "
            "outputs of the whole network",
            got="fsdp",
            remedy="set trainer.strategy to ddp",
        )
    recipe.optimizer.build(model)  # This checks decay_only and layer_decay.
    batch = next(iter(splits.loaders(recipe.seed)["val"]))
    if isinstance(batch, LayerwiseBatch):
        batch = batch.neighbourhood()  # The hidden features of all nodes are not needed here.
    with torch.no_grad():
        outputs = batch.select_outputs(batch.outputs(model.eval()))
        described.task.loss(outputs, batch.target)
    return model


def _fit(
    recipe: Recipe, model: nn.Module, splits: Splits, folder: RunFolder, title: str
) -> dict[str, float]:
    recipe = recipe.for_targets(splits.targets, splits.class_counts)
    loaders = splits.loaders(recipe.seed)
    callbacks: tuple[lightning.Callback, ...] = ()
    if isinstance(model, Combined):
        from lightning.pytorch.callbacks import LambdaCallback

        def fit_first(
            _trainer: object, _module: object, _batch: object, index: int, *_: int
        ) -> None:
            if index == 0:  # Averages of weights are in place then.
                fit_scales(model, loaders["val"], recipe.task)

        callbacks = (LambdaCallback(on_validation_batch_start=fit_first),)
    # Reseed, so that training does not repeat the random numbers of the initial weights.
    seed_everything(recipe.seed + 1)
    metrics = fit(
        model,
        recipe.task,
        loaders,
        folder,
        optimizer=recipe.optimizer,
        schedule=recipe.schedule,
        trainer=recipe.trainer,
        callbacks=callbacks,
        title=title,
    )
    if rank_and_world_size()[0] == 0:
        if is_hybrid(model) or isinstance(model, Combined):
            keep_parts(folder, model, loaders["val"])
        if splits.targets:
            keep_held_out(folder, model, splits)
    return metrics


def _train_in_processes(path: Path, devices: int, title: str) -> None:
    """Train the recipe in a run folder in one process for each device; rank 0 writes the files."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The variables that torchrun sets.
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(devices)}
    common["LOCAL_WORLD_SIZE"] = str(devices)
    environments = [{**common, "LOCAL_RANK": str(k), "RANK": str(k)} for k in range(devices)]
    threads = max(1, torch.get_num_threads() // devices)
    jobs = [(_train_rank, (path, title, variables, threads)) for variables in environments]
    side_by_side(jobs, devices)


def _train_rank(path: Path, title: str, variables: dict[str, str], threads: int) -> None:
    os.environ.update(variables)
    rank, world_size = rank_and_world_size()
    torch.set_num_threads(threads)
    if rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Warnings are those of rank 0.
    else:
        sys.stderr = sys.__stderr__  # Rank 0 alone shows the progress, so it may draw a bar.
    folder = RunFolder(path)
    recipe = load_recipe(folder)
    try:
        _fit(recipe, *_prepare(recipe, folder), folder, title)
    except Interrupted:
        raise
    except Exception as error:
        message = f"process {rank} of {world_size} has failed: {in_one_line(error)}"
        raise EdgewiseError(message) from error


def build_model(
    recipe: Recipe, preprocessing: Preprocessing, saved: int | None = None
) -> nn.Module:
    """Build the model of a recipe with the arguments that the data determine. It must fit the
    memory and, if given, the number of weights ``saved`` in its file.
    """
    parameters = model_fields(recipe.model, ())
    arguments = dict(preprocessing.model_arguments)
    data_sizes = {name: arguments.pop(name) for name in recipe.task.takes if name in arguments}
    # A width of 0 means the feature is absent, so models without this argument ignore it.
    arguments = {n: size for n, size in arguments.items() if n in parameters or size != 0}
    unexpected = [name for name in arguments if name not in parameters]
    if unexpected:
        fields = [SWITCHES[n] for n in unexpected if n in SWITCHES]
        optional = [field for field in fields if hasattr(recipe.data, field)]
        switched = " ".join(f"--data.{field} false" for field in optional)
        raise ArgumentError(
            "model",
            expected=f"a model with the arguments that the data determine: {', '.join(arguments)}",
            got=f"{recipe.model.func.__name__}, which has no {', '.join(unexpected)}",
            remedy=f"omit the features that the model does not use: {switched}"
            if len(optional) == len(unexpected)
            else "choose another model or other data",
        )
    missing = [
        name
        for name, field in parameters.items()
        if field.value is inspect.Parameter.empty and name not in arguments
    ]
    if missing:
        raise ArgumentError(
            "model",
            expected=f"data that determine {', '.join(missing)}, or a recipe that sets them",
            got=f"data that determine {', '.join(arguments) or 'no argument'}",
            remedy="choose another model or other data",
        )
    with built_within(f"model of {recipe.name}", saved):
        model = recipe.task.complete(recipe.model(**arguments), data_sizes)
    # Both parts contain the frequencies of the classes, which class weights are to remove.
    weighted = getattr(recipe.task, "class_weight", "none") != "none"
    if not recipe.start and not weighted:
        counts, trees = _fitted("naive_bayes", preprocessing), _fitted("forest", preprocessing)
        if counts and isinstance(model, TextClassifier):
            model = CombinedClassifier(model, NaiveBayes(**counts))
        if trees:
            model = NetworkAndForest(model, Forest(**trees))
    scale = preprocessing.target_scale
    return TargetScaling(model, *scale) if scale else model


def _fitted(part: str, preprocessing: Preprocessing) -> dict[str, Tensor]:
    """Return the tensors of a part that the data fitted, by name."""
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in preprocessing.values.items()
        if name.startswith(prefix)
    }
