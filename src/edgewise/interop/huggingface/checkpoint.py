"""Reading of checkpoints (configuration and tensors) without unpickling."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, MissingDataError, reading, require
from edgewise._utils.limits import check_memory, read_json_object
from edgewise.graphs import Pattern

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Activation functions of Edgewise by their Hugging Face name."""

DEPTHS = (
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "num_decoder_layers",
    "decoder_num_hidden_layers",
)
"""Values of the configuration that count layers."""
WEIGHTS = "a complete file of safetensors"
SAVE_AGAIN = "save the model again with save_pretrained"

OLD_ENDINGS = (
    ("LayerNorm.gamma", "LayerNorm.weight"),
    ("LayerNorm.beta", "LayerNorm.bias"),
)


@dataclass(frozen=True)
class Checkpoint:
    """Configuration and tensors of a checkpoint."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Any:
        """Return a value of the configuration; raise ArgumentError if there is none."""
        if name not in self.config:
            raise ArgumentError(
                "config",
                expected=f"a configuration with the value `{name}`, as for "
                f"{self.config['model_type']} models",
                got=f"only {', '.join(sorted(self.config))}",
                remedy=SAVE_AGAIN,
            )
        return self.config[name]

    def renamed(self, *pairs: tuple[str, str]) -> Checkpoint:
        """Return a copy with strings in tensor names replaced, for each pair ``(old, new)``."""
        tensors = {}
        for name, tensor in self.tensors.items():
            for old, new in pairs:
                name = name.replace(old, new)  # noqa: PLW2901 - apply several replacements in turn
            tensors[name] = tensor
        return Checkpoint(self.config, tensors)

    def without_prefix(self, prefix: str) -> Checkpoint:
        """Return a copy without ``prefix`` in tensor names, which checkpoints with a head have."""
        tensors = {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items()}
        return Checkpoint(self.config, tensors)

    def without(self, texts: Collection[str]) -> Checkpoint:
        """Return a copy without tensors whose names contain one of these texts."""
        tensors = {n: x for n, x in self.tensors.items() if not any(text in n for text in texts)}
        return Checkpoint(self.config, tensors)

    def labels(self, count: int) -> tuple[str, ...]:
        """Return the class names of a head; missing names are ``LABEL_0``, ``LABEL_1``, ..."""
        id2label: Mapping[Any, str] = self.config.get("id2label") or {}
        labels = {int(number): label for number, label in id2label.items()}
        return tuple(labels.get(number, f"LABEL_{number}") for number in range(count))

    def activation(self, name: str) -> str:
        """Return the Edgewise name of the activation function in the configuration."""
        if self[name] not in ACTIVATIONS:
            raise ArgumentError(
                name,
                expected=f"one of {', '.join(ACTIVATIONS)}",
                got=repr(self[name]),
                remedy="run this variant with transformers, as Edgewise does not support it",
            )
        return ACTIVATIONS[self[name]]

    def require(self, **supported: Any) -> None:
        """Raise an error that lists all configuration values that Edgewise does not support."""
        config = self.config
        unsupported = {k: config[k] for k, v in supported.items() if config.get(k, v) != v}
        if unsupported:
            raise ArgumentError(
                "config",
                expected=", ".join(f"{name}={supported[name]!r}" for name in unsupported),
                got=", ".join(f"{name}={value!r}" for name, value in unsupported.items()),
                remedy="run this variant with transformers, as Edgewise does not support it",
            )


def refuse_graph(graph: Pattern | None, expected: str) -> None:
    """Raise ArgumentError unless ``graph`` is None, for models that take no graph."""
    if graph is not None:
        raise ArgumentError("graph", expected=expected, got=repr(graph), remedy="omit graph")


def read(source: Any) -> Checkpoint:
    """Read a checkpoint from a ``transformers`` model or from a folder."""
    config = getattr(source, "config", None)
    if isinstance(source, nn.Module) and config is not None:
        tensors = {name: tensor.detach() for name, tensor in source.state_dict().items()}
        return Checkpoint(config.to_dict(), tensors).renamed(*OLD_ENDINGS)
    if not isinstance(source, str | Path):
        raise ArgumentError(
            "model_or_folder",
            expected="a transformers model, or a folder with config.json and model.safetensors",
            got=type(source).__name__,
            remedy="load the model with transformers first, or pass the path of the folder",
        )
    folder = Path(source)
    file = folder / "config.json"
    if not file.is_file():
        raise MissingDataError(
            f"`model_or_folder`: expected a folder with config.json and model.safetensors; "
            f"got {str(folder)!r}. Remedy: save a model in this folder with save_pretrained "
            "(Edgewise downloads no weights)."
        )
    with reading(file, expected="the configuration of a model as JSON", remedy=SAVE_AGAIN):
        config = read_json_object(file)
    return Checkpoint(config, _read_tensors(folder, config)).renamed(*OLD_ENDINGS)


def _read_tensors(folder: Path, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read the safetensors of a folder, if their headers have enough tensors for the layers."""
    require("safetensors", extra="text", purpose="reading weights")
    from safetensors import safe_open
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        with reading(index, expected="a JSON file that names files of weights", remedy=SAVE_AGAIN):
            shards = read_json_object(index)["weight_map"].values()
            # A name from the index must stay within the folder.
            names = sorted({Path(name).name for name in shards})
    paths = []
    for name in names:
        path = folder / name
        if not path.is_file():
            files = ", ".join(sorted(p.name for p in folder.iterdir()))
            raise MissingDataError(
                f"`model_or_folder`: expected {path.name} in {str(folder)!r}; got {files}. Remedy: "
                f"save the model as safetensors with save_pretrained; pickled weights are not read."
            )
        paths.append(path)
    num_tensors = 0
    for path in paths:
        with reading(path, expected=WEIGHTS), safe_open(path, "pt") as file:
            num_tensors += len(file.keys())
    for name in DEPTHS:
        depth = config.get(name)
        if isinstance(depth, int) and depth > num_tensors:
            raise ArgumentError(
                f"config.{name}",
                expected=f"at most {num_tensors}, the number of tensors in {folder}",
                got=str(depth),
                remedy="use the config.json that was saved with the model's weights",
            )
    size = sum(path.stat().st_size for path in paths)
    check_memory("model_or_folder", size, str(folder), "use a machine with more memory")
    tensors: dict[str, Tensor] = {}
    for path in paths:
        with reading(path, expected=WEIGHTS):
            tensors.update(load_file(path))
    return tensors
