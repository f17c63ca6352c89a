"""Record of a kind of problem: what training, prediction, explanation and baselines need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from edgewise.app.predict.predictor import Predictor
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Data
from edgewise.app.train.task import Task
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation

MakeCases = Callable[[Any, Any, int], Iterator[Case]]
"""Function of a predictor, an input and a number of answers that yields a case for each answer."""
MakeExplanation = Callable[[Any, Any, Mapping[str, Any]], Explanation]
"""Function of a run, an input and arguments of :func:`edgewise.explain.record`."""


@dataclass(frozen=True)
class Baselines:
    """Simple baselines for all recipes whose data and task are of these classes.

    Attributes:
        name: name of what these recipes predict, such as "links", for messages.
        example: name of one of these recipes.
        data: base class of their data, or several classes.
        tasks: classes of their task.
        module: module with the function ``candidates(recipe, splits)``, which yields baselines with
            their settings. It imports its packages at the top, so it is imported only when
            baselines are evaluated.
        extra: extra of Edgewise that installs these packages.
        is_large: function of the properties of the data that a run folder stores: whether reading
            the data and all candidates together take more than about a minute.

    Example:
        >>> from edgewise.app.kinds.links import KIND
        >>> KIND.baselines[0].example
        'sage-facebook'
    """

    name: str
    example: str
    data: type | tuple[type, ...]
    tasks: tuple[type, ...]
    module: str
    extra: str = "train"
    is_large: Callable[[Preprocessing], bool] = lambda _: False


@dataclass(frozen=True)
class Kind:
    """Kind of problem, such as node classification on one graph.

    A package adds a kind by an entry point of the group ``edgewise.kinds`` that names a module with
    the attribute ``KIND``; see ``docs/howto/own_recipes.md``.

    Attributes:
        name: name of the kind.
        recipes: recipes of this kind.
        data: data set classes by the name that run folders store.
        tasks: task classes by the name that run folders store.
        predictors: classes that predict with a trained run.
        baselines: simple baselines.
        cases: for a class of predictors, the function that gives the reasons for its answers.
        explanations: for a class of predictors, the function that records the attention of one
            prediction.

    Example:
        >>> from edgewise.app.kinds import Kind
        >>> Kind("weather", recipes=()).name
        'weather'
    """

    name: str
    recipes: tuple[Recipe, ...] = ()
    data: Mapping[str, type[Data]] = field(default_factory=dict)
    tasks: Mapping[str, type[Task]] = field(default_factory=dict)
    predictors: tuple[type[Predictor], ...] = ()
    baselines: tuple[Baselines, ...] = ()
    cases: Mapping[type, MakeCases] = field(default_factory=dict)
    explanations: Mapping[type, MakeExplanation] = field(default_factory=dict)


def recipes_in(*modules: ModuleType) -> tuple[Recipe, ...]:
    """Return the recipes that modules define, in order of definition."""
    return tuple(
        recipe
        for module in modules
        for recipe in vars(module).values()
        if isinstance(recipe, Recipe)
    )
