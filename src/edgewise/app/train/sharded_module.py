"""Lightning module of a training whose processes divide the weights."""

from __future__ import annotations

from torch import Tensor

from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.sharding import whole_state
from edgewise.layers.parallel import clip_gradients, shard


class ShardedTrainingModule(TrainingModule):
    """A :class:`TrainingModule` whose model :class:`~edgewise.app.train.sharding.ShardedStrategy`
    divides among processes.
    """

    is_sharded = False

    def configure_model(self) -> None:
        if not self.is_sharded:
            assert self.device_mesh is not None
            shard(self.model, self.device_mesh)
            self.is_sharded = True

    def copy_weights(self) -> dict[str, Tensor]:
        """Return a copy of all weights of the model, on each process."""
        return whole_state(self.model)

    def clip_gradient_norm(self, most: float) -> None:
        clip_gradients(self.model, most)
