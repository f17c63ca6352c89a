"""Attributions of models that are not runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgewise import explain, graphs, models
from edgewise._utils.errors import ArgumentError
from edgewise.layers import ClassificationHead, TextClassifier, Tokens
from tests.explain.sparse_models import SPARSE, TOKENS, dense_weights, sparse_model, values_of


def test_an_output_of_a_graph_model_is_attributed_to_edges() -> None:
    model, x, graph = models.gat(4, 3).eval(), torch.randn(6, 4), graphs.window(1).bind(6)
    scores = explain.attributions(model, x, graph, target=(2, 1))
    assert scores.method == "removed"
    for pair, contribution in zip(scores.pairs.T, scores.edges, strict=True):
        remaining = ~torch.isin(graph.edge_index, pair).all(0) | (graph.source == graph.target)
        without = model(x, graphs.edges(graph.edge_index[:, remaining], 6))[2, 1]
        torch.testing.assert_close(contribution, (model(x, graph)[2, 1] - without).detach())


def test_a_model_of_pytorch_geometric_is_attributed_alike() -> None:
    pyg = pytest.importorskip("edgewise.interop.pyg")
    layer, x, graph = pyg.GATConv(4, 3), torch.randn(6, 4), graphs.window(1).bind(6)
    scores = explain.attributions(layer, x, graph.edge_index, target=(2, 1), method="left_out")
    assert scores.edges.nonzero()[:, 0].tolist() == [1, 2]  # 1-2 and 2-3


def test_the_largest_output_of_a_text_model_is_the_default() -> None:
    trunk = models.bert(20, width=16, depth=1, heads=2, ffn_dim=32)
    classifier = TextClassifier(trunk, ClassificationHead(16, 3)).eval()

    class OfIds(nn.Module):
        def forward(self, ids: torch.Tensor) -> Any:
            return (classifier(Tokens(ids)),)

    ids = torch.randint(20, (1, 5))
    scores = explain.attributions(OfIds(), ids, labels=list("abcde"), method="relevance")
    best = int(classifier(Tokens(ids)).argmax())
    expected = explain.attributions(OfIds(), ids, target=best, method="relevance")
    assert bool(scores.members.all())
    torch.testing.assert_close(scores.members, expected.members)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"labels": ["a"]}, "labels"), ({"target": None}, "target"), ({"target": 1}, "target")],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], name: str) -> None:
    model, x, graph = models.gcn(4, 3).eval(), torch.randn(6, 4), graphs.window(1)
    with pytest.raises(ArgumentError, match=f"`{name}`"):
        explain.attributions(model, x, graph, **{"target": (2, 1), **changes})
    with pytest.raises(ArgumentError, match="`inputs`"):
        explain.attributions(model, target=(2, 1))


@pytest.mark.parametrize("method", ["removed", "left_out", "relevance", "integrated_gradients"])
def test_target_tokens_are_no_source_tokens_if_they_are_as_many(method: Any) -> None:
    torch.manual_seed(0)
    model = models.transformer(20, width=16, depth=2, heads=2, ffn_dim=16).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    source, target = torch.randint(20, (2, 1, 6))
    options = {"target": (0, 3, 2), "method": method}
    longer = explain.attributions(model, source[:, :5], decoder_input_ids=target, **options)
    equal = explain.attributions(model, source[:, :5], decoder_input_ids=target[:, :5], **options)
    torch.testing.assert_close(equal.members, longer.members)


def test_the_last_row_is_that_of_the_last_target_token() -> None:
    torch.manual_seed(0)
    model = models.transformer(20, width=16, depth=1, heads=2, ffn_dim=16).eval()
    source, target = torch.randint(20, (2, 1, 5))
    last, counted = (
        explain.attributions(model, source, decoder_input_ids=target, target=(0, row, 2))
        for row in (-1, 4)
    )
    torch.testing.assert_close(last.members, counted.members)


def test_ids_that_a_decoder_computes_are_no_source_tokens() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 20, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(**sizes)
    model = transformers.BartModel._from_config(config, attn_implementation="edgewise").eval()
    ids = torch.randint(4, 20, (1, 5))
    with pytest.raises(ArgumentError, match="`decoder_input_ids`"):
        explain.attributions(model, ids, target=(0, 1, 2))
    keywords = {"decoder_input_ids": ids, "decoder_attention_mask": torch.ones_like(ids)}
    found = explain.attributions(model, ids, target=(0, 1, 2), method="relevance", **keywords)
    assert found.members.shape == (5,)
    assert found.members.isfinite().all()


def test_patches_of_swin_are_removed_from_all_stages() -> None:
    torch.manual_seed(0)
    model = models.swin((8, 16), 3, 5, patch=2, width=8, depths=(1, 1), heads=2, window=2).eval()
    image = torch.randn(1, 3, 8, 16)
    found = explain.attributions(model, image, target=2)
    assert (found.method, found.members.shape) == ("removed", (32,))
    with torch.no_grad():
        grey = image.clone()
        grey[..., 2:4, 4:6] = image.mean((-2, -1), keepdim=True)  # the second row, third column
        expected = model(image)[0, 2] - model(grey)[0, 2]
    torch.testing.assert_close(found.members[10], expected)
    with pytest.raises(ArgumentError, match="PatchEmbedding of Edgewise"):
        explain.attributions(nn.Conv2d(3, 1, 8), image, target=0)


ROW = 0, 7, 3
"""Text, token and class of the explained output."""


def with_weights(model: nn.Module, ids: Tensor, change: Any) -> tuple[Tensor, list[Tensor]]:
    """The output with changed weights ``[N, N, H]`` of attention, and the heads' outputs."""
    hubs, outputs = tuple(getattr(model.backbone, "hubs", ())), []
    hooks = []
    for name, module in model.named_modules():
        if hasattr(module, "output") and "attention" in name:
            inputs: list[Tensor] = []

            def enter(_: Any, args: Any, inputs: list[Tensor] = inputs) -> None:
                inputs.append(args[0].reshape(-1, args[0].shape[-1]))

            def leave(
                _: Any, args: Any, module: nn.Module = module, inputs: list[Tensor] = inputs
            ) -> Tensor:
                value = values_of(module, inputs[-1], hubs)
                weights = change(dense_weights(recorded[-1]), value)
                out: Tensor = args[0]
                if weights is not None:
                    out = torch.einsum("tsh,tshd->thd", weights, value).reshape(out.shape)
                outputs.append(out)
                return out

            hooks += [module.register_forward_pre_hook(enter)]
            hooks += [module.output.register_forward_pre_hook(leave)]
    with explain.record(model) as recorded:
        out = model(ids)[ROW]
    for hook in hooks:
        hook.remove()
    return out, outputs


@pytest.mark.parametrize("name", SPARSE)
def test_tokens_of_sparse_models_are_removed_in_all_calls(name: str) -> None:
    model, ids = sparse_model(name), torch.arange(TOKENS)[None] % 11
    scores = explain.attributions(model, ids, target=ROW)
    assert scores.method == "removed"
    with torch.no_grad():
        score = model(ids)[ROW]
        for token, contribution in enumerate(scores.members):

            def without(weights: Tensor, _: Tensor, token: int = token) -> Tensor:
                rest = weights.index_fill(1, torch.tensor([token]), 0.0)
                return rest / rest.sum(1, keepdim=True).clamp(min=1e-12)

            expected = (score - with_weights(model, ids, without)[0]).float()
            torch.testing.assert_close(contribution, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SPARSE)
def test_weights_of_sparse_models_are_those_of_tokens(name: str) -> None:
    model, ids = sparse_model(name), torch.arange(TOKENS)[None] % 11
    with torch.no_grad(), explain.record(model) as recorded:
        model(ids)
    weights = sum(dense_weights(record).sum(-1) for record in recorded).float()
    attended = explain.attributions(model, ids, target=ROW, method="attention")
    weights /= weights.sum()  # rows sum to 1
    others = weights.fill_diagonal_(0.0)
    torch.testing.assert_close(attended.members, others.sum(0))
    first, second = attended.pairs
    torch.testing.assert_close(attended.edges, (others + others.T)[first, second])
    passed = explain.attributions(model, ids, target=ROW, method="rollout")
    expected = recorded.rollout()[0].mean(0).float()
    torch.testing.assert_close(passed.members, expected)


@pytest.mark.parametrize("name", ["longformer", "longformer_many_hubs", "bigbird"])
def test_tokens_of_sparse_models_are_left_out_to_first_order(name: str) -> None:
    model, ids = sparse_model(name), torch.arange(TOKENS)[None] % 11
    layers: list[tuple[Tensor, Tensor]] = []

    out, outputs = with_weights(model, ids, lambda *terms: layers.append(terms))
    scores = explain.attributions(model, ids, target=ROW, method="left_out")
    expected = torch.zeros(TOKENS, dtype=torch.double)
    gradients = torch.autograd.grad(out, outputs)
    for (weights, value), heads, gradient in zip(layers, outputs, gradients, strict=True):
        change = torch.einsum(
            "thd,tshd->tsh",
            gradient.reshape(value[:, 0].shape),
            (heads.reshape(value[:, 0].shape)[:, None] - value),
        )
        effects = (weights / (1 - weights).clamp(min=1e-12) * change).sum(-1)
        expected -= effects.fill_diagonal_(0.0).sum(0).detach()
    torch.testing.assert_close(scores.members, expected.float())
