"""Linear models of several target columns: gaps, constant columns, and logits."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from edgewise.app.train.column_baselines import Column, fit_columns, linear_model, linear_name

NAN = np.nan
COLUMNS = [Column(2, 1), Column(0, 1), Column(2, 1), Column(3, 3)]
X = np.array([[0.0], [1], [2], [3], [4], [5]])
TARGET = np.array(
    [
        [0, 1.0, 1, 0],
        [0, 3, 1, 0],
        [NAN, 5, 1, 1],
        [1, NAN, NAN, 1],
        [1, 9, 1, 2],
        [1, 11, 1, 2],
    ]
)


def test_each_column_is_fitted_to_the_rows_that_have_its_value() -> None:
    outputs = fit_columns(partial(linear_model, 1e-6), COLUMNS, X, TARGET)(X)
    assert outputs.shape == (6, 6)
    assert outputs[:, 0].sign().tolist() == [-1, -1, outputs[2, 0].sign(), 1, 1, 1]
    expected = torch.tensor(2 * X[:, 0] + 1).double()
    torch.testing.assert_close(outputs[:, 1], expected, rtol=1e-6, atol=1e-6)
    assert (outputs[:, 2] > 5).all(), "the only class of the column"
    assert outputs[:, 3:].argmax(1)[[0, 5]].tolist() == [0, 2]


def test_the_name_has_each_kind_once() -> None:
    assert linear_name(COLUMNS[:1] * 2) == "logistic regression"
    assert linear_name(COLUMNS) == "ridge regression and logistic regression"
