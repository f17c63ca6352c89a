"""Division of the weights of Transformers among processes: tensor parallelism and FSDP2.

Tensor parallelism (Shoeybi et al., Megatron-LM, 2019) gives each process some heads of each
attention and some hidden features of each feed-forward network. FSDP2 shards what is left.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from edgewise._utils.errors import ArgumentError
from edgewise.layers.normalisers import LearnedEntmax
from edgewise.layers.projections import JointLinear
from edgewise.layers.pruning import rows_of_heads
from edgewise.layers.scores import LearnedScore
from edgewise.layers.transformer import (
    AttentionBlock,
    CrossBlock,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
)


class HeadwiseParallel(ParallelStyle):
    """Parallel style of :class:`~edgewise.layers.MultiHeadAttention`: H / P heads on each process.

    The projections of query, key and value are split by heads (by output features), the output
    projection by input features. Attention computes the local heads alone.

    Example:
        >>> from edgewise.layers.parallel import HeadwiseParallel
        >>> plan = {"layers.0.attention.sublayer": HeadwiseParallel()}
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, MultiHeadAttention)
        rank, size = device_mesh.get_local_rank(), device_mesh.size()
        if module.qkv is not None:
            _split_joint(module.qkv, module.head_width, device_mesh)
        else:
            for projection in (module.query, module.key, module.value):
                ColwiseParallel()._apply(projection, device_mesh)
        RowwiseParallel()._apply(module.output, device_mesh)
        module.heads, module.key_heads = module.heads // size, module.key_heads // size
        # A bias and other terms of edges have all heads.
        module.kept_heads = list(range(rank * module.heads, (rank + 1) * module.heads))
        module.device_mesh = device_mesh
        return module


def _split_joint(joint: JointLinear, head_width: int, mesh: DeviceMesh) -> None:
    """Keep the rows of the local heads of query, key and value, as one tensor sharded by rows."""
    size = mesh.size()
    counts = [width // head_width // size for width in joint.widths]
    rows = [
        [rows_of_heads(range(rank * n, (rank + 1) * n), head_width) for n in counts]
        for rank in range(size)
    ]
    starts = torch.tensor([0, *joint.widths]).cumsum(0)
    joint.row_order = torch.cat(
        [index + start for local in rows for index, start in zip(local, starts, strict=False)]
    )
    joint.keep_rows(rows[mesh.get_local_rank()])

    def shard(_name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for name, parameter in list(module.named_parameters()):
            local = DTensor.from_local(parameter.detach(), mesh, [Shard(0)], run_check=False)
            sharded = nn.Parameter(local, requires_grad=parameter.requires_grad)
            module.register_parameter(name, sharded)

    distribute_module(
        joint,
        mesh,
        shard,
        _replicated,  # type: ignore[arg-type]
        lambda _, output, __: output.to_local(),
    )


def _replicated(_module: nn.Module, inputs: tuple[Tensor], mesh: DeviceMesh) -> DTensor:
    return DTensor.from_local(inputs[0], mesh, [Replicate()], run_check=False)


def tensor_parallel_plan(model: nn.Module, size: int) -> dict[str, ParallelStyle]:
    """Return the parallel style of each module whose weights ``size`` processes can divide.

    The plan has every :class:`~edgewise.layers.MultiHeadAttention` whose numbers of heads and key
    heads are multiples of ``size``, without learned scores or normalisers, and every
    :class:`~edgewise.layers.FeedForward` and :class:`~edgewise.layers.GatedFeedForward` whose
    hidden size is a multiple. All processes compute the other modules.

    Example:
        >>> from edgewise import models
        >>> from edgewise.layers import parallel
        >>> plan = parallel.tensor_parallel_plan(models.gpt(1000, depth=1), 2)
        >>> for name, style in plan.items():
        ...     print(name.removeprefix("backbone.stack."), type(style).__name__)
        layers.0.attention.sublayer HeadwiseParallel
        layers.0.feed_forward.sublayer.0 ColwiseParallel
        layers.0.feed_forward.sublayer.3 RowwiseParallel
    """
    plan: dict[str, ParallelStyle] = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) and divides_heads(module, size):
            plan[name] = HeadwiseParallel()
        elif isinstance(module, FeedForward):
            first: Any = module[0]
            if not first.out_features % size:
                plan |= {f"{name}.0": ColwiseParallel(), f"{name}.3": RowwiseParallel()}
        elif isinstance(module, GatedFeedForward) and not module.up.out_features % size:
            plan |= {f"{name}.{label}": ColwiseParallel() for label in ("gate", "up")}
            plan[f"{name}.down"] = RowwiseParallel()
    return plan


def divides_heads(attention: MultiHeadAttention, size: int) -> bool:
    """Return whether ``size`` processes can divide the heads of an attention module."""
    learned = isinstance(attention.score, LearnedScore) or isinstance(
        attention.normaliser, LearnedEntmax
    )
    divisible = not attention.heads % size and not attention.key_heads % size
    return attention.can_keep_heads and divisible and not learned


def shard(model: nn.Module, mesh: DeviceMesh) -> None:
    """Divide the weights of a model, in place, by :func:`tensor_parallel_plan` and FSDP2.

    Args:
        model: the same model on all processes.
        mesh: device mesh with the dimensions ``data_parallel`` and ``tensor_parallel``, as of
            Lightning's ``ModelParallelStrategy``.

    Raises:
        ArgumentError: no module of the model can be divided by the size of ``tensor_parallel``.
    """
    heads, data = mesh["tensor_parallel"], mesh["data_parallel"]
    if heads.size() > 1:
        plan = tensor_parallel_plan(model, heads.size())
        if not plan:
            raise ArgumentError(
                "trainer.tensor_parallel",
                expected="a Transformer whose numbers of heads and hidden features are multiples "
                f"of {heads.size()}",
                got=f"a {type(model).__name__}",
                remedy="set trainer.tensor_parallel to 1, or choose another number of heads",
            )
        parallelize_module(model, heads, plan)
    if data.size() > 1:
        # FSDP2 refuses parameters without a dimension, such as the ε of GIN.
        scalars = {parameter for parameter in model.parameters() if not parameter.dim()}
        apart = not any(getattr(module, "reads_layers", False) for module in model.modules())
        for module in list(model.modules()):
            if apart and isinstance(module, AttentionBlock | CrossBlock):
                fully_shard(module, mesh=data, ignored_params=scalars)
        fully_shard(model, mesh=data, ignored_params=scalars)
        for scalar in scalars:
            scalar.register_post_accumulate_grad_hook(partial(_average_gradient, mesh=data))


def _average_gradient(parameter: Tensor, mesh: DeviceMesh) -> None:
    assert parameter.grad is not None
    dist.all_reduce(parameter.grad, group=mesh.get_group())
    parameter.grad /= mesh.size()


def clip_gradients(model: nn.Module, max_norm: float) -> None:
    """Scale the gradients to a norm of at most ``max_norm`` over all processes, in place."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.grad is not None:
            groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    norms = [
        gathered(nn.utils.get_total_norm([x.grad for x in group if x.grad is not None]))
        for group in groups.values()
    ]
    total = torch.stack(norms).norm()
    for group in groups.values():
        nn.utils.clip_grads_with_norm_(group, max_norm, total)


def row_orders(model: nn.Module) -> dict[str, Tensor]:
    """Return the order of the rows of each parameter that :func:`shard` has reordered."""
    return {
        f"{name}.{parameter}": module.row_order
        for name, module in model.named_modules()
        if isinstance(module, JointLinear) and module.row_order is not None
        for parameter, _ in module.named_parameters()
    }


def gathered(x: Tensor, order: Tensor | None = None) -> Tensor:
    """Return all rows of a parameter, or of a tensor like it, as of the undivided model."""
    full = x.full_tensor() if isinstance(x, DTensor) else x
    return full if order is None else torch.empty_like(full).index_copy_(0, order, full)


def divided(full: Tensor, like: Tensor, order: Tensor | None = None) -> Tensor:
    """Return the tensor of which :func:`gathered` returns ``full``; placed as ``like``."""
    full = full.to(like.device)
    if order is not None:
        full = full[order.to(full.device)]
    if not isinstance(like, DTensor):
        return full
    replicated = [Replicate()] * like.device_mesh.ndim
    return DTensor.from_local(full, like.device_mesh, replicated, run_check=False).redistribute(
        placements=like.placements
    )
