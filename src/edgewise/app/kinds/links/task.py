"""Link prediction: binary cross-entropy, AUC, hits@k, mean reciprocal rank and recall@k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import require
from edgewise.app.train.task import Task
from edgewise.graphs import Graph
from edgewise.models.link_predictor import LinkPredictor

if TYPE_CHECKING:
    from torchmetrics import Metric

RANKED = 1 << 22
"""Maximum number of pairs that are scored for recall@k; nodes are sampled to stay below it."""
CHUNK = 1 << 17  # Pairs per call of the model, to limit memory.


@dataclass(frozen=True)
class LinkPrediction(Task):
    """Link prediction, with logits ``[M]`` of pairs and targets ``[M]``: 1 for an edge, else 0.

    For recall@k on the test set, all nodes that are not linked to a node in the training or
    validation set are ranked as its new neighbours. Recall is the fraction of the node's test links
    that are among the k best, averaged over nodes.

    Attributes:
        hits: the number k of the metric hits@k, the fraction of edges that score above the k-th
            best non-edge.
        k: the number k of the metric recall@k: proposed links for each node.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.links import LinkPrediction
        >>> logits, target = torch.tensor([3.0, -2.0]), torch.tensor([1.0, 0.0])  # edge, none
        >>> round(LinkPrediction().loss(logits, target).item(), 4)
        0.0878
    """

    hits: int = 50
    k: int = 10

    def __post_init__(self) -> None:
        check_range("task.hits", self.hits, "choose for example 50", least=1)
        check_range("task.k", self.k, "choose for example 10", least=1)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="link prediction")
        from edgewise.app.kinds.links.metrics import LinkAUC, LinkHits, LinkMRR

        return {"auc": LinkAUC(), f"hits@{self.hits}": LinkHits(self.hits), "mrr": LinkMRR()}

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="link prediction")
        from edgewise.app.kinds.links.metrics import LinkRecall

        return {f"recall@{self.k}": LinkRecall()}

    @torch.no_grad()
    def generate(self, model: Callable[..., Tensor], batch: Any) -> tuple[Tensor, Tensor]:
        """Propose the k best new neighbours ``[B, k]`` of nodes ``[B]``, those with held-out links
        or a random part of them. If there are fewer than k, other nodes fill the list.
        """
        pairs, graph = batch.inputs
        held_out = pairs[:, batch.target > 0.5]
        nodes, count = held_out.unique(), max(batch.left.stop, batch.right.stop)
        all_nodes, random = (
            torch.arange(count, device=nodes.device),
            torch.Generator().manual_seed(0),
        )
        chosen = torch.randperm(len(nodes), generator=random)[: max(RANKED // count, 1)]
        nodes = nodes[chosen.to(nodes.device)]
        linked_pairs = torch.cat([batch.known, batch.known.flip(0)], dim=1)
        second = (all_nodes >= batch.right.start) if batch.left != batch.right else None
        score, best = _scores(model, graph), []
        for chunk in nodes.split(max(CHUNK // count, 1)):
            candidates = torch.stack([chunk.repeat_interleave(count), all_nodes.repeat(len(chunk))])
            scores = score(candidates).view(len(chunk), count).float()
            scores[all_nodes[: len(chunk)], chunk] = -torch.inf
            row = torch.full_like(all_nodes, -1)
            row[chunk] = all_nodes[: len(chunk)]
            linked = row[linked_pairs[0]] >= 0
            scores[row[linked_pairs[0, linked]], linked_pairs[1, linked]] = -torch.inf
            if second is not None:  # Nodes of the same type cannot be linked.
                scores = scores.masked_fill(second[chunk, None] == second, -torch.inf)
            best.append(scores.topk(min(self.k, count)).indices)
        return nodes, torch.cat(best)


def _scores(model: Callable[..., Tensor], graph: Graph) -> Callable[[Tensor], Tensor]:
    """Return a function that scores pairs; a link predictor computes its node states once."""
    if isinstance(model, LinkPredictor):
        states = model.embed(graph)
        return lambda pairs: model.score(states, pairs, graph)
    return lambda pairs: model(pairs, graph)
