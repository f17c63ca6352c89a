"""Old names lead to the new ones."""

from __future__ import annotations

import pytest

from edgewise.renamed import new_name, new_parameter_name, with_new_names


@pytest.mark.parametrize(
    ("old", "known", "new"),
    [
        ("feed_forward", {"ffn_dim", "width"}, "ffn_dim"),
        ("model.feed_forward", {"model.ffn_dim"}, "model.ffn_dim"),
        ("model.hidden", {"model.head_width", "model.heads"}, "model.head_width"),
        ("model.hidden", {"model.width", "model.heads"}, "model.width"),
        ("model.draws", {"model.random_attention"}, "model.random_attention"),
        ("data.path", {"data.path", "data.max_path_length"}, None),  # still a name
        ("model.feed_forward", {"model.width"}, None),  # replaced by nothing that this model has
        ("model.nothing", {"model.width"}, None),
    ],
)
def test_an_old_name_gives_the_new_one_that_is_known(
    old: str, known: set[str], new: str | None
) -> None:
    assert new_name(old, known) == new


def test_keys_are_replaced_and_values_kept() -> None:
    known = {"vocab_size", "width"}
    assert with_new_names({"vocabulary": 7, "width": 8}, known) == {"vocab_size": 7, "width": 8}


def test_parameters_are_renamed_by_whole_parts_of_their_names() -> None:
    assert new_parameter_name("trunk.reader.layers.0.reader_bias") == (
        "trunk.backbone.layers.0.reader_bias"
    )
