"""Metrics of generated texts: BLEU and exact match."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from edgewise._utils.errors import require
from edgewise.app.train.batches import WritingBatch

ORDER = 4  # BLEU counts n-grams of one to four words.


class BLEU(Metric):
    """Corpus BLEU by sacrebleu, from 0 to 100 (Papineni et al., 2002; Post, 2018). That of
    torchmetrics is 0 if no 4-gram matches, where sacrebleu smooths.
    """

    full_state_update = False
    higher_is_better = True
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.bleu = _sacrebleu().BLEU()
        # Matches and totals of each n-gram order, then lengths of outputs and references.
        zero = torch.zeros(2 * ORDER + 2, dtype=torch.long)
        self.add_state("counts", zero, dist_reduce_fx="sum")

    def update(self, texts: list[str], batch: WritingBatch) -> None:
        """Compare the generated texts of a batch with its reference texts."""
        for text, reference in zip(texts, batch.references, strict=True):
            score = self.bleu.corpus_score([text], [[reference]])
            row = [*score.counts, *score.totals, score.sys_len, score.ref_len]
            self.counts += torch.tensor(row, device=self.counts.device)

    def compute(self) -> Tensor:
        *runs, output_length, reference_length = self.counts.tolist()
        smooth = self.bleu.smooth_method
        score = self.bleu.compute_bleu(
            runs[:ORDER], runs[ORDER:], output_length, reference_length, smooth
        )
        return torch.tensor(score.score, dtype=torch.double)


class Exact(MeanMetric):
    """Fraction of generated texts that equal their reference."""

    higher_is_better = True  # type: ignore[assignment]

    def update(self, texts: list[str], batch: WritingBatch) -> None:  # type: ignore[override]
        """Compare the generated texts of a batch with its reference texts."""
        right = [float(a == b) for a, b in zip(texts, batch.references, strict=True)]
        super().update(torch.tensor(right))


def bleu_signature() -> str:
    """Return sacrebleu's signature, which states tokenisation, case, smoothing and version."""
    metric = _sacrebleu().BLEU()
    metric.corpus_score(["a"], [["a"]])  # A call sets the number of references in the signature.
    return str(metric.get_signature())


def _sacrebleu() -> Any:
    return require("sacrebleu", extra="train", purpose="BLEU").metrics
