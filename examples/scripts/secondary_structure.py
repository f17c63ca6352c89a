"""Secondary structure of proteins: CB513 as a file for the recipe tags.

    python examples/scripts/secondary_structure.py $EDGEWISE_DATA/CB513 cb513.tsv
    edgewise train tags --data.path cb513.tsv --data.kind words --data.word_dropout 0 \\
        --model.positions relative --model.graph "window(8)" --model.heads 8 --data.batch_size 4 \\
        --trainer.epochs 20

The folder has a file for each chain of CB513 (Cuff and Barton, 1999). A line of cb513.tsv has a
residue and its structure: H, a helix (H, G and I of DSSP); E, a strand (E and B); C, the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

CLASSES = {**dict.fromkeys("HGI", "H"), **dict.fromkeys("EB", "E")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="files of CB513")
    parser.add_argument("out", type=Path, help="file to write")
    arguments = parser.parse_args()
    lines = []
    for path in sorted(arguments.folder.rglob("*.all")):
        rows = dict(line.split(":", 1) for line in path.read_text().split() if ":" in line)
        chain = zip(rows["RES"].split(","), rows["DSSP"].split(","), strict=True)
        lines += [f"{residue}\t{CLASSES.get(state, 'C')}" for residue, state in chain if residue]
        lines.append("")
    if not lines:
        parser.error(f"{arguments.folder}: expected files *.all of CB513; got none")
    arguments.out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
