"""Deterministic training and use of tokenizers with Hugging Face ``tokenizers``."""

from __future__ import annotations

import hashlib
import json
import math
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_given
from edgewise._utils.errors import ArgumentError, MissingDataError, is_failure, reading, require
from edgewise._utils.limits import LIMITS, check_memory
from edgewise.app.files.reading import read_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Kind = Literal["characters", "words", "bytes", "bpe", "wordpiece"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Special = Literal["pad", "unk", "bos", "eos", "cls", "sep", "mask"]
SPECIALS: tuple[Special, ...] = get_args(Special)
OTHERS: dict[Special, tuple[str, ...]] = {
    "pad": ("[PAD]",),
    "unk": ("[UNK]",),
    "bos": ("<s>", "<|endoftext|>"),
    "eos": ("</s>", "<|endoftext|>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]",),
}
"""Names of the special tokens in the tokenizers of BERT, RoBERTa and GPT-2."""
TOKENIZER = "tokenizer.json"
WHITE = " \t\r\n"
PORTION = 1_000_000  # Number of characters that are encoded at once.
WHILE_CODED = 260  # Bytes of memory per character during encoding, measured for kind "characters".
OTHER = "use the tokenizer.json of another source"
REGEX_TOKEN = re.compile(
    r"(?:(?P<one>\\[sSwWdD]|\\p\{\w+\}|\\[-./*+?()\[\]{}|^$@#:]|[^][\\(){}*+?|^$]"
    r"|\[\^?(?:[^][\\&^]|\\.)+\])"  # Without nested classes and intersections.
    r"|\\[bB]|[$^]|\((?:\?:)?(?:[^][\\()?]|\\.)(?:[^][\\()]|\\.)*\))"
    r"(?P<times>(?:[*+?]|\{\d*,?\d*\})*)|\|"
)
"""Token of a simple regular expression: a character (group ``one``), an anchor or a group without
classes and flags, with its repetitions; or the bar between alternatives."""
MAX_ABSENT_IDS = 100_000  # Tokenizers of published models reserve some ids.
COMPATIBLE = 18  # Number of characters that NFKC makes of one, at most.
WHOLE: tuple[Kind, ...] = ("characters", "bytes")
"""Kinds of tokenizers that need no special token for unknown text."""


def train_tokenizer(
    texts: Iterable[str],
    kind: Kind = "bytes",
    vocab_size: int | None = None,
    *,
    special: Sequence[Special] = (),
    lowercase: bool = False,
) -> Tokenizer:
    """Train a tokenizer."""
    check_choice("kind", kind, KINDS)
    for name in special:
        check_choice("special", name, SPECIALS)
    names = list(special)
    if "unk" not in names and kind not in WHOLE:
        names.append("unk")
    texts = list(texts)
    tokens = [f"<{name}>" for name in names]
    learn = _counted if kind in ("characters", "words") else _merged
    model = learn(_untrained(kind, lowercase, "unk" in names), texts, kind, vocab_size, tokens)
    tokenizer = _untrained(kind, lowercase, "unk" in names)
    tokenizer.model = model
    tokenizer.add_special_tokens(tokens)
    return tokenizer


def encode_all(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    first: Special | None = None,
    last: Special | None = None,
) -> tuple[Tensor, Tensor]:
    """Encode texts, and return their packed token ids ``[N]`` and lengths ``[S]``."""
    prefix = [] if first is None else [special_id(tokenizer, first)]
    suffix = [] if last is None else [special_id(tokenizer, last)]
    texts = list(texts)
    length = max(map(len, texts), default=0)
    what = f"a text of {length:,} characters"
    check_memory(
        "texts", WHILE_CODED * length, what, "shorten the text, or split it into several texts"
    )
    ids, sizes = [], []
    for portion in _portions(texts):
        with reading("texts", expected="texts that this tokenizer can encode", remedy=OTHER):
            try:
                coded = tokenizer.encode_batch_fast(portion, add_special_tokens=False)
            except BaseException as error:
                if not is_failure(error):
                    raise
                raise _unknown_character(tokenizer, texts, error) from error
        rows = [prefix + encoding.ids + suffix for encoding in coded]
        sizes += [len(row) for row in rows]
        ids.append(torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long))
    return torch.cat(ids) if ids else torch.empty(0, dtype=torch.long), torch.tensor(
        sizes, dtype=torch.long
    )


def _portions(texts: list[str]) -> Iterator[list[str]]:
    """Yield parts of about ``PORTION`` characters, to limit the memory for encoding."""
    portion: list[str] = []
    held = 0
    for text in texts:
        portion.append(text)
        held += len(text)
        if held >= PORTION:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


def special_id(tokenizer: Tokenizer, name: Special) -> int:
    """Return the id of a special token, such as 0 for ``"pad"``."""
    token_id = _special_id(tokenizer, name)
    if token_id is None:
        raise ArgumentError(
            "tokenizer",
            expected=f"a tokenizer with the special token <{name}>",
            got="a tokenizer without this token",
            remedy=f"train the tokenizer with special=({name!r}, ...)",
        )
    return token_id


def _special_id(tokenizer: Tokenizer, name: Special) -> int | None:
    for token in (f"<{name}>", *OTHERS[name]):
        token_id: int | None = tokenizer.token_to_id(token)
        if token_id is not None:
            return token_id
    return None


def special_ids(tokenizer: Tokenizer) -> Tensor:
    """Return the ids of all special tokens."""
    added = tokenizer.get_added_tokens_decoder()
    return torch.tensor(sorted(id_ for id_, token in added.items() if token.special))


def hiding_id(tokenizer: Tokenizer) -> int:
    """Return the id that replaces a hidden token: ``<mask>`` if it exists, else ``<unk>``."""
    mask = _special_id(tokenizer, "mask")
    return special_id(tokenizer, "unk") if mask is None else mask


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a ``tokenizer.json``, given by its path or folder."""
    path = path / TOKENIZER if path.is_dir() else path
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: give the path of a {TOKENIZER}, or of a run "
            f"folder that contains a {TOKENIZER}."
        )
    LIMITS["json_bytes"].check(path.stat().st_size, path)
    return parse_tokenizer(read_text(path), str(path))


def parse_tokenizer(text: str, origin: str = TOKENIZER) -> Tokenizer:
    """Create a tokenizer from the JSON that ``tokenizer.to_str()`` returns."""
    library = _library()
    with reading(origin, expected=f"a {TOKENIZER} written by Hugging Face tokenizers"):
        rules = json.loads(text)
        _check_ids(rules, origin)
        tokenizer: Tokenizer = library.Tokenizer.from_str(text)
        for name in ("normalizer", "pre_tokenizer", "decoder"):
            LIMITS["tokenizer_growth"].check(_growth(rules.get(name)), origin, f"by its {name}")
    # The file may enable truncation and padding; disable both.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _check_ids(rules: dict[str, Any], origin: str) -> None:
    """Raise ArgumentError for an id for which the library would list millions of absent ids."""
    vocab = (rules.get("model") or {}).get("vocab") or ()
    ids = [token["id"] for token in rules.get("added_tokens") or ()]
    ids += vocab.values() if isinstance(vocab, dict) else ()
    bound = 2 * (len(ids) + len(vocab)) + MAX_ABSENT_IDS
    if ids and max(ids) > bound:
        raise ArgumentError(
            origin,
            expected=f"ids up to {bound}, twice the number of tokens and {MAX_ABSENT_IDS}",
            got=str(max(ids)),
            remedy="restore the file, or train the tokenizer again",
        )


def _growth(rule: Any) -> int:
    """Return the number of characters that a rule, or a sequence of rules, makes of one."""
    if not isinstance(rule, dict):
        return 1
    rules = next((value for value in rule.values() if isinstance(value, list)), ())
    if rules and all(isinstance(inner_rule, dict) for inner_rule in rules):
        return math.prod(map(_growth, rules))
    kind, pattern = rule.get("type"), rule.get("pattern")
    if kind == "Replace" and isinstance(pattern, dict):
        text = pattern.get("String")
        content = len(str(rule.get("content", "")))
        width = len(text or "") or _min_width(str(pattern.get("Regex", "")))
        # A pattern that matches nothing does so before and after each character.
        return max(1, math.ceil(content / width) if width else 1 + content)
    if kind == "ByteLevel":
        return 2
    if kind == "Precompiled":
        packed = b64decode(str(rule.get("precompiled_charsmap") or ""))
        # The replacements end with zero bytes, after a trie whose size is in the first four bytes.
        texts = packed[4 + int.from_bytes(packed[:4], "little") :].split(b"\0")
        return max(
            1, math.ceil(max(len(text.decode(errors="replace")) for text in texts) / COMPATIBLE)
        )
    return max(1, len(str(rule.get("prepend", "")))) if kind == "Prepend" else 1


def _min_width(regex: str) -> int:
    """Return a lower bound of the length of a match; 0 if the expression has other syntax."""
    tokens = list(REGEX_TOKEN.finditer(regex))
    if "".join(token[0] for token in tokens) != regex:
        return 0
    widths = [0]
    for token in tokens:
        if token[0] == "|":
            widths.append(0)
        widths[-1] += token["one"] is not None and token["times"] in ("", "+")
    return min(widths)


def vocabulary_hash(tokenizer: Tokenizer) -> str:
    """Return a hash (16 hexadecimal digits) of all properties that determine the token ids."""
    settings = json.loads(tokenizer.to_str())
    decides = {key: settings.get(key) for key in ("normalizer", "pre_tokenizer", "model")}
    decides["special"] = [token["content"] for token in settings["added_tokens"]]
    text = json.dumps(decides, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _library() -> Any:
    return require("tokenizers", extra="text", purpose="reading text")


def _untrained(kind: Kind, lowercase: bool, unknown: bool) -> Tokenizer:
    hf = _library()
    tokenizer: Tokenizer
    unk: dict[str, Any] = {"unk_token": "<unk>"} if unknown else {}
    pre, decoders = hf.pre_tokenizers, hf.decoders
    if kind == "characters":
        tokenizer = hf.Tokenizer(hf.models.WordLevel({}, **unk))
        tokenizer.pre_tokenizer = pre.Split(hf.Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
    elif kind == "words":
        tokenizer = hf.Tokenizer(hf.models.WordLevel({}, **unk))
        tokenizer.pre_tokenizer = pre.WhitespaceSplit()
    elif kind == "bytes":
        tokenizer = hf.Tokenizer(hf.models.BPE())
        tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    elif kind == "bpe":
        tokenizer = hf.Tokenizer(hf.models.BPE(**unk))
        tokenizer.pre_tokenizer = pre.Sequence([pre.Metaspace(), pre.Punctuation()])
        tokenizer.decoder = decoders.Metaspace()
    else:
        tokenizer = hf.Tokenizer(hf.models.WordPiece(**unk))
        tokenizer.pre_tokenizer = pre.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    if lowercase:
        tokenizer.normalizer = hf.normalizers.Lowercase()
    return tokenizer


def _counted(
    tokenizer: Tokenizer, texts: list[str], kind: Kind, max_tokens: int | None, tokens: list[str]
) -> Any:
    """Make a vocabulary of characters or words; characters are sorted by code point."""
    counts: Counter[str] = Counter()
    for text in _normalised(tokenizer, texts):
        counts.update(text if kind == "characters" else text.split())
    learned = [token for token in counts if token not in tokens]
    if not learned:
        raise _no_text()
    learned.sort(key=lambda token: (-counts[token], token))
    if max_tokens is not None and max_tokens < len(learned) + len(tokens):
        if "<unk>" not in tokens or max_tokens <= len(tokens):
            raise _too_small(max_tokens, len(learned) + len(tokens))
        learned = learned[: max_tokens - len(tokens)]
    vocabulary = tokens + (sorted(learned) if kind == "characters" else learned)
    unk = {"unk_token": "<unk>"} if "<unk>" in tokens else {}
    return _library().models.WordLevel({token: i for i, token in enumerate(vocabulary)}, **unk)


def _merged(
    tokenizer: Tokenizer, texts: list[str], kind: Kind, max_tokens: int | None, tokens: list[str]
) -> Any:
    expected = f"a maximum number of tokens, which a tokenizer of kind {kind!r} needs"
    max_tokens = check_given("vocab_size", max_tokens, expected, "choose for example 8000")
    hf = _library()
    if not any(texts):
        raise _no_text()
    options: dict[str, Any] = {
        "vocab_size": max_tokens,
        "special_tokens": tokens,
        "show_progress": False,
    }
    if kind == "bytes":
        alphabet = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
    else:
        alphabet = sorted(set().union(*(_normalised(tokenizer, texts))) - set(WHITE))
    options["initial_alphabet"] = alphabet
    make = hf.trainers.BpeTrainer
    if kind == "wordpiece":
        make = hf.trainers.WordPieceTrainer
        # Sorted, because the order of a hash table differs between processes.
        options["special_tokens"] = tokens + [f"##{character}" for character in alphabet]
    least = len(options["special_tokens"]) + len(alphabet)
    if max_tokens < least:
        raise _too_small(max_tokens, least)
    tokenizer.train_from_iterator(texts, make(**options))
    return tokenizer.model


def _normalised(tokenizer: Tokenizer, texts: list[str]) -> Iterable[str]:
    normalizer = tokenizer.normalizer
    return texts if normalizer is None else map(normalizer.normalize_str, texts)


def _no_text() -> ArgumentError:
    return ArgumentError(
        "texts",
        expected="text to train the vocabulary on",
        got="none",
        remedy="check the files of the data set",
    )


def _too_small(max_tokens: int, least: int) -> ArgumentError:
    return ArgumentError(
        "vocab_size",
        expected=f"at least {least}, the number of special tokens and of characters or words",
        got=str(max_tokens),
        remedy="increase vocab_size; with kind 'characters', the special token 'unk' allows a "
        "smaller vocabulary",
    )


def _unknown_character(
    tokenizer: Tokenizer, texts: list[str], error: BaseException
) -> ArgumentError:
    vocabulary = tokenizer.get_vocab()
    for number, text in enumerate(_normalised(tokenizer, texts)):
        for position, character in enumerate(text):
            if character not in vocabulary:
                return ArgumentError(
                    "texts",
                    expected="only characters of the vocabulary, which has no <unk>",
                    got=f"{character!r} at character {position} of text {number}",
                    remedy="remove this character, or train the tokenizer with special=('unk',)",
                )
    return ArgumentError(
        "texts",
        expected="texts in Unicode",
        got=str(error),
        remedy="check the encoding with which the texts were read",
    )
