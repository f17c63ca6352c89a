"""BLEU and exact match of the texts that a model has written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from edgewise.batches import WritingBatch
from edgewise.errors import require

ORDER = 4  # BLEU counts runs of one to four words


class BLEU(Metric):
    """sacrebleu's BLEU of the whole split, from 0 to 100 (Papineni et al., 2002; Post, 2018).

    What is kept are sums over texts, so that processes can add them up. torchmetrics'
    SacreBLEUScore gives 0 where no run of four words matches, which sacrebleu smooths, and has no
    signature to report.
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


class Exact(MeanMetric):
    """The share of texts that are written to the last character as they were wanted."""

    def update(self, texts: list[str], batch: WritingBatch) -> None:  # type: ignore[override]
        """Add what was written for a batch."""
        right = [float(a == b) for a, b in zip(texts, batch.references, strict=True)]
        super().update(torch.tensor(right))


def bleu_signature() -> str:
    """What decides a BLEU: words, case and smoothing, and the version of sacrebleu."""
    metric = _sacrebleu().BLEU()
    metric.corpus_score(["a"], [["a"]])  # the number of references is part of it
    return str(metric.get_signature())


def _sacrebleu() -> Any:
    return require("sacrebleu", extra="train", purpose="BLEU").metrics
