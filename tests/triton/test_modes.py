"""The kernels under what else PyTorch does: compilers, autocast, ``torch.func``, streams, devices.

On a GPU all of it runs there; without one, in Triton's interpreter, whatever needs no GPU. There
the calls of CUDA that must be made are watched instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise._utils import dispatch_modes
from edgewise._utils.errors import ArgumentError
from edgewise.engines.triton_rows import launch
from edgewise.engines.triton_rows.launch import recorded
from tests.engines.cases import CALLS
from tests.engines.test_small_calls import entered
from tests.triton import DEVICE, ON_A_GPU
from tests.triton.test_interpreted import MIXED

needs_a_gpu = pytest.mark.skipif(not ON_A_GPU, reason="needs a GPU")
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
COMPILER = "inductor" if ON_A_GPU else "aot_eager"
SEVERAL = ("plain", "gatv2", "everything", "tanh, projected, gain")

Step = Callable[[], list[Tensor]]


def a_call(name: str, graph: graphs.Graph = MIXED) -> tuple[list[Tensor], dict[str, Any]]:
    """The leaves of a declared call in float32, query, key and value first, and its options."""
    case = CALLS[name].over(graph)
    leaves = {
        name: leaf.tensor.float().to(DEVICE).requires_grad_() for name, leaf in case.leaves.items()
    }
    case.indices = {name: index.to(DEVICE) for name, index in case.indices.items()}
    first = {name: leaves.pop(name) for name in ("query", "key", "value")}
    return [*first.values(), *leaves.values()], case.options({**first, **leaves})


def a_step(name: str, attend: Any = ew.attend, graph: graphs.Graph = MIXED) -> Step:
    """Output and all gradients."""
    leaves, options = a_call(name, graph)
    graph = graph.to(DEVICE)

    def step() -> list[Tensor]:
        out = attend(*leaves[:3], graph, engine="rows", **options)
        return [out, *torch.autograd.grad(out.square().sum(), leaves)]

    return step


def equal(got: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", SEVERAL)
def test_compiled_code_has_the_bits_of_eager_code(name: str) -> None:
    """In one piece: no graph break."""
    torch._dynamo.reset()
    compiled = torch.compile(ew.attend, fullgraph=True, backend=COMPILER)
    with torch.no_grad():
        leaves, options = a_call(name)
        graph = MIXED.to(DEVICE)
        expected = ew.attend(*leaves[:3], graph, engine="rows", **options)
        equal([compiled(*leaves[:3], graph, engine="rows", **options)], [expected])
    equal(a_step(name, compiled)(), a_step(name)())


def test_compiled_aggregation_has_the_bits_of_an_eager_one() -> None:
    value = torch.randn(9, 2, 3, device=DEVICE, requires_grad=True)
    graph = MIXED.to(DEVICE)
    compiled = torch.compile(ew.aggregate, fullgraph=True, backend=COMPILER)
    found = []
    for function in (ew.aggregate, compiled):
        out = function(value, graph, reduce="max", engine="rows")
        found.append([out, *torch.autograd.grad(out.square().sum(), value)])
    equal(*found)


@pytest.mark.parametrize("name", SEVERAL)
def test_autocast_rounds_nothing_inside(name: str) -> None:
    step = a_step(name)
    expected = step()
    with torch.autocast(DEVICE.type, torch.bfloat16):
        equal(step(), expected)


def test_what_autocast_has_rounded_is_served_in_sixteen_bits() -> None:
    x = torch.randn(9, 8, device=DEVICE)
    layer = torch.nn.Linear(8, 8, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        key = layer(x).view(9, 2, 4)
        out = ew.attend(key[:8], key, key, MIXED.to(DEVICE), engine="rows")
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


def test_a_named_engine_refuses_transforms_and_auto_takes_the_reference() -> None:
    (query, key, value), _ = a_call("plain")
    graph = MIXED.to(DEVICE)

    def loss(query: Tensor, engine: str) -> Tensor:
        return ew.attend(query, key, value, graph, engine=engine).square().sum()

    with pytest.raises(ArgumentError, match=r"torch\.func"):
        torch.func.grad(loss)(query, "rows")
    expected = torch.autograd.grad(loss(query, "rows"), query)[0]
    torch.testing.assert_close(torch.func.grad(loss)(query, "auto"), expected, rtol=1e-4, atol=1e-5)


def test_second_derivatives_are_refused() -> None:
    (query, key, value), _ = a_call("plain")
    out = ew.attend(query, key, value, MIXED.to(DEVICE), engine="rows")
    (first,) = torch.autograd.grad(out.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives"):
        first.sum().backward()


def test_another_normaliser_is_refused() -> None:
    (query, key, value), _ = a_call("plain")
    with pytest.raises(ArgumentError, match="only the normaliser softmax"):
        ew.attend(query, key, value, MIXED.to(DEVICE), normaliser="sparsemax", engine="rows")


def test_a_warm_call_takes_few_steps() -> None:
    """Of Python, beside which the smallest graphs' kernels take no time at all."""
    leaves, options = a_call("one head")
    # Of its own: what a graph keeps that was first met in compiled code takes some more steps.
    graph = graphs.edges(MIXED.edge_index, (9, 8)).to(DEVICE)
    gradient = torch.ones(8, *leaves[2].shape[1:], device=DEVICE)

    def backward(out: Tensor) -> object:
        return torch.autograd.grad(out, leaves, gradient)

    with recorded() as launches:
        for _ in range(2):
            launches.clear()
            out, first = entered(lambda: ew.attend(*leaves, graph, engine="rows", **options))
            _, second = entered(partial(backward, out))
    assert len(first) <= 75
    assert len(second) <= 110
    kinds = [launch.kernel for launch in launches]
    passes = ("attend_forward", "attend_backward_rows", "attend_backward_columns")
    assert [kinds.count(kind) for kind in passes] == [2, 2, 2]  # long rows and short ones
    assert len(kinds) - 6 == 1 + 1 + 2  # merges: of outputs, of queries, of keys and of values


# ---- devices and streams, as CUDA is asked for them ----


@contextmanager
def noted(into: list[torch.device], device: torch.device) -> Iterator[None]:
    into.append(device)
    yield
    into.append(device)


def test_kernels_are_launched_on_the_tensors_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton takes the current device, which may be another GPU."""
    entered: list[torch.device] = []
    second = torch.device("cuda", 1)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "device", lambda device: noted(entered, device))
        with launch._on(second):
            assert entered == [second]
    assert isinstance(launch._on(torch.device("cpu")), nullcontext)

    inside: list[bool] = []

    def on(device: torch.device) -> AbstractContextManager[None]:
        assert device == DEVICE
        return noted(entered, device)

    entered.clear()
    monkeypatch.setattr(launch, "_on", on)
    monkeypatch.setattr(launch, "_launch", lambda *_: inside.append(len(entered) == 1))
    one_program = graphs.edges(torch.tensor([[0], [0]]), 1).to(DEVICE)
    ew.aggregate(torch.ones(1, 1, 1, device=DEVICE), one_program, engine="rows")
    assert inside == [True]
    assert len(entered) == 2


class Kernel:
    """A kernel in the place of Triton's, which notes what it is compiled for and launched with."""

    arg_names = ("items", "count", "scale", "H")

    def __init__(self) -> None:
        self.made = 0
        self.launched: list[tuple[Any, ...]] = []

    def __getitem__(self, _programs: Any) -> Any:
        def compile_(*_: Any, **__: Any) -> Any:
            self.made += 1
            return {(2, 1, 1): lambda *values: self.launched.append(values)}

        return compile_


@pytest.fixture
def of_a_test(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    from edgewise.engines.triton_rows import kernels

    kernel = Kernel()
    monkeypatch.setattr(kernels, "of_a_test", kernel, raising=False)
    monkeypatch.setattr(kernels, "another", kernel, raising=False)
    monkeypatch.setattr(launch, "_compiled", {})
    monkeypatch.setattr(torch.version, "hip", None)
    return kernel


def test_a_compiled_kernel_is_launched_for_the_same_kinds_of_arguments_only(
    of_a_test: Kernel,
) -> None:
    x = torch.zeros(8)
    launch._launch("of_a_test", 1, [x, 5, 0.5, 8], 1, DEVICE)
    launch._launch("of_a_test", 2, [torch.ones(80), 6, 0.1, 8], 1, DEVICE)
    assert of_a_test.made == 1
    assert of_a_test.launched[0][1:] == (6, 0.1, 8)
    other = torch.device("cuda", 7)
    for made, (name, values, warps, device) in enumerate(
        (
            ("another", [x, 5, 0.5, 8], 1, DEVICE),
            ("of_a_test", [x[1:], 5, 0.5, 8], 1, DEVICE),  # not aligned to 16 bytes
            ("of_a_test", [x.double(), 5, 0.5, 8], 1, DEVICE),
            ("of_a_test", [None, 5, 0.5, 8], 1, DEVICE),
            ("of_a_test", [x, 5, 0.5, 4], 1, DEVICE),
            ("of_a_test", [x, 5, 0.5, 8], 2, DEVICE),
            ("of_a_test", [x, 5, 0.5, 8], 1, other),
        ),
        start=2,
    ):
        launch._launch(name, 1, values, warps, device)
        assert of_a_test.made == made
    assert len(of_a_test.launched) == 1


def test_triton_finds_the_kernels_of_an_amd_gpu_itself(
    of_a_test: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles other code for tensors of over 2 GB."""
    monkeypatch.setattr(torch.version, "hip", "7.0")
    for _ in range(2):
        launch._launch("of_a_test", 2, [torch.zeros(8), 5, 0.5, 8], 1, DEVICE)
    assert (of_a_test.made, of_a_test.launched) == (2, [])


class Stream:
    """In the place of CUDA's."""

    def __init__(self) -> None:
        self.waited = 0

    def synchronize(self) -> None:
        self.waited += 1


def test_what_is_kept_is_there_before_another_stream_meets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second, streams = torch.device("cuda", 1), {}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda d: streams.setdefault(d, Stream()))
    with dispatch_modes.disable_modes(second):
        assert not streams
    assert {device: stream.waited for device, stream in streams.items()} == {second: 1}
    with dispatch_modes.disable_modes(torch.device("cpu")):
        pass
    assert len(streams) == 1


def test_all_that_is_kept_of_a_graph_is_made_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts, both sides and the classes of a table; a warm step makes nothing."""
    entered: list[torch.device] = []

    @contextmanager
    def disable_modes(device: torch.device = dispatch_modes.CPU) -> Iterator[None]:
        entered.append(device)
        yield

    for module in (dispatch_modes, graphs.graph, launch.TritonSide.__module__):
        target = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{target}.disable_modes", disable_modes)
    graph = graphs.edges(MIXED.edge_index, (9, 8))
    with recorded():
        step = a_step("bias from a table", graph=graph)
        step()
        assert len(entered) >= 4
        entered.clear()
        step()
    assert not entered


def test_a_first_use_inside_of_a_capture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with (
        pytest.raises(RuntimeError, match="run the captured code once before"),
        dispatch_modes.disable_modes(torch.device("cuda")),
    ):
        pass


# ---- on a GPU ----


@needs_a_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_a_warm_step_makes_the_host_wait_for_nothing() -> None:
    for name in SEVERAL:
        step = a_step(name)
        step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@needs_a_gpu
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match:UserWarning")
@pytest.mark.parametrize("name", SEVERAL)
def test_a_captured_step_has_the_bits_of_an_eager_one(name: str) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step = a_step(name)
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=side):
        held = step()
    captured.replay()
    equal(held, step())


@needs_a_gpu
def test_a_captured_step_sees_what_is_written_into_its_inputs() -> None:
    (query, key, value), _ = a_call("plain")
    graph = MIXED.to(DEVICE)
    with torch.no_grad():
        ew.attend(query, key, value, graph, engine="rows")
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            out = ew.attend(query, key, value, graph, engine="rows")
        for x in (query, key, value):
            x.copy_(torch.randn_like(x))
        captured.replay()
        equal([out], [ew.attend(query, key, value, graph, engine="rows")])


@needs_a_gpu
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")
def test_dropout_is_not_captured_nor_is_a_first_use() -> None:
    (query, key, value), _ = a_call("plain")
    warm = MIXED.to(DEVICE)
    ew.attend(query, key, value, warm, engine="rows")
    cold = graphs.edges(MIXED.edge_index.to(DEVICE), (9, 8))
    cases = (
        (warm, 0.5, "every replay|same weights"),
        (cold, 0.0, "run the captured code once before"),
    )
    for graph, dropout, said in cases:
        with pytest.raises(RuntimeError, match=said), torch.cuda.graph(torch.cuda.CUDAGraph()):
            ew.attend(query, key, value, graph, dropout=dropout, engine="rows")


@needs_a_gpu
def test_a_graph_first_used_on_one_stream_is_whole_on_another() -> None:
    (query, key, value), _ = a_call("plain")
    expected = ew.attend(query, key, value, MIXED.to(DEVICE), engine="rows")
    torch.cuda.synchronize()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(20):
        graph = graphs.edges(MIXED.edge_index.to(DEVICE), (9, 8))
        torch.cuda.synchronize()
        with torch.cuda.stream(first):
            ew.attend(query, key, value, graph, engine="rows")
        with torch.cuda.stream(second):  # which waits for nothing
            out = ew.attend(query, key, value, graph, engine="rows")
        torch.cuda.synchronize()
        equal([out], [expected])


@needs_two
def test_the_current_device_may_be_another_gpu() -> None:
    second = torch.device("cuda", 1)
    leaves, _ = a_call("plain")
    with torch.cuda.device(0):
        moved = [x.detach().to(second).requires_grad_() for x in leaves]
        out = ew.attend(*moved, MIXED.to(second), engine="rows")
        found = torch.autograd.grad(out.square().sum(), moved)
    assert {x.device for x in (out, *found)} == {second}
    out = ew.attend(*leaves, MIXED.to(DEVICE), engine="rows")
    equal([x.to(DEVICE) for x in found], list(torch.autograd.grad(out.square().sum(), leaves)))
