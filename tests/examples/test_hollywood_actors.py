"""Hollywood actors: the counts of the published file."""

from __future__ import annotations

import pytest
from edgewise_examples.data import hollywood_actors

from tests.places import needs


@pytest.mark.slow
@needs("hollywood_actors")
def test_hollywood_as_counted():
    pairs, films, actors, ids, *_ = hollywood_actors().read()
    assert pairs.shape == (2, 1_470_404)
    assert (films, actors) == (range(127_823), range(127_823, 127_823 + 383_640))
    assert len(ids) == actors.stop
    assert pairs[0].max() < actors.start <= pairs[1].min()
