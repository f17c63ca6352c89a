r"""Baselines of links by relation: rules of one step, DistMult and ComplEx.

A rule :math:`q(h, t) ⇒ r(h, t)` has as confidence the fraction of the training pairs of q, a
relation or a reversed one, that are also pairs of r, plus 1 in the denominator. The score of an
entity t for (h, r, ?) is the largest confidence of the rules that hold for h and t, plus a small
multiple of its number of training triples (?, r, t).

DistMult and ComplEx are :func:`edgewise.models.triple_predictor` without layers, trained with the
loss and batches of the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from edgewise.app.kinds.triples.metrics import FilteredMRR
from edgewise.app.train.baseline import Candidate, Score
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.graphs import TypedGraph
from edgewise.models import triple_predictor
from edgewise.models.triple_predictor import Decoder

DECODERS: dict[str, Decoder] = {"DistMult": "distmult", "ComplEx": "complex"}
RATES, DROPOUTS = (0.003, 0.01), (0.1, 0.3)
"""Settings of DistMult and ComplEx."""
QUICK = 2_000
"""Maximum number of training triples with which ``edgewise train`` fits DistMult and ComplEx."""
MOST_POPULAR = 1e-6
"""Score of the entity with most triples: it orders entities of equal confidence."""


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting, to be fitted to the training triples."""
    graph = splits.val.make(torch.zeros(1, dtype=torch.long)).inputs[2]
    yield Candidate("rules of one step", "", partial(rules, graph))
    slow = splits.train.count > QUICK
    for (name, decoder), rate, dropout in product(DECODERS.items(), RATES, DROPOUTS):
        fit = partial(fitted, recipe, splits, decoder, rate, dropout)
        yield Candidate(name, f"rate {rate:g}, dropout {dropout:g}", fit, slow=slow)


def rules(graph: TypedGraph) -> Score:
    """Return a function that scores entities by the rules of a training graph."""
    relations, entities = len(graph.relations), graph.num_targets
    pair = graph.source * entities + graph.target
    order = pair.argsort()
    pair, body, tail = pair[order], graph.edge_type[order], graph.target[order]
    columns = pair.unique(return_inverse=True)[1]
    shape = relations, int(columns.max()) + 1
    holds = sparse.coo_matrix((np.ones(len(pair)), (body, columns)), shape).tocsr()
    holds.data[:] = 1
    both = torch.from_numpy((holds @ holds.T).toarray()).float()  # Pairs that two relations share.
    confidence = both / (both.diagonal()[:, None] + 1)
    popularity = torch.zeros(relations, entities)
    popularity.index_put_((body, tail), torch.ones(len(tail)), accumulate=True)
    popularity *= MOST_POPULAR / popularity.max().clamp(min=1)
    first = torch.searchsorted(pair, torch.arange(entities + 1) * entities)

    def score(batch: Batch) -> Tensor:
        questions, candidates, _ = batch.inputs
        scores = torch.zeros(questions.shape[1], entities)
        for row, (node, relation) in enumerate(questions.T.tolist()):
            edges = slice(first[node], first[node + 1])
            scores[row].scatter_reduce_(0, tail[edges], confidence[body[edges], relation], "amax")
        return (scores + popularity[questions[1]])[:, candidates]

    return score


def fitted(recipe: Recipe, splits: Splits, decoder: Decoder, rate: float, dropout: float) -> Score:
    """Train DistMult or ComplEx by Adam, with the recipe's width, number of epochs and seed, and
    return the scores of the epoch with the best validation MRR.
    """
    torch.manual_seed(recipe.seed)
    width = recipe.model.keywords.get("width", 64)
    model = triple_predictor(
        **splits.model_arguments, width=width, depth=0, decoder=decoder, dropout=dropout
    )
    loaders = splits.loaders(recipe.seed)
    steps = recipe.trainer.epochs * len(loaders["train"])
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    best, weights = -1.0, model.state_dict()
    for epoch in range(recipe.trainer.epochs):
        loaders["train"].set_epoch(epoch)
        model.train()
        with torch.enable_grad():
            for batch in loaders["train"]:
                optimizer.zero_grad()
                outputs = model(*batch.inputs, **batch.keywords)
                recipe.task.loss(outputs, batch.target).backward()
                optimizer.step()
                schedule.step()
        model.eval()
        mrr = FilteredMRR()
        for batch in loaders["val"]:
            mrr.update(model(*batch.inputs), batch.target)
        if float(mrr.compute()) > best:
            best, weights = float(mrr.compute()), deepcopy(model.state_dict())
    model.load_state_dict(weights)
    return lambda batch: model(*batch.inputs)
