"""Training whose processes divide the weights, by Lightning's ModelParallelStrategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.strategies import ModelParallelStrategy, ParallelStrategy
from torch import Tensor, nn
from torch.optim import Optimizer

from edgewise.layers.parallel import divided, gathered, row_orders


class ShardedStrategy(ModelParallelStrategy):
    """FSDP2 and tensor parallelism. Any number of processes can read a checkpoint, which rank 0
    writes in the format of one process: Lightning's own numbers the weights of an optimizer in
    another order than the optimizer.
    """

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        return whole_state(self.model)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        orders = self._orders_by_index(optimizer)
        return _map_states(
            optimizer.state_dict(), lambda index, x: gathered(x, orders[index]).cpu()
        )

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None
    ) -> None:
        ParallelStrategy.save_checkpoint(self, checkpoint, filepath, storage_options)

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return ParallelStrategy.load_checkpoint(self, checkpoint_path, weights_only)

    @torch.no_grad()
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.model is not None
        weights, orders = self.model.state_dict(), row_orders(self.model)
        saved = {
            name: divided(x, weights[name], orders.get(name)) if name in weights else x
            for name, x in checkpoint["state_dict"].items()
        }
        self.model.load_state_dict(saved, strict=strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            orders, parameters = self._orders_by_index(optimizer), _parameters(optimizer)
            state = _map_states(
                saved,
                lambda index, x: divided(x, parameters[index], orders[index]),  # noqa: B023
            )
            optimizer.load_state_dict(state)

    def _orders_by_index(self, optimizer: Optimizer) -> list[Tensor | None]:
        """Return the order of the rows of each weight of an optimizer; None if it is unchanged."""
        assert self.model is not None
        orders = row_orders(self.model)
        by_id = {id(x): orders.get(name) for name, x in self.model.named_parameters()}
        return [by_id[id(x)] for x in _parameters(optimizer)]


def whole_state(model: nn.Module | None) -> dict[str, Tensor]:
    """Return a copy of the state of a model as of one process, on the CPU, on each process."""
    assert model is not None
    orders = row_orders(model)
    # One tensor after the other, so that a device has room for them.
    return {
        name: gathered(x, orders.get(name)).detach().to("cpu", copy=True)
        for name, x in model.state_dict().items()
    }


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [x for group in optimizer.param_groups for x in group["params"]]


def _map_states(
    state: Mapping[str, Any], function: Callable[[int, Tensor], Tensor]
) -> dict[str, Any]:
    """Return the state of an optimizer with a function of each tensor that is like a weight."""
    mapped = {
        index: {
            name: function(index, x) if isinstance(x, Tensor) and x.dim() else x
            for name, x in states.items()
        }
        for index, states in state["state"].items()
    }
    return {**state, "state": mapped}
