"""Statistics and importance of heads, and models without some of them."""

from __future__ import annotations

import copy
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edgewise
import edgewise as ew
from edgewise import explain, graphs, models
from edgewise.app.explain import save_pruned
from edgewise.interop import huggingface
from edgewise.layers import MultiHeadAttention
from tests.errors import case, refused
from tests.explain import small_runs
from tests.explain.test_record import (
    SPARSE,
    TOKENS,
    UNRECORDED,
    call,
    sparse_model,
    tensors,
)


def largest(first: Any, second: Any) -> float:
    pairs = zip(tensors(first), tensors(second), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs if one.numel())


@pytest.mark.slow(every=4)
@pytest.mark.filterwarnings("ignore:.*repeated Laplacian eigenvalues")
@pytest.mark.parametrize("name", [name for name in models.MODELS if name not in UNRECORDED])
def test_a_pruned_model_is_the_masked_one(name: str) -> None:
    model, run = call(name)
    for parameter in model.parameters():  # a bias of 0 would hide a mistake
        if not parameter.abs().any():
            nn.init.normal_(parameter, std=0.3)
    layers = explain.layers_with_heads(model)
    heads = {layer: [0, *kept[2:3]] for layer, kept in layers.items() if len(kept) > 1}
    if not heads:
        with refused(
            "model", expected="heads can be removed", got="no such layer", remedy="Transformer"
        ):
            explain.prune(model, {})
        return
    whole = run()
    with explain.masked_heads(model, heads):
        masked = run()
    if name != "captioner":  # its second input is compared below, too
        assert largest(masked, whole) > 0
    state = model.state_dict()
    assert explain.prune(model, heads) is model
    assert largest(run(), masked) < 1e-6
    assert sum(map(Tensor.numel, model.state_dict().values())) < sum(
        map(Tensor.numel, state.values())
    )
    left = explain.layers_with_heads(model)
    assert all(set(left[layer]) == set(layers[layer]) - set(heads[layer]) for layer in heads)


PRUNABLE = ["bert", "gpt", "llama", "t5", "transformer", "vit", "swin", "graphormer", "exphormer"]


@pytest.mark.parametrize("name", PRUNABLE)
def test_these_models_can_be_pruned(name: str) -> None:
    assert explain.layers_with_heads(call(name)[0])


@pytest.mark.parametrize(
    "options",
    [
        {"score": "bilinear", "normaliser": "learned"},
        {"score": "tanh"},
        {"score": "concatenation", "normaliser": "sparsemax"},
        {"key_heads": 2},
        {"head_width": 5, "bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("source", [False, True])
def test_layers_are_pruned_in_any_form(options: dict[str, Any], source: bool) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 4, source_width=6 if source else None, **options).double()
    x, other = torch.randn(5, 8, dtype=torch.double), torch.randn(5, 6, dtype=torch.double)
    graph = graphs.window(1).bind(5)
    terms = {"bias": torch.randn(graph.num_edges, 4, dtype=torch.double)}
    if "key_heads" not in options:
        terms["edge_value"] = torch.randn(graph.num_edges, 4, layer.head_width, dtype=torch.double)
    args = (x, graph, other) if source else (x, graph)
    name = "MultiHeadAttention"
    with explain.masked_heads(layer, {name: [2, 3]}):
        masked = layer(*args, **terms)
    layer.keep_heads([0, 1])
    torch.testing.assert_close(layer(*args, **terms), masked, rtol=0, atol=1e-12)
    weights = layer.weights(*args, bias=terms["bias"])
    assert weights.shape == (graph.num_edges, 2)
    assert layer.key_heads == (1 if "key_heads" in options else 2)


def test_tables_of_biases_lose_the_same_heads() -> None:
    layer, x = MultiHeadAttention(8, 4), torch.randn(5, 8)
    graph = graphs.complete().bind(5)
    table = ew.TableBias(torch.arange(25) % 3, torch.randn(3, 4))
    with explain.masked_heads(layer, {"MultiHeadAttention": [1]}):
        masked = layer(x, graph, bias=table)
    layer.keep_heads([0, 2, 3])
    torch.testing.assert_close(layer(x, graph, bias=table), masked)


def test_layers_have_numbers_as_in_transformers() -> None:
    torch.manual_seed(0)
    model = models.bert(11, width=8, depth=2, heads=4, ffn_dim=8).eval()
    ids, (first, second) = torch.arange(5)[None], explain.layers_with_heads(model)
    with torch.no_grad(), explain.record(model, layers=1) as only, explain.record(model) as all_:
        model(ids)
    assert only.names == [second]
    assert [all_.number(layer) for layer in all_] == [0, 1]
    with torch.no_grad():
        with explain.masked_heads(model, {0: [1, 3], second: [0]}):
            masked = model(ids)
        explain.prune(model, {0: [1]})
        explain.prune(model, {0: [3], 1: [0]})  # heads keep their numbers
        torch.testing.assert_close(model(ids), masked)
    assert explain.layers_with_heads(model) == {first: [0, 2], second: [1, 2, 3]}
    with refused("heads", expected="from 0 to 1", got="2", remedy="`edgewise heads`"):
        explain.prune(model, {2: [0]})
    unknown = {"backbone.stack.layers.9.attention.sublayer": [0]}
    with (
        refused("heads", expected="layers", got="layers.9", remedy="did you mean"),
        explain.masked_heads(model, unknown),
    ):
        pass
    with (
        refused("layers", expected="from 0 to 1", got="2", remedy="`edgewise heads`"),
        torch.no_grad(),
        explain.record(model, layers=[0, 2]),
    ):
        model(ids)
    # The numbers of convolutions count, although their heads cannot be removed.
    convolutions = models.light_conv(11, width=8, depth=1, heads=2, ffn_dim=8, kernels=(3,))
    with refused("heads", expected="names of layers", got="a number", remedy="layers_with_heads"):
        explain.prune(convolutions, {0: [0]})


def test_numbers_of_layers_and_heads_are_integers_of_any_library() -> None:
    model = models.bert(11, width=8, depth=2, heads=4, ffn_dim=8).eval()
    ids, names = torch.arange(5)[None], list(explain.layers_with_heads(model))
    numbers = [np.int64(1), np.array(1)[()], torch.tensor(1)]
    for number in numbers:
        for layers in (number, [number]):
            with torch.no_grad(), explain.record(model, layers, heads=[number]) as recorded:
                model(ids)
            assert recorded.names == names[1:]
            assert recorded[0].heads == [1]
            assert torch.equal(recorded.rollout(layers), recorded.rollout())
        with torch.no_grad(), explain.masked_heads(model, {number: [number]}):
            masked = model(ids)
        pruned = explain.prune(copy.deepcopy(model), {number: [number]})
        torch.testing.assert_close(pruned(ids), masked)
    for layer in (True, np.bool_(True), 1.0, None, torch.tensor(True)):
        with case(layer):
            said = {"expected": "a number", "got": repr(layer), "remedy": "from 0"}
            with refused("heads", **said):
                explain.prune(model, {layer: [1]})  # type: ignore[dict-item]
            with refused("layers", **said), explain.record(model, [layer]):
                pass
            with refused("layers", **said):
                recorded.rollout([layer])
    for head in (True, np.bool_(True), 1.0, torch.tensor(True)):
        with case(head), refused("heads", expected="0, 1, 2, 3", got=str(head), remedy="choose"):
            explain.prune(model, {0: [head]})  # type: ignore[list-item]


def test_bad_prunings_are_named() -> None:
    model = models.bert(11, width=8, depth=2, heads=4, ffn_dim=8)
    name = "backbone.stack.layers.0.attention.sublayer"
    with refused("layer", expected="layers", got="'layers.0'", remedy="e"):
        explain.prune(model, {"layers.0": [0]})
    with refused("heads", expected=f"heads of {name}: 0, 1, 2, 3", got="4", remedy="choose"):
        explain.prune(model, {name: [0, 4]})
    with refused(
        "heads", expected="at least one", got="all heads, 0, 1, 2, 3", remedy="keep at least one"
    ):
        explain.prune(model, {name: [0, 1, 2, 3]})
    explain.prune(model, {name: [1]})
    with refused("heads", expected="0, 2, 3", got="1", remedy="choose"):
        explain.prune(model, {name: [1]})
    explain.prune(model, {name: [3]})
    assert explain.layers_with_heads(model)[name] == [0, 2]
    grouped = MultiHeadAttention(8, 4, key_heads=2)
    with refused(
        "heads", expected="groups of 2 heads", got="2, 1 heads left", remedy="whole groups"
    ):
        grouped.keep_heads([0, 1, 2])
    with refused("heads", expected="at least one", got="none", remedy="still has"):
        grouped.keep_heads([])
    for split in (models.bert(11, width=8, depth=1, heads=2, ffn_dim=8, projections="split"),
                  models.gcn(4, 2)):  # fmt: skip
        with refused(
            "model", expected="heads can be removed", got="no such layer", remedy="Transformer"
        ):
            explain.prune(split, {})
    masked = explain.masked_heads(model, {name: [4]})
    with refused("heads", expected=f"heads of {name}: 0, 2", got="4", remedy="choose"), masked:
        model(torch.arange(5)[None])


def test_importance_is_the_derivative_by_the_mask() -> None:
    torch.manual_seed(0)
    model = models.transformer_encoder(8, depth=2, heads=4).double().eval()
    graph = graphs.window(1).bind(6)
    batches = [torch.randn(6, 8, dtype=torch.double) for _ in range(3)]

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x, graph).square().mean()

    found = explain.importance(model, batches, loss)
    assert list(found) == [f"layers.{i}.attention.sublayer" for i in range(2)]
    step = 1e-6
    for name, values in found.items():
        layer = model.get_submodule(name)
        for head in range(4):
            rows = slice(head * layer.head_width, (head + 1) * layer.head_width)
            slopes = []
            for x in batches:
                ends = []
                for factor in (1 + step, 1 - step):
                    with torch.no_grad():
                        kept = layer.output.weight.clone()
                        layer.output.weight[:, rows] *= factor
                        ends.append(float(loss(model, x)))
                        layer.output.weight.copy_(kept)
                slopes.append(abs(ends[0] - ends[1]) / (2 * step))
            assert float(values[head]) == pytest.approx(sum(slopes) / 3, rel=1e-3, abs=1e-9)
    left = explain.importance(model, batches, loss, by="leaving_out")
    assert set(left) == set(found)
    name = next(iter(left))
    with explain.masked_heads(model, {name: [2]}), torch.no_grad():
        masked = sum(float(loss(model, x)) for x in batches) / 3
    full = sum(float(loss(model, x).detach()) for x in batches) / 3
    assert float(left[name][2]) == pytest.approx(masked - full, rel=1e-4)
    gains = explain.importance(model, batches, loss, by="gain")
    assert all(bool((value > 0).all()) for value in gains.values())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", SPARSE)
def test_heads_of_sparse_models_are_heads(name: str) -> None:
    model, ids = sparse_model(name), torch.arange(TOKENS)[None] % 11

    def loss(model: nn.Module, ids: Tensor) -> Tensor:
        return model(ids).square().sum()

    found = explain.importance(model, [ids], loss)
    gains = explain.importance(model, [ids], loss, by="gain")
    left = explain.importance(model, [ids], loss, by="leaving_out")
    assert {len(values) for values in (*found.values(), *gains.values(), *left.values())} == {3}
    assert len(found) == len(gains) == len(left) == 2
    assert all(bool((value > 0).all()) for value in gains.values())
    full = float(loss(model, ids).detach())
    for layer in found:
        output: Any = model.get_submodule(layer).output
        for head in range(3):
            columns = slice(head * 16, (head + 1) * 16)
            weight, ends = output.weight.detach().clone(), []
            for factor in (1 + 1e-6, 1 - 1e-6, 0.0):
                with torch.no_grad():
                    output.weight[:, columns] *= factor
                    ends.append(float(loss(model, ids)))
                    output.weight.copy_(weight)
            slope = abs(ends[0] - ends[1]) / 2e-6
            assert float(found[layer][head]) == pytest.approx(slope, rel=1e-3, abs=1e-5)
            assert float(left[layer][head]) == pytest.approx(ends[2] - full, rel=1e-6)
            with torch.no_grad(), explain.masked_heads(model, {layer: [head]}):
                assert float(loss(model, ids)) == pytest.approx(ends[2], rel=1e-9)
    with refused("model", expected="can be removed", got="no such layer", remedy="Transformer"):
        explain.prune(model, {0: [1]})


def test_gain_is_the_gradient_of_every_edge() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2), torch.randn(5, 8)
    graph = graphs.window(1).bind(5)
    gain = torch.ones(graph.num_edges, 2, requires_grad=True)
    layer(x, graph, gain=gain).square().mean().backward()
    assert gain.grad is not None
    found = explain.importance(
        layer, [x], lambda layer, x: layer(x, graph).square().mean(), by="gain"
    )
    torch.testing.assert_close(found["MultiHeadAttention"], gain.grad.abs().sum(0))


def test_bad_requests_are_named() -> None:
    model = models.gnn(4, 2)
    graph = graphs.window(1).bind(3)
    with refused(
        "model", expected="computes attention", got="GraphSequential", remedy="of Edgewise"
    ):
        explain.importance(model, [torch.randn(3, 4)], lambda m, x: m(x, graph).sum())
    with refused("batches", expected="loss=", got="without", remedy="run"):
        explain.importance(model)
    with refused("by", expected="gradient", got="'gradent'", remedy="gradient"):
        explain.importance(model, by="gradent")  # type: ignore[arg-type]
    with refused("max_batches", expected="at least 1", got="0", remedy="omit max_batches"):
        explain.importance(model, max_batches=0)


def layer_record(weights: Tensor, graph: Any) -> explain.Recorded:
    recorded = explain.Recorded()
    heads = list(range(weights.shape[-1]))
    recorded.layers.append(explain.LayerRecord("layer", graph, weights, heads))
    return recorded


def test_statistics_of_known_heads() -> None:
    """Head 0 is uniform, head 1 attends to the own node, head 2 to the first of each text."""
    graph = graphs.batch([graphs.complete().bind(8), graphs.complete().bind(4)])
    source, target = graph.edge_index
    size = torch.where(target < 8, 8, 4)
    first = torch.where(target < 8, 0, 8)
    weights = torch.stack([1 / size, source == target, source == first], dim=1).float()
    (found,) = explain.statistics(layer_record(weights, graph))
    uniform = (8 * math.log(8) + 4 * math.log(4)) / 12
    near = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(found.entropy.float(), torch.tensor([uniform, 0, 0]), **near)
    torch.testing.assert_close(found.relative_entropy.float(), torch.tensor([1.0, 0, 0]), **near)
    torch.testing.assert_close(found.own.float(), torch.tensor([2 / 12, 1, 2 / 12]), **near)
    torch.testing.assert_close(found.first.float(), torch.tensor([2 / 12, 2 / 12, 1]), **near)
    apart = (8 * (8**2 - 1) / (3 * 8) + 4 * (4**2 - 1) / (3 * 4)) / 12
    far = (28 + 6) / 12
    torch.testing.assert_close(found.distance.float(), torch.tensor([apart, 0, far]), **near)
    # Node 8 receives 4 times the mean of its text of 4, which is not more than that.
    torch.testing.assert_close(found.hubs.float(), torch.tensor([0, 0, 8 / 12]), **near)
    assert "relative_entropy" in str(found)


def test_statistics_without_common_nodes_are_unknown() -> None:
    graph = graphs.complete().bind(3, 5)
    (found,) = explain.statistics(layer_record(torch.full((2, 15, 1), 0.2), graph))
    assert found.distance.isnan().all()
    assert found.own.isnan().all()
    assert float(found.relative_entropy) == pytest.approx(1)
    with refused("recorded", expected="self-attention", got="layer", remedy="encoder"):
        explain.observations(layer_record(torch.full((2, 15, 1), 0.2), graph))


def test_observations_are_counted() -> None:
    graph = graphs.complete().bind(10)
    source, target = graph.edge_index
    weights = torch.zeros(100, 1)
    weights[source == target] = 0.5
    weights[(source == 7) & (target != 7)] = 0.5
    weights[(source == 3) & (target != 3) & (target < 5)] = 0.02  # half of the nodes
    found = explain.observations(layer_record(weights, graph), window=1)
    assert found.near_zero == pytest.approx(77 / 100)
    assert found.local == pytest.approx((10 + 2 + 2) / 23)
    assert found.local_edges == pytest.approx(28 / 100)
    assert found.global_nodes == 1
    assert found.nodes == 10
    assert "77.0% of the weights" in str(found)
    two = torch.cat([weights, torch.full((100, 1), 0.1)], dim=1)  # a head with equal weights
    assert explain.observations(layer_record(two, graph)).global_nodes == 0.5


@pytest.mark.parametrize("count", [5, 400])
def test_equal_weights_show_none_of_the_observations(count: int) -> None:
    graph = graphs.complete().bind(count)
    found = explain.observations(layer_record(torch.full((count**2, 2), 1 / count), graph))
    assert found.near_zero == 0
    assert found.local == found.local_edges
    assert found.global_nodes == 0


def test_the_least_important_heads_are_chosen() -> None:
    scores = {"a": torch.tensor([0.4, 0.1, 0.3]), "b": torch.tensor([20.0, 5.0]),
              "c": torch.tensor([0.0])}  # fmt: skip
    layers = {"a": [0, 1, 2], "b": [0, 1], "c": [0]}
    assert explain.least_important(scores, 0, layers) == {}
    assert explain.least_important(scores, 1 / 3, layers) == {"a": [1, 2]}
    assert explain.least_important(scores, 0.4, layers) == {"a": [1, 2], "b": [1]}, "rounded up"
    # One head is left in each layer.
    assert explain.least_important(scores, 0.9, layers) == {"a": [1, 2], "b": [1]}
    # Divided by the norms: .20 and .59 in a, .24 in b.
    assert explain.least_important(scores, 1 / 3, layers, normalise=True) == {"a": [1], "b": [1]}
    with refused("fraction", expected="below 1", got="1", remedy="0.2"):
        explain.least_important(scores, 1, layers)
    torch.manual_seed(0)
    model = models.bert(11, width=8, depth=2, heads=4, ffn_dim=8)
    ids = torch.arange(5)[None]
    found = explain.importance(model, [ids], lambda model, x: model(x).square().mean())
    explain.prune(model, explain.least_important(found, 0.5, explain.layers_with_heads(model)))
    assert sum(map(len, explain.layers_with_heads(model).values())) == 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> edgewise.app.runs.Run:
    pytest.importorskip("lightning")
    pytest.importorskip("tokenizers")
    return edgewise.load(small_runs.sentences(tmp_path_factory.mktemp("runs") / "sentences"))


@pytest.mark.slow
def test_heads_of_a_run_have_an_importance(run: edgewise.app.runs.Run) -> None:
    for by in ("gradient", "gain", "leaving_out"):
        found = explain.importance(run, by=by, max_batches=1)
        assert list(found) == list(explain.layers_with_heads(run.model))
        assert all(value.shape == (4,) and value.isfinite().all() for value in found.values())


def test_a_pruned_run_predicts_after_it_was_saved(
    run: edgewise.app.runs.Run, tmp_path: Path
) -> None:
    texts = ["a big film", "an old film"]
    fresh = edgewise.load(run.path)
    first, second = explain.layers_with_heads(fresh)
    explain.prune(fresh, {first: [1, 2], second: [0]})
    expected = fresh.predict(texts)
    assert expected != run.predict(texts)
    again = edgewise.load(save_pruned(fresh, tmp_path / "pruned"))
    assert again.predict(texts) == expected
    assert list(explain.layers_with_heads(again.model).values()) == [[0, 3], [1, 2, 3]]
    with pytest.raises(ew.EdgewiseError, match="exists"):
        save_pruned(fresh, tmp_path / "pruned")


def theirs(name: str, implementation: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("edgewise.interop.huggingface")
    sizes = {"vocab_size": 11, "max_position_embeddings": 16, "hidden_size": 16}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    if name == "GPT2":
        sizes = {"vocab_size": 11, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4}
    elif name == "DistilBert":
        sizes = {"vocab_size": 11, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}
    else:
        sizes["intermediate_size"] = 24
    if name == "Llama":
        sizes["num_key_value_heads"] = 2
    config = getattr(transformers, f"{name}Config")(**sizes)
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}Model")._from_config(
        config, attn_implementation=implementation
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.3)
    return model.eval()


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("implementation", ["edgewise", "eager", "sdpa"])
@pytest.mark.parametrize("name", ["Bert", "Roberta", "DistilBert", "GPT2", "Llama"])
def test_their_models_are_pruned(name: str, implementation: str, tmp_path: Path) -> None:
    model = theirs(name, implementation)
    masked_model = theirs(name, "edgewise")
    ids = torch.randint(2, 11, (2, 6))
    layers = explain.layers_with_heads(model)
    assert [len(heads) for heads in layers.values()] == [4, 4]
    first, second = layers
    heads = {first: [2, 3], second: [0, 2] if name == "Llama" else [1]}
    with explain.masked_heads(masked_model, heads):
        masked = masked_model(ids)[0]
    explain.prune(model, heads)
    assert largest(model(ids)[0], masked) < 1e-6 * float(masked.detach().abs().max())
    assert explain.layers_with_heads(model)[first] == [0, 1]
    model.save_pretrained(tmp_path)
    loaded = huggingface.load_pruned(type(model), tmp_path)
    assert largest(loaded(ids)[0], model(ids)[0]) < 1e-5
    loss = model(ids)[0].square().mean()
    loss.backward()  # it can be trained further


def test_a_pruned_model_is_faster() -> None:
    """Half of the heads of a layer; a quarter of the time is a wide margin."""
    torch.set_num_threads(1)
    layer, x = MultiHeadAttention(256, 8).eval(), torch.randn(512, 256)

    def seconds() -> float:
        times = []
        for _ in range(7):
            start = time.perf_counter()
            layer(x, graphs.complete())
            times.append(time.perf_counter() - start)
        return min(times)

    with torch.no_grad():
        before = seconds()
        layer.keep_heads([0])
        assert seconds() < 0.75 * before
