"""``edgewise doctor``: what is installed, found and missing."""

from __future__ import annotations

import platform
from importlib import metadata, util

import torch

from edgewise import __version__
from edgewise.cli.table import table
from edgewise.data import planetoid
from edgewise.data.files import cache_root, data_root
from edgewise.data.graphs.planetoid import NAMES
from edgewise.engines import ENGINES
from edgewise.engines.native import library

EXTRAS = {
    "lightning": ("train", "training"),
    "torchmetrics": ("train", "metrics"),
    "safetensors": ("train", "weights in run folders"),
    "scikit-learn": ("train", "the data set digits"),
    "rich": ("train", "the progress bar"),
    "torch_geometric": ("graphs", "`edgewise verify`, and neighbour loaders of its own"),
    "scipy": ("graphs", "reading graph data sets"),
    "networkx": ("graphs", "graphs.from_networkx"),
    "matplotlib": ("plot", "pictures, learning curves and reports"),
    "tokenizers": ("text", "reading text"),
    "rdkit": ("chem", "molecules"),
    "pillow": ("images", "reading images"),
}
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL"}


def report() -> str:
    """All of it, as text."""
    parts = {
        "versions": _versions(),
        "devices": _devices(),
        "engines": [[name, _purpose(engine)] for name, engine in ENGINES.items()],
        "kernels": [["native", library.MISSING or f"for {library.instruction_set()}"]],
        "extras": [_extra(name, *about) for name, about in EXTRAS.items()],
        "data": _data(),
    }
    return "\n\n".join(
        f"{title}\n{table([[f'  {row[0]}', *row[1:]] for row in rows], header=False, left=9)}"
        for title, rows in parts.items()
    )


def _versions() -> list[list[str]]:
    return [
        ["edgewise", __version__],
        ["python", platform.python_version()],
        ["torch", torch.__version__],
        ["system", f"{platform.system()} {platform.machine()}"],
    ]


def _devices() -> list[list[str]]:
    rows = [["cpu", f"{torch.get_num_threads()} threads"]]
    rows += [[f"cuda:{i}", torch.cuda.get_device_name(i)] for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        rows.append(["mps", "Apple GPU"])
    return rows


def _purpose(engine: object) -> str:
    return (type(engine).__doc__ or "").partition("\n")[0].rstrip(".")


def _extra(package: str, extra: str, purpose: str) -> list[str]:
    if util.find_spec(MODULES.get(package, package)) is None:
        return [package, "missing", f"{purpose}: pip install 'edgewise[{extra}]'"]
    return [package, metadata.version(package), purpose]


def _data() -> list[list[str]]:
    root = data_root()
    where = f"EDGEWISE_DATA={root}" if root else "EDGEWISE_DATA is not set: sets are downloaded"
    base = root or cache_root()
    if root and not root.is_dir():
        where += " (no such folder)"
    rows = [["root", where], ["cache", str(cache_root())], ["digits", "comes with scikit-learn"]]
    for name in NAMES:
        raw = base / name / "raw"
        found = all((raw / file).is_file() for file in planetoid(name).files)
        absent = "missing" if root else "not downloaded yet"
        rows.append([name, f"found in {raw}" if found else absent])
    return rows
