"""Data sets with a common interface: :meth:`Data.load` returns training, validation and test.

The subpackages are ``graphs``, ``molecules``, ``text``, ``images``, ``series`` and ``tables``.
"""

from __future__ import annotations

from edgewise.batches import Batch, WritingBatch
from edgewise.data.graphs.interaction_files import InteractionFiles as interactions
from edgewise.data.graphs.interactions import Gowalla as gowalla
from edgewise.data.graphs.links import EdgeList as edge_list
from edgewise.data.graphs.links import EgoFacebook as ego_facebook
from edgewise.data.graphs.neighbours import NeighbourSampler, neighbour_batches
from edgewise.data.graphs.node_files import NodeFiles as node_files
from edgewise.data.graphs.planetoid import Planetoid as planetoid
from edgewise.data.graphs.tu import TU as tu
from edgewise.data.images.digits import Digits as digits
from edgewise.data.images.digits import Mnist as mnist
from edgewise.data.images.image_folder import Cifar10 as cifar10
from edgewise.data.images.image_folder import ImageFolder as image_folder
from edgewise.data.loader import Loader
from edgewise.data.molecules.masked_molecules import MaskedMolecules as masked_molecules
from edgewise.data.molecules.molecule_table import MoleculeTable as molecule_table
from edgewise.data.molecules.solubility import ESOL as esol
from edgewise.data.molecules.solubility import IonicLiquids as ionic_liquids
from edgewise.data.molecules.zinc import ZINC as zinc
from edgewise.data.packed import PackedGraphs
from edgewise.data.series.time_series import TimeSeries as time_series
from edgewise.data.splits import Data, Split, Splits, TextSplits
from edgewise.data.text.long_texts import Shakespeare as shakespeare
from edgewise.data.text.long_texts import TextFiles as text_files
from edgewise.data.text.long_texts import WarAndPeace as war_and_peace
from edgewise.data.text.long_texts import WikiText2 as wikitext2
from edgewise.data.text.masked_text import MaskedText as masked_text
from edgewise.data.text.pair_table import PairTable as pair_table
from edgewise.data.text.parallel import Multi30k as multi30k
from edgewise.data.text.parallel import Parallel as parallel
from edgewise.data.text.tag_file import EWT as ewt
from edgewise.data.text.tag_file import TagFile as tag_file
from edgewise.data.text.text_halves import TextHalves as text_halves
from edgewise.data.text.text_table import SST2 as sst2
from edgewise.data.text.text_table import TextTable as text_table
from edgewise.plugins import Registry

__all__ = [
    "DATA",
    "Batch",
    "Data",
    "Loader",
    "NeighbourSampler",
    "PackedGraphs",
    "Split",
    "Splits",
    "TextSplits",
    "WritingBatch",
    "cifar10",
    "digits",
    "edge_list",
    "ego_facebook",
    "esol",
    "ewt",
    "gowalla",
    "image_folder",
    "interactions",
    "ionic_liquids",
    "masked_molecules",
    "masked_text",
    "mnist",
    "molecule_table",
    "multi30k",
    "neighbour_batches",
    "node_files",
    "pair_table",
    "parallel",
    "planetoid",
    "shakespeare",
    "sst2",
    "tag_file",
    "text_files",
    "text_halves",
    "text_table",
    "time_series",
    "tu",
    "war_and_peace",
    "wikitext2",
    "zinc",
]

DATA: Registry[type[Data]] = Registry(
    "DATA",
    {name: globals()[name] for name in __all__ if name.islower() and name != "neighbour_batches"},
)
"""Data set classes by their name in recipes and run folders, including those of other packages."""


def __dir__() -> list[str]:
    return __all__
