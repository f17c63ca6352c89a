"""How good texts are: tokens guessed right, and BLEU of what a model has written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from edgewise.batches import WritingBatch
from edgewise.errors import require

ORDER = 4  # BLEU counts runs of one to four words


class Share(Metric):
    """How many are right, of how many."""

    full_state_update = False
    right: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("right", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        return self.right / self.count


class TokenAccuracy(Share):
    """The share of tokens whose score is the highest."""

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add scores ``[M, vocabulary]`` and tokens ``[M]``."""
        self.right += (outputs.argmax(-1) == target).sum()
        self.count += target.numel()


class BLEU(Metric):
    """sacrebleu's BLEU of the whole split, from 0 to 100 (Papineni et al., 2002; Post, 2018).

    What is kept are sums over texts, so that processes can add them up.
    """

    full_state_update = False
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.bleu = _sacrebleu().BLEU()
        # Matches and runs of each length, then words written and words of the references.
        zero = torch.zeros(2 * ORDER + 2, dtype=torch.long)
        self.add_state("counts", zero, dist_reduce_fx="sum")

    def update(self, texts: list[str], batch: WritingBatch) -> None:
        """Add what was written for a batch."""
        for text, reference in zip(texts, batch.references, strict=True):
            one = self.bleu.corpus_score([text], [[reference]])
            row = [*one.counts, *one.totals, one.sys_len, one.ref_len]
            self.counts += torch.tensor(row, device=self.counts.device)

    def compute(self) -> Tensor:
        *runs, written, wanted = self.counts.tolist()
        smooth = self.bleu.smooth_method
        score = self.bleu.compute_bleu(runs[:ORDER], runs[ORDER:], written, wanted, smooth)
        return torch.tensor(score.score, dtype=torch.double)


class Exact(Share):
    """The share of texts that are written to the last character as they were wanted."""

    def update(self, texts: list[str], batch: WritingBatch) -> None:
        """Add what was written for a batch."""
        self.right += sum(a == b for a, b in zip(texts, batch.references, strict=True))
        self.count += len(texts)


def bleu_signature() -> str:
    """What decides a BLEU: words, case and smoothing, and the version of sacrebleu."""
    metric = _sacrebleu().BLEU()
    metric.corpus_score(["a"], [["a"]])  # the number of references is part of it
    return str(metric.get_signature())


def _sacrebleu() -> Any:
    return require("sacrebleu", extra="train", purpose="BLEU").metrics
