"""Formulas of docstrings, in plain text such as ``softmax_j(q_i·k_j / √D) v_j``, as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from unicodedata import normalize

SCRIPTS = str.maketrans("⁰¹²³⁺⁻ᵀᴷᵏ₀₁₂₃", "0123+-TKk0123") | {ord("½"): "1/2", ord("¼"): "1/4"}
SYMBOLS = {
    **{"Σ": r"\sum ", "·": r"\cdot ", "∘": r"\circ ", "⊙": r"\odot ", "⊕": r"\bigoplus "},
    **{"‖": r"\Vert ", "|": r"\vert ", "…": r"\ldots ", "½": r"\frac{1}{2}", "'": r"^{\prime}"},
    **{"←": r"\leftarrow ", "×": r"\times ", "∝": r"\propto ", "∞": r"\infty ", "−": "-"},
    **{"≤": r"\le "},
}
TOKEN = re.compile(
    r"(?P<hat>[^\W\d_])\u0302"
    r"|(?P<power>[⁰¹²³⁺⁻ᵀᴷᵏ]+)|\^(?P<raised>\(\w+\)|[-\w½¼]+)"
    r"|(?P<lowered>[₀₁₂₃]+|(?<=\b[xy])\d)|_(?P<index>\{[^}]*\}|[^\W_ᵀ]+)"
    r"|√(?:\((?P<root>(?:[^()]|\([^()]*\))*)\)|(?P<letter>\w))"
    r"|(?P<name>[A-Za-z]{2,})|(?P<gap>(?<=[\w)\]}½ᵀ]) (?=[\w√Σ([]))|(?P<symbol>.)"
)


def latex(formula: str) -> str:
    """Return a formula as LaTeX."""
    return "".join(map(_latex, TOKEN.finditer(normalize("NFD", formula)))).strip()


def _latex(token: re.Match[str]) -> str:
    kind, text = token.lastgroup, token[token.lastgroup or 0]
    match kind:
        case "hat":
            return rf"\hat{{{text}}}"
        case "power" | "raised":
            return f"^{{{text.translate(SCRIPTS)}}}"
        case "lowered" | "index":
            return f"_{{{text.strip('{}').translate(SCRIPTS)}}}"
        case "root" | "letter":
            return rf"\sqrt{{{latex(text)}}}"
        case "name":
            return rf"\operatorname{{{text}}}"
        case "gap":
            return r"\,"
    return SYMBOLS.get(text, text)


OPERATOR = re.compile(r"[-=+/<>≤←∝·∘⊙×−]")
PROSE = re.compile(r"a|.*\w-[A-Za-z]{2,}.*|.*'s")
"""Words that are no formulas: the article, compounds such as α-entmax, and genitives."""
FORMULA = re.compile(
    r".*([_^=Σ√·∘⊙⊕‖∝½|←∞×≤⁰¹²³ᵀᴷᵏ₀₁₂Α-ω]|[^\W\d_]['\u0302]|\w\().*|[^\W\d_]\d?|[-+/<>….−]+"
)


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield each word and the punctuation after it; spaces in brackets separate no words."""
    word = ""
    for piece in text.split(" "):
        word = f"{word} {piece}".lstrip()
        if sum(map(word.count, "([")) <= sum(map(word.count, ")]")):
            bare = word.rstrip(",;:")
            yield bare, word[len(bare) :]
            word = ""
    if word:
        yield word, ""


def with_formulas(text: str) -> str:
    """Return a text as Markdown, with its formulas as LaTeX between dollar signs."""
    segments = text.replace("``", "`").split("`")  # Those with odd indices are code.
    segments[::2] = map(typeset, segments[::2])
    return "`".join(segments)


def typeset(text: str) -> str:
    """Return a text without code as Markdown, with its formulas as LaTeX."""
    words, marks = zip(*words_of(text), strict=True)
    runs = []
    for index, word in enumerate(words):
        near = [words[i] for i in (index - 1, index + 1) if 0 <= i < len(words)]
        runs.append((is_formula(word, near), sum(map(bool, marks[:index]))))
    typeset_runs = []
    for (formula, _), group in groupby(range(len(words)), key=runs.__getitem__):
        *_, last = indices = list(group)
        run = " ".join(words[index] for index in indices)
        typeset_runs.append((f"${latex(run)}$" if formula else prose(run)) + marks[last])
    return " ".join(typeset_runs)


def is_formula(word: str, near: list[str]) -> bool:
    """Return whether a word belongs to a formula, by its characters or as an operand."""
    if any(map(OPERATOR.fullmatch, near)):
        return True
    if word.startswith("(") and word.endswith(")"):
        return re.fullmatch(r"\$[^$]*\$", typeset(word[1:-1])) is not None
    return not PROSE.fullmatch(word) and bool(FORMULA.fullmatch(normalize("NFD", word)))


def prose(text: str) -> str:
    """Return words as Markdown; formulas in their brackets are typeset."""
    text = text.replace("*", "\\*")
    return re.sub(r"(?<!\S)\(([^()]*)\)", lambda inner: f"({typeset(inner[1])})", text)
