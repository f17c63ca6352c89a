"""Recorded attention weights: names, values, selections, and models that stay as they are."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import explain, graphs, models
from edgewise.explain import rollout
from edgewise.explain.record import Recorded
from edgewise.layers import MultiHeadAttention
from tests.contracts import test_models as of_models
from tests.contracts import test_text_models as of_text
from tests.errors import refused
from tests.explain.sparse_models import SPARSE, TOKENS, dense_weights, sparse_model, values_of
from tests.layers.test_sparse import sparse

UNWEIGHTED = ["gnn", "graphsage", "gin", "graph_gin", "graph_gnn", "link_predictor", "rgcn"]
"""Models of sums and means, whose weights are equal."""
UNRECORDED = [*UNWEIGHTED, "graph_network", "gated_gcn", "tree_lstm", "performer"]
UNRECORDED += ["rnn", "lstm", "gru"]
"""Models without weights of edges, or with one for each feature (GatedGCN); Performer's attention
never computes them."""


def test_sums_and_means_have_equal_weights() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]]), 3)
    x = torch.randn(3, 4)
    for reduce, expected in (("mean", [[1.0], [0.5], [1.0], [0.5]]), ("sum", [[1.0]] * 4)):
        layer = ew.layers.MessagePassing(4, 4, reduce=reduce)
        with explain.record(layer) as recorded:
            layer(x, graph)
        (found,) = recorded
        assert found.kind == "aggregation"
        assert found.weights.tolist() == expected
    both = nn.ModuleList([layer, ew.layers.MultiHeadAttention(4, 2)])
    with explain.record(both) as recorded:
        both[1](both[0](x, graph), graph)
    assert [one.kind for one in recorded] == ["attention"]


def test_means_over_the_relations_of_a_typed_graph_are_recorded_on_its_nodes() -> None:
    index = {("p", "likes", "p"): [[0, 1, 2], [3, 3, 3]], ("p", "hates", "p"): [[1, 3], [3, 0]]}
    graph = graphs.typed({name: torch.tensor(pairs) for name, pairs in index.items()}, {"p": 4})
    model = ew.models.rgcn(5, 3, relations=2, width=6).eval()
    with explain.record(model) as recorded:
        model(torch.randn(4, 5), graph)
    assert [one.name for one in recorded] == ["layers.1", "layers.4"]
    for one in recorded:
        assert one.kind == "aggregation"
        weights = sorted(
            (*pair, round(weight, 4))
            for pair, weight in zip(
                one.graph.edge_index.T.tolist(), one.weights[:, 0].tolist(), strict=True
            )
        )
        likes = [(source, 3, 0.3333) for source in range(3)]
        assert weights == sorted([*likes, (1, 3, 1.0), (3, 0, 1.0)])


def call(name: str) -> tuple[nn.Module, Any]:
    """A small model, and a function that calls it."""
    if name in of_text.EVERY:
        model = of_text.small(name)
        return model, lambda: of_text.states(model, *of_text.padded())
    model = of_models.small(name)
    return model, lambda: model(*of_models.example(name))


def tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    if not isinstance(out, (list, tuple, dict)):
        out = vars(out)
    parts = out.values() if isinstance(out, dict) else out
    return [x for part in parts if part is not None for x in tensors(part)]


@pytest.mark.slow(every=4)
@pytest.mark.filterwarnings("ignore:.*repeated Laplacian eigenvalues")
@pytest.mark.parametrize("name", models.MODELS)
def test_outputs_are_the_same_bit_for_bit(name: str) -> None:
    model, run = call(name)
    torch.manual_seed(5)
    expected, state = run(), torch.get_rng_state()
    torch.manual_seed(5)
    if name in set(UNRECORDED) - set(UNWEIGHTED):
        error = refused(
            "model", expected="computes attention", got="no attention", remedy="call the model"
        )
        with error, explain.record(model):
            run()
        return
    with explain.record(model) as recorded:
        found = run()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, tensors(found), tensors(expected)))
    modules = dict(model.named_modules())
    for layer in recorded:
        own = layer.name.split("#")[0]
        assert own in modules or own == type(model).__name__
        assert layer.weights.shape[-2:] == (layer.graph.num_edges, len(layer.heads))
        assert not layer.weights.requires_grad
        if layer.kind == "attention":
            assert_sums_are_one(layer.graph, layer.weights)


def assert_sums_are_one(graph: ew.Graph, weights: Tensor) -> None:
    sums = ew.aggregate(weights.new_ones(graph.num_sources, weights.shape[-1], 1).expand(
        *weights.shape[:-2], -1, -1, -1), graph, weight=weights)[..., 0]  # fmt: skip
    reached = graph.in_degree() > 0
    torch.testing.assert_close(sums[..., reached, :], torch.ones_like(sums[..., reached, :]))


def test_gradients_and_dropout_are_the_same() -> None:
    def gradients(record: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model = of_text.small("bert", dropout=0.3).train()
        ids, mask = of_text.padded()
        if record:
            with explain.record(model):
                out = model(ids, mask)
        else:
            out = model(ids, mask)
        out.square().sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    assert all(map(torch.equal, gradients(True), gradients(False)))


def test_weights_are_those_of_the_layer() -> None:
    layer, x = MultiHeadAttention(8, 2, score="bilinear", normaliser="sparsemax"), torch.randn(6, 8)
    graph = (graphs.window(2) | graphs.hubs([0])).bind(6)
    bias = torch.randn(graph.num_edges, 2)
    with explain.record(layer) as recorded:
        layer(x, graph, bias=bias)
    (found,) = recorded
    assert found.name == "MultiHeadAttention"
    assert found.graph is graph
    torch.testing.assert_close(found.weights, layer.weights(x, graph, bias=bias).detach())
    torch.testing.assert_close(found.head(1), found.weights[:, 1])
    with refused("head", expected="0, 1", got="2", remedy="choose"):
        found.head(2)


class Merging(nn.Module):
    """A model that merges the attention of two graphs, one of them with edges counted twice."""

    def forward(self, x: Tensor, first: ew.Graph, second: ew.Graph, third: ew.Graph) -> Tensor:
        parts = [ew.attend_with_lse(x, x, x, graph) for graph in (first, second)]
        merged = ew.merge_attention(parts)
        out, lse = ew.attend_with_lse(x, x, x, third)
        return ew.merge_attention([merged, (out, lse + torch.tensor(2.0).log())])[0]


@pytest.mark.parametrize("max_edges", [10**6, 8])
def test_merged_parts_are_one_layer(max_edges: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 2, 3, dtype=torch.double)
    first, second, third = (
        pattern.bind(7)
        for pattern in (graphs.window(1), graphs.hubs([3]) - graphs.window(1), graphs.window(0))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with explain.record(Merging(), max_edges=max_edges) as recorded:
            out = recorded_model_out = Merging()(x, first, second, third)
    (layer,) = recorded.layers
    assert layer.kind == "attention"
    union = (graphs.window(1) | graphs.hubs([3])).bind(7)
    counts = 1 + 2 * (union.source == union.target).double()
    bias = counts.log()[:, None].expand(-1, 2)
    expected = ew.attention_weights(x, x, union, bias=bias)
    torch.testing.assert_close(out, ew.attend(x, x, x, union, bias=bias))
    order = {pair: row for row, pair in enumerate(zip(*union.edge_index.tolist(), strict=True))}
    rows = [order[pair] for pair in zip(*layer.edge_index.tolist(), strict=True)]
    assert (layer.edges is None) == (max_edges > 8)
    if layer.edges is None:
        torch.testing.assert_close(layer.weights, expected[rows])
    assert recorded_model_out.shape == x.shape


def test_bigbird_is_recorded_whole() -> None:
    torch.manual_seed(0)
    model = models.bigbird(11, width=8, depth=2, heads=2, ffn_dim=8, block=2, random_blocks=2)
    with explain.record(model.eval()) as recorded:
        model(torch.randint(11, (1, 24)))
    for layer in recorded:
        assert layer.kind == "attention"
        assert_sums_are_one(layer.graph, layer.weights)


@pytest.mark.parametrize("name", SPARSE)
def test_weights_over_tokens_give_the_outputs_of_heads(name: str) -> None:
    model, ids = sparse_model(name), torch.arange(TOKENS)[None] % 11
    modules = dict(model.named_modules())
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    with torch.no_grad(), explain.record(model) as recorded:
        for layer in [m for m in modules if hasattr(modules[m], "output") and "attention" in m]:
            module: Any = modules[layer]
            module.register_forward_pre_hook(
                lambda _, args, layer=layer: inputs.update({layer: args[0].reshape(-1, 48)})
            )
            module.output.register_forward_pre_hook(
                lambda _, args, layer=layer: outputs.update({layer: args[0].reshape(TOKENS, 3, -1)})
            )
        model(ids)
    assert len(recorded) == len(outputs) == 2
    hubs = tuple(getattr(model.backbone, "hubs", ()))
    for record in recorded:
        value = values_of(modules[record.name], inputs[record.name], hubs)
        assert (record.kind, record.heads) == ("attention", [0, 1, 2])
        assert (record.graph.num_targets, record.graph.num_sources) == (TOKENS, TOKENS)
        weights = dense_weights(record)
        torch.testing.assert_close(weights.sum(1), torch.ones_like(weights[:, 0]))
        expected = outputs[record.name]  # 16 features determine the weights of 12 sources
        torch.testing.assert_close(torch.einsum("tsh,tshd->thd", weights, value), expected)
    assert recorded.rollout().shape[-2:] == (TOKENS, TOKENS)
    with torch.no_grad(), explain.record(model, heads=[2], targets=[0, 5]) as some:
        model(ids)
    for record, every in zip(some, recorded, strict=True):
        assert record.edge_index[1].unique().tolist() == [0, 5]
        torch.testing.assert_close(record.weights, every.weights[..., record.edges, 2:])
        assert record.left_out == every.graph.num_edges - record.weights.shape[-2]


def test_windows_of_swin_are_recorded_over_patches_in_raster_order() -> None:
    torch.manual_seed(0)
    model = models.swin(8, 3, 5, patch=2, width=8, depths=(2,), heads=(2,), window=2).eval()
    with explain.record(model) as recorded:
        model(torch.randn(1, 3, 8, 8))
    windows = [set(), set()]
    for layer, neighbours in zip(recorded, windows, strict=True):
        assert layer.graph.num_targets == 16
        source, target = layer.edge_index
        neighbours.update(source[target == 5].tolist())
    assert windows == [{0, 1, 4, 5}, {5, 6, 9, 10}]  # the second layer shifts windows by (1, 1)


def test_weights_that_are_applied_several_times_are_one_layer() -> None:
    model = models.magna(5, 3, width=8, depth=2, heads=2, hops=4).eval()
    with explain.record(model) as recorded:
        model(torch.randn(6, 5), graphs.window(1).bind(6))
    assert [layer.kind for layer in recorded] == ["aggregation"] * 2


def test_sparse_features_and_degrees_are_not_layers() -> None:
    model = models.gcn(5, 3).eval()
    x = sparse(torch.eye(6, 5))
    with explain.record(model) as recorded:
        model(x, graphs.window(1).bind(6))
    assert len(recorded) == 2
    assert all(layer.graph.num_sources == 6 for layer in recorded)


def bert() -> nn.Module:
    torch.manual_seed(0)
    return models.bert(11, width=8, depth=2, heads=4, ffn_dim=8).eval()


IDS = torch.arange(2, 9)[None]
ATTENTION = "backbone.stack.layers.{}.attention.sublayer"


def test_names_heads_targets_and_layers_are_chosen() -> None:
    model = bert()
    with explain.record(model) as whole:
        model(IDS)
    assert whole.names == [ATTENTION.format(0), ATTENTION.format(1)]
    last = "backbone.stack.layers.1"
    with explain.record(model, layers=last, heads=[3, 1], targets=[0, 5]) as some:
        model(IDS)
    (layer,) = some
    assert layer.name == ATTENTION.format(1)
    assert layer.heads == [3, 1]
    assert layer.edge_index[1].unique().tolist() == [0, 5]
    assert layer.left_out == 49 - 14
    expected = whole[1].weights[..., layer.edges, :][..., [3, 1]]
    torch.testing.assert_close(layer.weights, expected)
    torch.testing.assert_close(layer.head(3), expected[..., 0])
    assert "edges left out" in repr(some)
    assert whole[ATTENTION.format(0)] is whole[0]


def test_a_second_call_has_a_number() -> None:
    model = bert()
    with explain.record(model) as recorded:
        model(IDS)
        model(IDS)
    assert recorded.names[2:] == [f"{ATTENTION.format(0)}#2", f"{ATTENTION.format(1)}#2"]


def test_too_many_edges_leave_targets_out() -> None:
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 40, 8)
    said = r"1,600 edges, more than max_edges \(900 for 3 members.*280 edges of 7 of 40 targets"
    recording = explain.record(layer, max_edges=900)
    with pytest.warns(UserWarning, match=said), recording as recorded:
        layer(x, graphs.complete())
    (found,) = recorded
    assert found.weights.shape == (3, 280, 2)
    assert found.left_out == 1320
    assert found.edge_index[1].unique().tolist() == [0, 6, 12, 18, 24, 30, 36]
    whole = layer.weights(x, graphs.complete()).detach()
    torch.testing.assert_close(found.weights, whole[:, found.edges])
    with refused("layers", expected="all edges", got="280 of 1,600", remedy="max_edges"):
        recorded.rollout()


def test_bad_requests_are_named() -> None:
    model = bert()
    with (
        refused("layers", expected="stack.layers.1", got="layers.7", remedy="mean"),
        explain.record(model, layers="backbone.stack.layers.7"),
    ):
        pass
    child = next(name for name, m in model.named_modules() if isinstance(m, nn.Embedding))
    with (
        refused("layers", expected=ATTENTION.format(0), got=child, remedy="omit layers"),
        explain.record(model, layers=[child]),
    ):
        model(IDS)
    with (
        refused(
            "heads",
            expected=f"heads of {ATTENTION.format(0)}: 0, 1, 2, 3",
            got="4",
            remedy="choose",
        ),
        explain.record(model, heads=[4]),
    ):
        model(IDS)
    with (
        refused("targets", expected="from 0 to 6", got="7", remedy="choose"),
        explain.record(model, targets=[7]),
    ):
        model(IDS)
    with (
        refused("max_edges", expected="at least 1", got="0", remedy="1_000_000"),
        explain.record(model, max_edges=0),
    ):
        pass
    with (
        refused("model", expected="torch.nn.Module", got="str", remedy="edgewise.load"),
        explain.record("runs/mine"),
    ):
        pass
    with (
        refused(
            "model", expected="called within the block", got="no attention", remedy="call the model"
        ),
        explain.record(model),
    ):
        pass
    with explain.record(model) as recorded:
        model(IDS)
    with refused("layer", expected="attention.sublayer", got="'attentoin'", remedy="choose"):
        recorded["attentoin"]
    with refused("layer", expected="2 recorded layers", got="2", remedy="sublayer"):
        recorded[2]


def test_nothing_is_left_behind() -> None:
    model = bert()
    with pytest.raises(ew.ArgumentError), explain.record(model):
        model(IDS + 11)
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in model.modules()]
    assert not any(hooks)
    from edgewise.attention.hooks import is_intercepted

    assert not is_intercepted()


def test_recorders_may_be_nested() -> None:
    model = bert()
    with explain.record(model) as outer, explain.record(model, heads=[2]) as inner:
        model(IDS)
    for own, other in zip(inner, outer, strict=True):
        torch.testing.assert_close(own.weights, other.weights[..., [2]])


def dense(recorded: Recorded, size: int) -> list[Tensor]:
    found = []
    for layer in recorded:
        matrix = torch.zeros(*layer.weights.shape[:-2], size, size)
        matrix[..., layer.graph.target, layer.graph.source] = layer.weights.mean(-1)
        found.append(matrix)
    return found


@pytest.mark.parametrize("large", [False, True])
def test_rollout_multiplies_the_layers(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = models.transformer_encoder(8, depth=3, heads=2).eval()
    x = torch.randn(*([] if large else [2]), 9, 8)
    if large:
        monkeypatch.setattr(rollout, "MAX_DENSE", 4)
    with explain.record(model) as recorded:
        model(x, (graphs.window(1) | graphs.hubs([2])).bind(9))
    found = recorded.rollout()
    assert found.is_sparse == large
    expected = torch.eye(9)
    for matrix in dense(recorded, 9):
        expected = (0.5 * torch.eye(9) + 0.5 * matrix) @ expected
    torch.testing.assert_close(found.to_dense() if large else found, expected)
    last = recorded.rollout(recorded.names[-1], residual=0.0)
    torch.testing.assert_close(last.to_dense(), dense(recorded, 9)[-1])


def test_rollout_of_other_layers_is_refused() -> None:
    model, run = call("transformer")
    with explain.record(model) as recorded:
        run()
    with refused("layers", expected="same nodes", got="5 targets", remedy="encoder"):
        recorded.rollout()
    assert recorded.rollout("core.encoder").shape == (9, 9)
    with refused("layers", expected="at least one", got="none", remedy="encoder"):
        recorded.rollout("core.nothing")
    with refused("residual", expected="0 to 1", got="2", remedy="0.5"):
        recorded.rollout("core.encoder", residual=2)


def test_a_target_without_sources_keeps_itself() -> None:
    layer = MultiHeadAttention(8, 2)
    graph = graphs.edges(torch.tensor([[0, 1], [1, 1]]), 3)
    with explain.record(layer) as recorded:
        layer(torch.randn(3, 8), graph)
    found = recorded.rollout()
    torch.testing.assert_close(found[[0, 2]], torch.eye(3)[[0, 2]])
    torch.testing.assert_close(found.sum(-1), torch.ones(3))


@pytest.mark.parametrize("layer", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_weights_are_those_of_pyg(layer: str) -> None:
    theirs = pytest.importorskip("torch_geometric.nn")
    import edgewise.interop.pyg as ours

    class Net(nn.Module):
        def __init__(self, library: Any) -> None:
            super().__init__()
            self.conv = getattr(library, layer)(5, 3, heads=2)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    torch.manual_seed(0)
    own, other = Net(ours), Net(theirs)
    own.load_state_dict(other.state_dict())
    x, edge_index = torch.randn(8, 5), torch.randint(8, (2, 20)).unique(dim=1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    with explain.record(own) as recorded:
        out = own(x, edge_index)
    _, (index, weights) = other.conv(x, edge_index, return_attention_weights=True)
    assert torch.equal(out, own(x, edge_index))
    (found,) = recorded
    assert found.name == "conv"
    assert torch.equal(found.graph.edge_index, index)
    torch.testing.assert_close(found.weights, weights.detach(), rtol=0, atol=1e-5)
    with explain.record(own) as recorded:  # the layer computes the weights itself
        own.conv(x, edge_index, return_attention_weights=True)
    torch.testing.assert_close(recorded[0].weights, weights.detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["Bart", "T5", "Bert", "GPT2"])
def test_cross_attention_of_equal_lengths_is_no_self_attention(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("edgewise.interop.huggingface")
    sizes = {"vocab_size": 11, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    if name == "Bart":
        sizes = {"vocab_size": 11, "d_model": 16, "max_position_embeddings": 16}
        sizes |= {"encoder_layers": 1, "decoder_layers": 1, "pad_token_id": 0}
        sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    elif name == "T5":
        sizes = {"vocab_size": 11, "d_model": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
    else:
        sizes |= {"is_decoder": True, "add_cross_attention": True}
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}Model")
    model = model._from_config(config, attn_implementation="edgewise").eval()
    ids = torch.randint(1, 11, (1, 5))
    with torch.no_grad(), explain.record(model) as recorded:
        if name in ("Bart", "T5"):
            model(input_ids=ids, decoder_input_ids=ids)
        else:
            model(ids, encoder_hidden_states=torch.randn(1, 5, 16))
    is_self = [layer.is_self_attention for layer in recorded]
    assert is_self == ([True] if name in ("Bart", "T5") else []) + [True, False]


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
@pytest.mark.parametrize("padded", [False, True])
def test_weights_are_those_of_eager(name: str, padded: bool) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("edgewise.interop.huggingface")
    sizes = {"vocab_size": 11, "max_position_embeddings": 16, "hidden_size": 16}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    if name == "Bert":
        sizes["intermediate_size"] = 24
    config = getattr(transformers, f"{name}Config")
    kind = getattr(transformers, f"{name}Model")
    torch.manual_seed(0)
    own = kind._from_config(config(**sizes), attn_implementation="edgewise").eval()
    other = kind._from_config(config(**sizes), attn_implementation="eager").eval()
    other.load_state_dict(own.state_dict())
    ids, mask = torch.randint(11, (2, 6)), torch.ones(2, 6, dtype=torch.long)
    if padded:
        mask[1, 4:] = 0
    with explain.record(own) as recorded:
        out = own(ids, attention_mask=mask)[0]
    assert torch.equal(out, own(ids, attention_mask=mask)[0])
    expected = other(ids, attention_mask=mask, output_attentions=True).attentions
    assert len(recorded) == len(expected) == 2
    assert recorded.names[0] == ("encoder.layer.0.attention.self" if name == "Bert" else "h.0.attn")
    for layer, matrix in zip(recorded, expected, strict=True):
        source, target = layer.graph.edge_index
        if padded:  # one graph of all members
            found = matrix.detach()[target // 6, :, target % 6, source % 6]
        else:
            found = matrix.detach()[:, :, target, source].transpose(1, 2)
        torch.testing.assert_close(layer.weights, found, rtol=0, atol=1e-5)
