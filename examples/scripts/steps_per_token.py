"""Print how many layers ("steps") a trained Universal Transformer applies to each test token.

    edgewise train gpt-shakespeare --model universal --model.graph "causal()" \
        --model.halting true --trainer.epochs 3 --out runs/halting
    python examples/scripts/steps_per_token.py runs/halting
"""

from __future__ import annotations

import sys

import torch

import edgewise as ew
from edgewise.models.universal import num_steps


@torch.no_grad()
def main() -> None:
    print("| run | test loss | mean steps | tokens by number of steps |")
    print("| --- | ---: | ---: | --- |")
    for folder in sys.argv[1:]:
        run = ew.load(folder)
        found = []
        for batch in run.recipe.data.load().loaders(0)["test"]:
            tokens = batch.inputs[0].padded(0)
            found.append(num_steps(run.model.trunk, tokens.ids, tokens.mask).flatten())
        steps = torch.cat(found)
        steps = steps[steps > 0].long()  # Padding has 0 steps.
        fractions = torch.bincount(steps)[1:] / len(steps)
        listed = ", ".join(f"{n + 1}: {x:.0%}" for n, x in enumerate(fractions.tolist()))
        mean, loss = steps.float().mean(), run.metrics["test/loss"]
        print(f"| {folder} | {loss:.3f} | {mean:.2f} | {listed} |")


if __name__ == "__main__":
    main()
