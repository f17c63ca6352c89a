"""Data sets: one file each, all giving batches, sizes and splits in the same form."""

from __future__ import annotations

from edgewise.data.batch import Batch
from edgewise.data.caption_digits import CaptionDigits as caption_digits
from edgewise.data.conllu import EWT as ewt
from edgewise.data.digits import Digits as digits
from edgewise.data.esol import ESOL as esol
from edgewise.data.gowalla import Gowalla as gowalla
from edgewise.data.gowalla import InteractionFiles as interactions
from edgewise.data.ionic_liquids import IonicLiquids as ionic_liquids
from edgewise.data.loader import Loader
from edgewise.data.masked_text import MaskedText as masked_text
from edgewise.data.molecules import Molecules as molecules
from edgewise.data.neighbours import NeighbourSampler, neighbour_batches
from edgewise.data.packed import PackedGraphs
from edgewise.data.parallel import Multi30k as multi30k
from edgewise.data.parallel import Parallel as parallel
from edgewise.data.planetoid import Planetoid as planetoid
from edgewise.data.sentences import SST2 as sst2
from edgewise.data.sentences import TSV as tsv
from edgewise.data.series import Series as series
from edgewise.data.social import EdgeList as edge_list
from edgewise.data.social import EgoFacebook as ego_facebook
from edgewise.data.social import HollywoodActors as hollywood_actors
from edgewise.data.splits import Data, Split, Splits, TextSplits
from edgewise.data.summaries import WikiSummaries as wiki_summaries
from edgewise.data.text import Shakespeare as shakespeare
from edgewise.data.text import TextFiles as text_files
from edgewise.data.text import WarAndPeace as war_and_peace
from edgewise.data.text import WikiText2 as wikitext2
from edgewise.data.tu import TU as tu
from edgewise.data.writing import WritingBatch

DATA: dict[str, type[Data]] = {
    "caption_digits": caption_digits,
    "digits": digits,
    "edge_list": edge_list,
    "ego_facebook": ego_facebook,
    "esol": esol,
    "ewt": ewt,
    "gowalla": gowalla,
    "hollywood_actors": hollywood_actors,
    "interactions": interactions,
    "ionic_liquids": ionic_liquids,
    "masked_text": masked_text,
    "molecules": molecules,
    "multi30k": multi30k,
    "parallel": parallel,
    "planetoid": planetoid,
    "series": series,
    "shakespeare": shakespeare,
    "sst2": sst2,
    "text_files": text_files,
    "tsv": tsv,
    "tu": tu,
    "war_and_peace": war_and_peace,
    "wiki_summaries": wiki_summaries,
    "wikitext2": wikitext2,
}
"""Every data set by the name that recipes and run folders use."""

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
    "caption_digits",
    "digits",
    "edge_list",
    "ego_facebook",
    "esol",
    "ewt",
    "gowalla",
    "hollywood_actors",
    "interactions",
    "ionic_liquids",
    "masked_text",
    "molecules",
    "multi30k",
    "neighbour_batches",
    "parallel",
    "planetoid",
    "series",
    "shakespeare",
    "sst2",
    "text_files",
    "tsv",
    "tu",
    "war_and_peace",
    "wiki_summaries",
    "wikitext2",
]


def __dir__() -> list[str]:
    return __all__
