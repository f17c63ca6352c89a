"""Parser of the command line: commands, their options and their help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from edgewise import __version__
from edgewise._utils.errors import ArgumentError, EdgewiseError, printable, shortened
from edgewise.app.cli.names import COMMANDS, KINDS, OPTIONS

# Modules that import PyTorch are imported in functions, so that --help and --version do not wait.
if TYPE_CHECKING:
    from edgewise.app.train.recipe import Recipe

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Fields = dict[str, str]
FIELD = re.compile(r"--([a-z]\w*\.[a-z]\w*)(?:=(.*))?", re.DOTALL)
HELP = {"-h", "--help"}
OF_PREDICT = ("help", "input", "out", "quote-formulas", "draw", "why", "batch-size", *OPTIONS)
_KNOWN = "|".join(OF_PREDICT).replace("_", "-")
OPTION = re.compile(rf"--(?!(?:{_KNOWN})(?:=|$))([a-z][\w-]*)(?:=(.*))?", re.DOTALL)
"""Matches options of ``predict`` that this parser does not declare."""
DESCRIPTION = """Attention over a graph: train, compare and check models.

A recipe names a model, a data set, a task and training settings; each setting is a field.
A run is a folder that `edgewise train` writes: the recipe, the trained weights and metrics.
"""
EXAMPLES = """examples:
  edgewise list
  edgewise show digits
  edgewise train digits --model.graph "window(1)" --out runs/window
  edgewise train gat-cora --model gatv2 --seeds 10
  edgewise compare digits model.graph "empty()" "grid(4, 4)" "complete()" --out runs/graphs
  edgewise test runs/digits
"""
DATA_FOLDER = "EDGEWISE_DATA names the folder of data sets; `edgewise doctor` lists its contents."


class Parser(argparse.ArgumentParser):
    """Parser that escapes control characters in what it prints, and shortens its errors."""

    def format_help(self) -> str:
        return printable(super().format_help())

    def format_usage(self) -> str:
        return printable(super().format_usage())

    def error(self, message: str) -> NoReturn:
        super().error(printable(shortened(message)))


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse a command line; recipe fields such as ``--model.heads 4`` are in ``result.fields``.

    Raises:
        ArgumentError: a field has no value, or the command accepts no fields.
    """
    rest, fields = _split(argv, FIELD)
    command = next((word for word in rest if not word.startswith("-")), "")
    more_options: Fields = {}
    if command == "predict":
        rest, more_options = _split(rest, OPTION)
    parser = build_parser(command, rest)
    arguments, unknown = parser.parse_known_args(rest)
    arguments.fields = fields
    arguments.more_options = {name.replace("-", "_"): more_options[name] for name in more_options}
    # argparse accepts positional inputs after an option only if some inputs precede the option.
    takes_inputs = command in ("predict", "explain")
    if takes_inputs and not any(word.startswith("-") for word in unknown):
        arguments.inputs, unknown = [*arguments.inputs, *unknown], []
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if "folder_name" in arguments and arguments.out is None:
        arguments.out = Path("runs") / arguments.folder_name.format(**vars(arguments))
    from edgewise.graphs.user_patterns import allow

    name = str(getattr(arguments, "name", ""))
    for text in (*fields.values(), *getattr(arguments, "values", ()), name):
        # Modules that the user names on the command line may be imported.
        allow(text)
    if fields and not hasattr(arguments, "takes_fields"):
        raise ArgumentError(
            f"--{next(iter(fields))}",
            expected="options of this command",
            got="a recipe field, which this command does not accept",
            remedy="give recipe fields to `edgewise train`, `compare` or `baseline`",
        )
    return arguments


def _split(argv: list[str], pattern: re.Pattern[str]) -> tuple[list[str], Fields]:
    """Separate arguments from options such as ``--model.heads 4`` or ``--model.heads=4``."""
    rest: list[str] = []
    options: Fields = {}
    words = iter(argv)
    for word in words:
        if word == "--":  # All following arguments are inputs.
            return [*rest, word, *words], options
        match = pattern.fullmatch(word)
        if not match:
            rest.append(word)
            continue
        name, value = match.groups()
        value = next(words, None) if value is None else value
        if value is None:
            raise ArgumentError(
                word, expected=f"a value after {word}", got="none", remedy=f"write {word} VALUE"
            )
        options[name] = value
    return rest, options


def _fields_for_help(words: Sequence[str]) -> str:
    """Return the fields of the recipe on the command line, with the model of ``--model``."""
    name = next((word for word in words[1:] if not word.startswith("-")), "")
    if not name:
        return ""
    from edgewise.app.cli.listing import recipe_text
    from edgewise.app.kinds import RECIPES
    from edgewise.app.runs.recipe_fields import with_values

    if name not in RECIPES:
        return ""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--model", nargs="?")
    model = parser.parse_known_args(words)[0].model
    recipe = with_values(RECIPES[name], {"model": model} if model else {})
    return f"\n\n{recipe_text(recipe)}"


def _run_for_help(words: Sequence[str]) -> Recipe | None:
    """Return the recipe of the run on the command line; None if the run cannot predict."""
    name = next((word for word in words[1:] if not word.startswith("-")), "")
    if not name:
        return None
    from edgewise.app.runs.predictors import predictor_of
    from edgewise.app.runs.record import load_recipe
    from edgewise.app.train.folder import RunFolder
    from edgewise.app.train.preprocessing import kept_preprocessing, with_known_targets

    with suppress(EdgewiseError, OSError):
        folder = RunFolder(Path(name))
        recipe = with_known_targets(load_recipe(folder), kept_preprocessing(folder))
        return recipe if predictor_of(recipe) else None
    return None


def build_parser(command: str = "", words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser; with ``--help`` among the words, it lists fields of the recipe or run."""
    parser: argparse.ArgumentParser = Parser(
        prog="edgewise",
        description=DESCRIPTION,
        epilog=EXAMPLES + "\n" + DATA_FOLDER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"edgewise {__version__}")
    helps = bool(HELP & set(words))
    trains = command in ("train", "compare", "baseline")
    add = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    needed = {command} if command in COMMANDS else set(COMMANDS)
    if needed & {"list", "show"}:
        _add_looking(add)
    if needed & {"train", "baseline", "compare", "test"}:
        _add_training(add, _fields_for_help(words) if helps and trains else "")
    if "predict" in needed:
        options, run, by_recipe = OPTIONS, None, ""
        if helps and command == "predict":
            from edgewise.app.cli.predict import options_by_recipe, options_of

            run = _run_for_help(words)
            if run is None:
                by_recipe = options_by_recipe()
            else:
                options = options_of(run)
        _add_predicting(add, options, run, by_recipe)
    if needed & {"explain", "influence"}:
        _add_explaining(add)
    if needed & {"heads", "prune", "suggest"}:
        _add_heads(add)
    if "verify" in needed:
        summary = "compare Edgewise's layers with the layers of PyTorch and PyTorch Geometric"
        _command(add, "verify", summary, "edgewise verify")
    if "doctor" in needed:
        summary = "list versions, devices, and installed and missing packages and data sets"
        _command(add, "doctor", summary, "edgewise doctor")
    return parser


def _command(
    add: Commands,
    name: str,
    summary: str,
    example: str,
    on: Literal["recipe", "run", ""] = "",
) -> argparse.ArgumentParser:
    """Add a command, with the name of a recipe or a run folder as first argument."""
    command = add.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if on == "recipe":
        help_ = "name of a recipe; see `edgewise list recipes`"
        command.add_argument("recipe", metavar="RECIPE", help=help_)
        command.set_defaults(takes_fields=True)
    elif on == "run":
        help_ = "run folder, written by `edgewise train`"
        command.add_argument("folder", type=Path, metavar="DIR", help=help_)
    return command


def _add_looking(add: Commands) -> None:
    summary = "list recipes, models, data sets, tasks, graphs and encodings"
    command = _command(add, "list", summary, "edgewise list models")
    command.add_argument("kind", nargs="?", choices=KINDS, help="list only names of this kind")
    summary = "describe a recipe with its fields, or a model, data set, task, graph or encoding"
    example = 'edgewise show "window(2) | hubs([0])" --draw picture.png'
    command = _command(add, "show", summary, example)
    help_ = "a name that `edgewise list` prints, or a graph such as 'window(2)'"
    command.add_argument("name", metavar="NAME", help=help_)
    help_ = "save a figure of the graph NAME to FILE; NAME must be a graph such as 'window(2)'"
    command.add_argument("--draw", type=Path, metavar="FILE", help=help_)
    help_ = "number of nodes with which the graph NAME is shown (default: 16)"
    command.add_argument("--nodes", type=int, default=16, help=help_)


def _add_training(add: Commands, known_fields: str) -> None:
    example = (
        "edgewise train gat-cora --model.heads 4 --out runs/four-heads\n\n"
        "Each field of the recipe is an option; `edgewise train RECIPE --help` lists the fields."
    )
    summary = "train the model of a recipe and write its weights and metrics to a run folder"
    command = _command(add, "train", summary, example + known_fields, on="recipe")
    protocol = command.add_argument_group("several trainings")
    help_ = (
        "train N times with different seeds, and print the mean and standard deviation of the "
        "metrics; for properties of molecules, texts and nodes, also print the metrics of the "
        "ensemble, which predicts the mean of the N predictions"
    )
    protocol.add_argument("--seeds", type=int, metavar="N", help=help_)
    help_ = (
        "cross-validate: train once for each fold of the data, with this fold as the test set; "
        "with --seeds N, train N models for each fold and evaluate their mean prediction"
    )
    protocol.add_argument("--folds", action="store_true", help=help_)
    _add_common(command, "runs/RECIPE")
    command.set_defaults(folder_name="{recipe}")
    summary = "evaluate simple baselines on the data of a recipe, with its splits and metrics"
    example = "edgewise baseline molecules --data.path mine.csv --data.target y"
    command = _command(add, "baseline", summary, example + known_fields, on="recipe")
    help_ = "cross-validate: evaluate with each fold as the test set, and print the mean metrics"
    command.add_argument("--folds", action="store_true", help=help_)
    command.add_argument("--seed", metavar="N", help="random seed of the splits")
    help_ = "folder in which to write baseline.json (default: runs/RECIPE-baseline)"
    command.add_argument("--out", type=Path, metavar="DIR", help=help_)
    command.set_defaults(folder_name="{recipe}-baseline")
    summary = "train a recipe once for each value of one field, and write a report of the metrics"
    example = 'edgewise compare digits model.graph "empty()" "window(1)" "complete()"'
    command = _command(add, "compare", summary, example + known_fields, on="recipe")
    command.add_argument("field", metavar="FIELD", help="field to vary, such as model.graph")
    help_ = "values of FIELD; the recipe is trained once for each value"
    command.add_argument("values", nargs="+", metavar="VALUE", help=help_)
    protocol = command.add_argument_group("several trainings")
    help_ = "train with N seeds for each value of FIELD, and report mean and standard deviation"
    protocol.add_argument("--seeds", type=int, metavar="N", help=help_)
    help_ = "train for N values of FIELD in parallel, each in its own process with one thread"
    protocol.add_argument("--workers", type=int, metavar="N", help=help_)
    help_ = "report metrics of the test set instead of the validation set"
    protocol.add_argument("--test", action="store_true", help=help_)
    _add_common(command, "runs/RECIPE-FIELD")
    command.set_defaults(folder_name="{recipe}-{field}")
    summary = "evaluate the trained model of a run on the test set"
    command = _command(add, "test", summary, "edgewise test runs/digits", on="run")


def _add_predicting(
    add: Commands, options: Mapping[str, str], run: Recipe | None, by_recipe: str
) -> None:
    title = f"options of this run of {run.name}" if run else "options that only some runs accept"
    about = None if run else "`edgewise predict DIR --help` lists the options of the run in DIR."
    example = (
        'edgewise predict runs/sst2 "A film to fall in love with." --top 2\n'
        '  edgewise predict runs/gpt-shakespeare "ROMEO:" --temperature 0.8\n'
        "  edgewise predict runs/mine --input new.csv --out predictions.csv"
    )
    if run is None:
        example += f"\n\nsets of options, with the recipes whose runs accept them:\n{by_recipe}"
    summary = "predict for new inputs with the trained model of a run"
    command = _command(add, "predict", summary, example, on="run")
    help_ = "an input to predict for, such as a SMILES, a sentence, an image file or a user id"
    command.add_argument("inputs", nargs="*", default=[], metavar="INPUT", help=help_)
    files = command.add_argument_group("inputs and outputs")
    help_ = (
        "file of inputs: a table (.csv, .tsv, .jsonl, .parquet, .xlsx) with the input columns of "
        "the training table, an .sdf file of molecules, or a text file with one input per line"
    )
    files.add_argument("--input", type=Path, metavar="FILE", help=help_)
    help_ = "write predictions to a .csv, .tsv or .jsonl file instead of printing them"
    files.add_argument("--out", type=Path, metavar="FILE", help=help_)
    help_ = (
        "write an apostrophe before texts in --out that begin with = + - or @, which a spreadsheet "
        "would run as formulas"
    )
    files.add_argument("--quote-formulas", action="store_true", help=help_)
    help_ = "save a figure of the predictions to FILE"
    files.add_argument("--draw", type=Path, metavar="FILE", help=help_)
    help_ = (
        "show the N parts of the input (words, atoms and bonds, neighbours, or items) with the "
        "largest effect on each prediction; atoms are numbered from 1 in the order of the SMILES"
    )
    files.add_argument("--why", type=int, metavar="N", help=help_)
    files.add_argument("--batch-size", type=int, metavar="N", help="number of inputs per batch")
    group = command.add_argument_group(title, about) if options else command
    for name, help_ in options.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=help_)


def _add_explaining(add: Commands) -> None:
    example = (
        'edgewise explain runs/sst2 "A film to fall in love with." --out page.html\n\n'
        "The HTML page is a single file and needs no network. For several inputs, one page for\n"
        "each input is written: page-1.html, page-2.html, ..."
    )
    summary = "write an HTML page that shows the attention weights of a run's model for an input"
    command = _command(add, "explain", summary, example, on="run")
    help_ = "an input to explain, such as a SMILES, a sentence, an image file or a node id"
    command.add_argument("inputs", nargs="*", default=[], metavar="INPUT", help=help_)
    help_ = "HTML file to write; the name must end in .html"
    command.add_argument("--out", type=Path, metavar="FILE", required=True, help=help_)
    help_ = (
        "show only this layer, a number or module name that `edgewise heads` lists; repeat --layer "
        "to show several layers"
    )
    command.add_argument("--layer", dest="layers", action="append", metavar="LAYER", help=help_)
    help_ = "show only the head with this number, from 0; repeat --head to show several heads"
    command.add_argument("--head", dest="heads", type=int, action="append", metavar="N", help=help_)
    summary = "rank the nodes of a run's graph by their influence on its predictions"
    example = "edgewise influence runs/gat-cora --top 10 --draw influence.png"
    command = _command(add, "influence", summary, example, on="run")
    help_ = (
        "measure the influence of a node as the change of the outputs if the node is `removed` "
        "(default), or if its features are `changed` to the mean features of all nodes"
    )
    command.add_argument("--by", choices=("removed", "changed"), default="removed", help=help_)
    help_ = "number of most influential nodes to list (default: 10)"
    command.add_argument("--top", type=int, default=10, metavar="N", help=help_)
    help_ = "save a figure of the influence of each node on the predictions to FILE"
    command.add_argument("--draw", type=Path, metavar="FILE", help=help_)
    help_ = "random seed of the estimates of influence and centrality (default: 0)"
    command.add_argument("--seed", type=int, default=0, metavar="N", help=help_)


def _add_heads(add: Commands) -> None:
    command = _command(
        add,
        "heads",
        "print the importance and statistics of each attention head of a run",
        "edgewise heads runs/sst2 --by leaving_out --draw heads.png",
        on="run",
    )
    _add_data(command, importance=True)
    help_ = "save a figure of the importance of each head to FILE"
    command.add_argument("--draw", type=Path, metavar="FILE", help=help_)
    command = _command(
        add,
        "prune",
        "remove attention heads from a run and write the result to a new folder",
        "edgewise prune runs/sst2 --fraction 0.2 --out runs/sst2-pruned\n"
        "  edgewise prune runs/sst2 --heads 0:1,3 --heads 1:0 --out runs/sst2-pruned\n\n"
        "The rows and columns of the heads are removed from the weights. `edgewise predict`,\n"
        "`edgewise test` and `edgewise explain` read the new folder.",
        on="run",
    )
    help_ = "remove this fraction of all heads, the least important heads first"
    command.add_argument("--fraction", type=float, metavar="F", help=help_)
    help_ = (
        "remove these heads of one layer, for example 0:1,3; `edgewise heads` lists the numbers of "
        "layers and heads; repeat --heads for further layers"
    )
    command.add_argument("--heads", action="append", metavar="LAYER:HEAD,…", help=help_)
    help_ = "run folder to write; it must not exist yet, or be empty"
    command.add_argument("--out", type=Path, metavar="DIR", required=True, help=help_)
    _add_data(command, importance=True)
    command = _command(
        add,
        "suggest",
        "suggest a sparse graph for each layer of a run; measure loss and time with these graphs",
        "edgewise suggest runs/sst2 --coverage 0.95",
        on="run",
    )
    help_ = "fraction of the total attention weight that each graph must keep (default: 0.9)"
    command.add_argument("--coverage", type=float, default=0.9, metavar="F", help=help_)
    _add_data(command, importance=False)


def _add_data(command: argparse.ArgumentParser, *, importance: bool) -> None:
    if importance:
        help_ = (
            "how the importance of a head is measured. `gradient` (default): gradient of the loss "
            "with respect to the output of the head. `gain`: gradient of the loss with respect to "
            "a factor that multiplies the scores of the head. `leaving_out` (slowest): increase of "
            "the loss without the head"
        )
        kinds = ("gradient", "gain", "leaving_out")
        command.add_argument("--by", choices=kinds, default="gradient", help=help_)
    help_ = "data split to use: training, validation or test (default: val)"
    command.add_argument("--split", choices=("train", "val", "test"), default="val", help=help_)
    help_ = "maximum number of batches of the split to use (default: 8)"
    command.add_argument("--batches", type=int, default=8, metavar="N", help=help_)


def _add_common(command: argparse.ArgumentParser, out: str) -> None:
    folder = command.add_argument_group("run folder")
    folder.add_argument("--out", type=Path, metavar="DIR", help=f"folder to write (default: {out})")
    help_ = "continue the unfinished run in --out; give the same options as when it was started"
    folder.add_argument("--resume", action="store_true", help=help_)
    help_ = (
        "replace the model of the recipe by NAME, a model for the same kind of inputs; fields that "
        "the old and the new model have keep their values"
    )
    changes = command.add_argument_group("changes to the recipe")
    changes.add_argument("--model", metavar="NAME", help=help_)
    help_ = (
        "fine-tune: take the backbone's weights and its architecture from a run folder, with the "
        "recipe's graph, pooling and dropout, or from a Hugging Face folder, with the settings of "
        "fine-tuning"
    )
    changes.add_argument("--from", dest="start", metavar="DIR", help=help_)
    help_ = "random seed for initialisation, dropout and shuffling"
    changes.add_argument("--seed", metavar="N", help=help_)
