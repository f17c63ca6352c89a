"""Predicted labels for two sentences about "like" from the lecture, and for ten variations.

    python -m benchmarks.lecture_sentences RUN

RUN is the folder of a run of the recipe sst2, or of several seeds of it (``--seeds``). None of the
sentences is in SST-2, and no setting of a recipe was chosen with them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import edgewise

LECTURE = {
    "I like this movie": "positive",
    "I do not like this movie": "negative",
}
VARIATIONS = {
    "I really like this movie": "positive",
    "I like this film": "positive",
    "We liked this movie": "positive",
    "You will like this movie": "positive",
    "I like the story and I like the actors": "positive",
    "I don't like this movie": "negative",
    "I do not like this film": "negative",
    "We did not like this movie": "negative",
    "You will not like this movie": "negative",
    "I did not like the story or the actors": "negative",
}


def right(run: Path) -> int:
    """Print the predicted label of each sentence, and return the number of correct ones."""
    expected = LECTURE | VARIATIONS
    answers = edgewise.load(run).predict(list(expected), top=1)
    correct = 0
    for (text, label), answer in zip(expected.items(), answers, strict=True):
        correct += answer["label"] == label
        mark = " " if answer["label"] == label else "wrong"
        print(f"{text:40} {answer['label']:9} {answer['probability']:.3f} {mark}")
    print(f"{correct} of {len(expected)} are correct")
    return correct


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="run folder of the recipe sst2")
    right(parser.parse_args().run)
