"""Data sets: one file each, all giving batches, sizes and splits in the same form."""

from __future__ import annotations

from edgewise.data.batch import Batch
from edgewise.data.digits import Digits as digits
from edgewise.data.gowalla import Gowalla as gowalla
from edgewise.data.gowalla import InteractionFiles as interactions
from edgewise.data.loader import Loader
from edgewise.data.neighbours import NeighbourSampler, neighbour_batches
from edgewise.data.planetoid import Planetoid as planetoid
from edgewise.data.social import EdgeList as edge_list
from edgewise.data.social import EgoFacebook as ego_facebook
from edgewise.data.social import HollywoodActors as hollywood_actors
from edgewise.data.splits import Data, Splits

DATA: dict[str, type[Data]] = {
    "digits": digits,
    "planetoid": planetoid,
    "edge_list": edge_list,
    "ego_facebook": ego_facebook,
    "hollywood_actors": hollywood_actors,
    "gowalla": gowalla,
    "interactions": interactions,
}
"""Every data set by the name that recipes and run folders use."""

__all__ = [
    "DATA",
    "Batch",
    "Data",
    "Loader",
    "NeighbourSampler",
    "Splits",
    "digits",
    "edge_list",
    "ego_facebook",
    "gowalla",
    "hollywood_actors",
    "interactions",
    "neighbour_batches",
    "planetoid",
]
