"""Run Hugging Face's own tests of its models on Edgewise's attention.

    python tests/interop/run_huggingface_tests.py FOLDER [models]

FOLDER is a checkout of ``transformers`` at the installed version; to use the version of the
checkout, put ``FOLDER/src`` on PYTHONPATH. Its tests need ``parameterized``, ``accelerate``,
``httpx``, ``timeout-decorator`` and ``pytest-timeout``. They run twice: as ``transformers`` is, and
with the plugin ``huggingface_backend``. Tests that read a hub are skipped, or fail in both.
"""

from __future__ import annotations

import sys

import their_tests

MODELS = [
    *("bert", "gpt2", "llama", "mistral", "gemma", "qwen2", "t5", "bart", "vit"),
    *("longformer", "big_bird", "led", "reformer"),
]
# Tests of files, weights and sizes, which compute no attention and take most of the time; 300 steps
# of training; and 16 bits, slow on CPUs.
LEFT_OUT = "save load init resize dtype tied safetensors mapping pipeline offload overfit fp16 bf16"
SELECTED = f"not ({' or '.join(LEFT_OUT.split())})"


def main(folder: str, *models: str) -> None:
    """Print a row of the table for each model, and the messages of the tests that got worse."""
    files = [f"tests/models/{model}/test_modeling_{model}.py" for model in models or MODELS]
    control, tested = (
        their_tests.run_pytest(
            folder,
            *("-W", "ignore", "--timeout", "300", "--continue-on-collection-errors"),
            *("-k", SELECTED, *plugin, *files),
            HF_HUB_OFFLINE="1",
            CUDA_VISIBLE_DEVICES="",
        )
        for plugin in ((), ("-p", "huggingface_backend"))
    )
    their_tests.print_table(dict(zip(models or MODELS, files, strict=True)), control, tested)


if __name__ == "__main__":
    main(*sys.argv[1:])
