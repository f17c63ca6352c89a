"""The commands, their options and their help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from edgewise import __version__
from edgewise.cli import commands
from edgewise.cli.listing import recipe_text
from edgewise.cli.predict import OPTIONS, options_by_recipe
from edgewise.errors import ArgumentError
from edgewise.graphs.own import allow
from edgewise.recipes import RECIPES, Recipe
from edgewise.runs import with_values

Fields = dict[str, str]
Command = Callable[[argparse.Namespace, Fields], int]

SEED = "--seed"
FIELD = re.compile(r"--([a-z]\w*\.[a-z]\w*)(?:=(.*))?", re.DOTALL)
EXAMPLES = """examples:
  edgewise list
  edgewise show digits
  edgewise train digits --model.graph "window(1)" --out runs/window
  edgewise train gat-cora --model gatv2 --seeds 10
  edgewise compare digits model.graph "empty()" "grid(4, 4)" "complete()" --out runs/graphs
  edgewise test runs/digits
"""
NAMED_DATA = "EDGEWISE_DATA names the folder with data sets; `edgewise doctor` says what is there."


def parse(argv: list[str]) -> tuple[argparse.Namespace, Fields]:
    """The command, and the recipe's fields that were named, as text.

    Raises:
        ArgumentError: a field without a value, or for a command that takes none.

    """
    rest, fields = split_fields(argv)
    named = next((RECIPES[word] for word in rest if word in RECIPES), None)
    parser = build_parser(named and _with_model(named, rest))
    arguments, more = parser.parse_known_args(rest)
    # argparse takes no words after an option where it has found none before it.
    if more and hasattr(arguments, "inputs") and not any(word.startswith("-") for word in more):
        arguments.inputs, more = [*arguments.inputs, *more], []
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    typed = [
        *fields.values(),
        *getattr(arguments, "values", ()),
        str(getattr(arguments, "name", "")),
    ]
    for text in typed:
        allow(text)  # who names a module here wants it
    if fields and not hasattr(arguments, "takes_fields"):
        raise ArgumentError(
            f"--{next(iter(fields))}",
            expected="options of this command",
            got="a field of a recipe",
            remedy="fields go with `edgewise train` and `edgewise compare`",
        )
    return arguments, fields


def split_fields(argv: list[str]) -> tuple[list[str], Fields]:
    """Take ``--model.heads 4`` and ``--model.heads=4`` out of the arguments."""
    rest: list[str] = []
    fields: Fields = {}
    words = iter(argv)
    for word in words:
        found = FIELD.fullmatch(word)
        if not found:
            rest.append(word)
            continue
        name, value = found.groups()
        value = next(words, None) if value is None else value
        if value is None:
            raise ArgumentError(
                word, expected="a value after it", got="none", remedy=f"write {word} VALUE"
            )
        fields[name] = value
    return rest, fields


def _with_model(recipe: Recipe, words: list[str]) -> Recipe:
    """The recipe whose fields the help lists: that of another ``--model``, where one is named."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--model", nargs="?")
    model = parser.parse_known_args(words)[0].model
    return with_values(recipe, {"model": model}) if model else recipe


def build_parser(recipe: Recipe | None = None) -> argparse.ArgumentParser:
    """All commands; the help of ``train`` and ``compare`` lists the fields of ``recipe``."""
    parser = argparse.ArgumentParser(
        prog="edgewise",
        description="Attention over a graph: train, compare and check models.",
        epilog=EXAMPLES + "\n" + NAMED_DATA,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"edgewise {__version__}")
    add = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_looking(add)
    _add_training(add, "" if recipe is None else "\n\n" + recipe_text(recipe))
    _add_checking(add)
    return parser


def _command(
    add: argparse._SubParsersAction[argparse.ArgumentParser],
    run: Command,
    name: str,
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    command = add.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def _add_looking(add: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(add, commands.list_names, "list", "what there is", "edgewise list models")
    command.add_argument("kind", nargs="?", choices=commands.KINDS, help="only these")
    command = _command(
        add,
        commands.show,
        "show",
        "a recipe with all its fields, a model, a data set, a task, a graph or an encoding",
        'edgewise show "window(2) | hubs([0])" --draw picture.png',
    )
    command.add_argument("name", metavar="NAME", help="as `edgewise list` says, or a graph's text")
    command.add_argument("--draw", type=Path, metavar="FILE", help="save a picture of a graph")
    command.add_argument("--nodes", type=int, default=16, help="nodes in the picture (16)")


def _add_training(
    add: argparse._SubParsersAction[argparse.ArgumentParser], known_fields: str
) -> None:
    command = _command(
        add,
        commands.train,
        "train",
        "train a recipe into a run folder",
        "edgewise train gat-cora --model.heads 4 --out runs/four-heads\n\n"
        "Any field of the recipe is an option; `edgewise train RECIPE --help` lists them."
        + known_fields,
    )
    command.add_argument("recipe", metavar="RECIPE", help="as `edgewise list recipes` says")
    several = command.add_mutually_exclusive_group()
    several.add_argument("--seeds", type=int, metavar="N", help="train with N seeds; mean and std")
    several.add_argument("--folds", action="store_true", help="test on each fold of the data")
    _add_common(command, "runs/RECIPE")
    command = _command(
        add,
        commands.compare,
        "compare",
        "train a recipe once for each value of one field, and report",
        'edgewise compare digits model.graph "empty()" "window(1)" "complete()"' + known_fields,
    )
    command.add_argument("recipe", metavar="RECIPE", help="as `edgewise list recipes` says")
    command.add_argument("field", metavar="FIELD", help="such as model.graph")
    command.add_argument("values", nargs="+", metavar="VALUE", help="one training for each")
    help_ = "train each with N seeds; mean and std"
    command.add_argument("--seeds", type=int, metavar="N", help=help_)
    help_ = "train N values at once, each in a process of its own on one thread"
    command.add_argument("--workers", type=int, metavar="N", help=help_)
    help_ = "report metrics of the test split; without it those of validation, to choose by"
    command.add_argument("--test", action="store_true", help=help_)
    _add_common(command, "runs/RECIPE-FIELD")
    command = _command(
        add, commands.test, "test", "test the weights of a run", "edgewise test runs/digits"
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="a run folder")
    _add_predicting(add)
    _add_writing(add)


def _add_predicting(add: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        add,
        commands.predict,
        "predict",
        "answer on new inputs by a trained run",
        'edgewise predict runs/sst2 "A film to fall in love with." --top 2\n'
        "  edgewise predict runs/mine --input new.csv --out answers.csv\n\n"
        f"options of the answers of each kind of run:\n{options_by_recipe()}",
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="a run folder")
    help_ = "what is asked: a SMILES, a sentence, an image file, a user's id, as the run's data are"
    command.add_argument("inputs", nargs="*", default=[], metavar="INPUT", help=help_)
    help_ = "file of inputs: .csv, .jsonl, .parquet or .xlsx with the columns trained on, or lines"
    command.add_argument("--input", type=Path, metavar="FILE", help=help_)
    help_ = "write .csv, .tsv or .jsonl instead of printing"
    command.add_argument("--out", type=Path, metavar="FILE", help=help_)
    command.add_argument("--draw", type=Path, metavar="FILE", help="save a picture of the answers")
    command.add_argument("--batch-size", type=int, metavar="N", help="inputs side by side")
    for name, help_ in OPTIONS.items():
        command.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=help_)


def _add_writing(add: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        add,
        commands.generate,
        "generate",
        "let a trained language model write",
        'edgewise generate runs/gpt-shakespeare --prompt "ROMEO:" --temperature 0.8',
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="a run folder")
    command.add_argument("--prompt", required=True, metavar="TEXT", help="what it goes on from")
    command.add_argument("--tokens", type=int, default=300, metavar="N", help="how many (300)")
    help_ = "below 1 surer, above 1 freer, 0 always the likeliest (0.8)"
    command.add_argument("--temperature", type=float, default=0.8, metavar="T", help=help_)
    command.add_argument("--top-k", type=int, metavar="K", help="choose among the K likeliest")
    help_ = "choose among the fewest whose probabilities reach P"
    command.add_argument("--top-p", type=float, metavar="P", help=help_)
    command.add_argument(SEED, type=int, default=0, metavar="N", help="the same text again (0)")
    command = _command(
        add,
        commands.translate,
        "translate",
        "translate texts by a trained model",
        'edgewise translate runs/transformer-multi30k "A man rides a bike."',
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="a run folder")
    help_ = "what is translated; without it, the lines of standard input"
    command.add_argument("texts", nargs="*", default=[], metavar="TEXT", help=help_)


def _add_common(command: argparse.ArgumentParser, out: str) -> None:
    command.add_argument("--out", type=Path, metavar="DIR", help=f"the run folder ({out})")
    command.add_argument("--resume", action="store_true", help="continue the run in the folder")
    help_ = "another architecture of the same kind; it keeps the fields that both have"
    command.add_argument("--model", metavar="NAME", help=help_)
    command.add_argument(
        "--from",
        dest="start",
        metavar="DIR",
        help="start from the weights of this run, without its head, or of a Hugging Face folder",
    )
    command.add_argument(SEED, metavar="N", help="of weights, dropout and order")
    command.set_defaults(takes_fields=True)


def _add_checking(add: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verify = "check the layers against PyTorch's and PyTorch Geometric's, by numbers"
    _command(add, commands.verify, "verify", verify, "edgewise verify")
    command = _command(
        add,
        commands.separate,
        "separate",
        "which graphs that look alike encodings and models tell apart",
        "edgewise separate --models gin gps graphormer --runs runs/gin-csl --draw pairs.png",
    )
    command.add_argument(
        "--models", nargs="+", metavar="MODEL", help="models of graphs, with fresh weights"
    )
    command.add_argument(
        "--runs", nargs="+", type=Path, metavar="DIR", help="finished runs of models of graphs"
    )
    command.add_argument("--draw", type=Path, metavar="FILE", help="save a picture")
    doctor = "what is installed, found and missing on this machine"
    _command(add, commands.doctor, "doctor", doctor, "edgewise doctor")
