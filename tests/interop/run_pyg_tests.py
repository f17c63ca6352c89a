"""Run PyTorch Geometric's own tests of its layers on the drop-ins.

    python tests/interop/run_pyg_tests.py FOLDER [pytest's arguments]

FOLDER holds ``test_gat_conv.py`` and the like: ``test/nn/conv`` of a checkout of PyTorch Geometric
at the installed version. The files are copied to a temporary folder with the import of the layers
changed, which is all that a user would change, and pytest runs them there, after the originals.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import their_tests

LAYERS = [
    *("FiLMConv", "GATConv", "GATv2Conv", "GCNConv", "GINConv", "GINEConv", "GMMConv", "GPSConv"),
    *("HGTConv", "PNAConv", "RGATConv", "RGCNConv", "SAGEConv", "SuperGATConv", "TransformerConv"),
]
# GINEConv is tested in the file of GINConv.
FILES = [
    f"test_{name.removesuffix('Conv').lower()}_conv.py" for name in LAYERS if "GINE" not in name
]


def rewritten(text: str) -> str:
    """The file with the drop-ins imported from Edgewise and the rest from where it was."""
    return re.sub(r"^from torch_geometric\.nn import (.+)$", _imports, text, flags=re.MULTILINE)


def _imports(match: re.Match[str]) -> str:
    names = [name.strip() for name in match[1].split(",")]
    lines = []
    for module, wanted in (("edgewise.interop.pyg", True), ("torch_geometric.nn", False)):
        chosen = [name for name in names if (name in LAYERS) is wanted]
        lines += [f"from {module} import {', '.join(chosen)}"] if chosen else []
    return "\n".join(lines)


def main(folder: str, *arguments: str) -> None:
    """Copy the files, run the originals and the rewritten ones, and print the outcomes of both."""
    runs = []
    for rewrite in (str, rewritten):
        with tempfile.TemporaryDirectory() as temporary:
            for name in FILES:
                text = (Path(folder) / name).read_text()
                (Path(temporary) / name).write_text(rewrite(text))
            runs.append(their_tests.run_pytest(temporary, "--rootdir", temporary, *arguments))
    their_tests.print_table({"PyG": ""}, *runs)


if __name__ == "__main__":
    main(*sys.argv[1:])
