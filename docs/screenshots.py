r"""Take the pictures of explanations in docs/howto: python docs/screenshots.py RUNS [PICTURE ...].

PICTURE is a key of ``PAGES``, such as "molecule"; by default, all pictures are taken. RUNS is a
folder with the runs of these commands (10 minutes on one core); `dates.tsv` has lines such as
"3 May 2020<tab>2020 - 05 - 03", with the header "source<tab>target", for each day from 2019 to
2023::

    edgewise train sst2 --trainer.epochs 2
    edgewise train attentive-esol --trainer.epochs 40
    edgewise train digits
    edgewise train gat-cora
    edgewise train forecast --model.depth 1 --data.horizon 8 --data.history 104 --trainer.epochs 5 \
      --out runs/series
    edgewise train pairs --data.path dates.tsv --data.kind words --model.width 64 --model.depth 1 \
      --model.ffn_dim 128 --trainer.epochs 15 --optimizer.lr 0.003 --out runs/dates
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

import edgewise as ew
from edgewise import explain

HOWTO = Path(__file__).resolve().parent / "howto"
PAGES = {
    "text": ("sst2", "A film to fall in love with, but the ending is dull.", 460),
    "molecule": ("attentive-esol", "CC(=O)Oc1ccccc1C(=O)O", 650),
    "image": ("digits", "digit.png", 560),
    "graph": ("gat-cora", "1", 560),
    "series": ("series", None, 560),
    "translation": ("dates", "3 May 2020", 460),
}
"""Run, input and height in pixels of each picture; ``None`` for the series of the run itself."""
ATTENTION = ("translation",)
"""Runs whose attention tab is pictured, too."""


def main() -> None:
    """Write the pictures of all pages, or of those named."""
    runs, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or [*PAGES]
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, chdir(folder), sync_playwright() as playwright:
        Image.fromarray((load_digits().images[3] * 15.9).astype("uint8")).save("digit.png")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in names:
            folder_name, words, height = PAGES[name]
            run = ew.load(runs / folder_name)
            value = run.predictor.default_inputs()[0] if words is None else words
            explain.write_page(explain.explanation(run, value), "page.html")
            page = browser.new_page(viewport={"width": 1000, "height": height})
            page.goto(Path("page.html").resolve().as_uri())
            for tab in ("reasons", "attention") if name in ATTENTION else ("reasons",):
                page.click(f"#tab-{tab}")
                if (name, tab) == ("translation", "reasons"):
                    page.get_by_text("05", exact=True).click()
                page.wait_for_timeout(1000)  # Nodes move until their layout is final.
                picture = HOWTO / f"{tab}_{name}.png"
                page.screenshot(path=picture)
                image = Image.open(picture).convert("RGB")
                image.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(picture, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
