"""The two sentences of the lecture about "like", and ten variations, with their sentiment.

They were written before any setting of the recipes was chosen by them. None is a sentence of
SST-2. They measure a run; no setting is chosen by them.
"""

from __future__ import annotations

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
