"""Command ``edgewise doctor``: list versions, devices, packages and data sets."""

from __future__ import annotations

import platform
from argparse import Namespace
from importlib import metadata, util

import torch

from edgewise import __version__
from edgewise._utils.errors import counted, how_to_install
from edgewise.app.cli.listing import first_line
from edgewise.app.cli.output import say, table
from edgewise.app.files.files import cache_root, data_root
from edgewise.app.kinds import DATA, plugins
from edgewise.engines import ENGINES
from edgewise.engines.native import library

EXTRAS = {
    "lightning": ("train", "training"),
    "torchmetrics": ("train", "metrics"),
    "pandas": ("predict", "reading tables"),
    "safetensors": ("predict", "weights in run folders"),
    "scikit-learn": ("train", "the data set digits, stratified splits, baselines"),
    "rich": ("train", "progress bars"),
    "sacrebleu": ("train", "BLEU of translations"),
    "torch_geometric": ("graphs", "the data sets Cora, CiteSeer and PubMed; `edgewise verify`"),
    "scipy": ("graphs", "reading graph data sets and recordings"),
    "networkx": ("graphs", "graphs.from_networkx"),
    "matplotlib": ("plot", "figures, learning curves and reports"),
    "transformers": ("text", "converting Hugging Face models that are in memory"),
    "tokenizers": ("text", "reading text"),
    "pyarrow": ("tables", "Parquet and Feather files, data frames of PyArrow and Polars"),
    "openpyxl": ("tables", "Excel files"),
    "sqlalchemy": ("sql", "databases"),
    "statsmodels": ("series", "the series co2, elnino and others"),
    "rdkit": ("chem", "molecules"),
    "pillow": ("images", "reading images"),
    "triton": ("gpu", "the kernels of the engine rows on a GPU"),
}
"""For each optional package: the extra of Edgewise that installs it, and its purpose."""
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL"}


def doctor(_arguments: Namespace) -> int:
    """Run ``edgewise doctor``: print versions, devices, packages and data sets."""
    sections = {
        "versions": _versions(),
        "devices": _devices(),
        "engines": [[name, first_line(type(engine))] for name, engine in ENGINES.items()],
        "kernels": [["native", library.MISSING or f"for {library.instruction_set()}"]],
        "extras": [_extra(name, *about) for name, about in EXTRAS.items()],
        "data": _data(),
        "packages with recipes": _packages(),
    }
    tables = (
        f"{title}\n{table([[f'  {row[0]}', *row[1:]] for row in rows], header=False, left=9)}"
        for title, rows in sections.items()
    )
    say("\n\n".join(tables))
    return 0


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


def _extra(package: str, extra: str, purpose: str) -> list[str]:
    if util.find_spec(MODULES.get(package, package)) is None:
        return [package, "missing", f"{purpose}: {how_to_install(extra)}"]
    return [package, metadata.version(package), purpose]


def _data() -> list[list[str]]:
    root = data_root()
    where = f"EDGEWISE_DATA={root}" if root else "EDGEWISE_DATA not set: data sets are downloaded"
    base = root or cache_root()
    if root and not root.is_dir():
        where += " (no such folder)"
    rows = [["root", where], ["cache", str(cache_root())]]
    absent = "missing" if root else "not downloaded yet"
    for name, data in sorted(DATA.own.items()):
        states = [
            f"{folder} {'found' if any((base / folder / 'raw').glob('*')) else absent}"
            for folder in data.folders
        ]
        comes = f"comes with {data.comes_with}" if data.comes_with else "reads files of your own"
        rows.append([name, ", ".join(states) or comes])
    return rows


def _packages() -> list[list[str]]:
    return [
        [plugin.package, counted(len(plugin.kind.recipes), "recipe")] for plugin in plugins()
    ] or [["none", ""]]
