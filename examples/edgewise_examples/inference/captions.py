"""Predictor for image captions."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.app.kinds.images.predict import OnImages
from edgewise.app.predict import Answer
from edgewise_examples.data.caption_digits import CaptionDigits
from edgewise_examples.tasks import Captioning


class Captions(OnImages):
    """Predictor that writes a caption for each image, by greedy decoding."""

    data, task = CaptionDigits, Captioning

    def answer(self, examples: list[Tensor]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, CaptionDigits)
        captions = self.recipe.task.generate(self.model, data.asked(torch.stack(examples)))
        return [{"caption": text} for text in captions]
