"""Names of commands and options, for a parser that imports neither PyTorch nor the commands."""

from __future__ import annotations

COMMANDS = {
    "list": ("listing", "list_names"),
    "show": ("listing", "show"),
    "train": ("commands", "train"),
    "baseline": ("baseline", "baseline"),
    "compare": ("commands", "compare"),
    "test": ("commands", "test"),
    "predict": ("predict", "predict"),
    "explain": ("explain", "explain"),
    "influence": ("influence", "influence"),
    "heads": ("heads", "heads"),
    "prune": ("heads", "prune"),
    "suggest": ("heads", "suggest"),
    "verify": ("verify", "verify"),
    "doctor": ("doctor", "doctor"),
}
"""Module of :mod:`edgewise.app.cli` and function that run each command."""
KINDS = ("recipes", "models", "data", "tasks", "graphs", "encodings")
"""Kinds of names that ``edgewise list`` prints."""
OPTIONS = {
    "interval": "add to each predicted number an interval that contains the true number with this "
    "probability, such as 0.9",
    "top": "number of most probable labels, words, items, links or answers to show for each input",
    "evidence": "show with each recommendation this number of known items or links that support it",
    "backtest": "start the forecast this number of steps before the end of the series, and show "
    "the true values beside the forecast",
    "num_beams": "beam size of beam search; 1 is greedy search",
    "max_new_tokens": "maximum number of tokens to generate for each input",
    "temperature": "sampling temperature; lower is more deterministic, 0 picks the most probable "
    "token",
    "top_k": "sample only from this number of most probable tokens",
    "top_p": "sample only from the smallest set of most probable tokens whose probabilities sum to "
    "at least this number",
    "seed": "random seed for sampling; the same seed reproduces the text",
}
"""Help of the options that the predictors of Edgewise have, by name. They are arguments of
:meth:`edgewise.app.predict.Predictor.answer`. Predictors of other packages may have more."""
