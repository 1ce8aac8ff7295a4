"""Static word vectors (wordllama, 256 numbers). Reads two files of the installed package.

A text's vector is the mean of its tokens' vectors: no model runs, so a short text takes some tens
of microseconds. The weights and the vocabulary are in wordllama's wheel. Its own loader is not
used, because it looks for the vocabulary in a folder that the wheel does not have, and then tries
to download it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import ExtraMissing, Unavailable, requires_extra
from ctxmgr.search.embedder import Vectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from numpy import float32
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

EXTRA: Final = "vectors"
NAME: Final = "wordllama/l2_supercat_256"
TEXT_CHARS_MAX: Final = 20_000
"""Characters of a text that count, from its beginning; the mean of more words says little."""

BATCH_TEXTS: Final = 1_024
"""Texts that are tokenized at once, which bounds the memory."""

FEW_TEXTS: Final = 4
"""Up to so many texts are tokenized one by one: waking the tokenizer's threads takes 2 ms."""

_WEIGHTS: Final = Path("weights", "l2_supercat_256.safetensors")
_VOCABULARY: Final = Path("tokenizers", "l2_supercat_tokenizer_config.json")


class StaticEmbedder:
    """A ``WordEmbedder`` that looks words up in a table."""

    def __init__(self, table: NDArray[float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer

    @classmethod
    def load(cls) -> Self:
        """Load the table (16 MB), once per process; ``ExtraMissing`` without wordllama."""
        folder = _package_folder()
        for part in (_WEIGHTS, _VOCABULARY):
            if not (folder / part).is_file():
                raise Unavailable(f"the installed wordllama has no {part}; install 0.4 or later")
        with requires_extra(EXTRA, "numpy", "safetensors", "tokenizers"):
            import_module("safetensors.numpy")
            import_module("tokenizers")
        return cls(*_loaded(folder))

    @property
    def name(self) -> str:
        return NAME

    @property
    def dimension(self) -> int:
        return int(self._table.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np  # noqa: PLC0415 -- installed with the extra

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = [text[:TEXT_CHARS_MAX] for text in texts[start : start + BATCH_TEXTS]]
            if len(batch) <= FEW_TEXTS:
                encode = self._tokenizer.encode
                encoded = [encode(text, add_special_tokens=False) for text in batch]
            else:
                encoded = self._tokenizer.encode_batch(batch, add_special_tokens=False)
            for number, entry in enumerate(encoded, start):
                if entry.ids:
                    rows[number] = self._table[entry.ids].mean(axis=0)
        return Vectors(embedder=NAME, rows=_of_length_one(rows))

    def embed_words(self, weights: Mapping[str, float]) -> Vectors:
        import numpy as np  # noqa: PLC0415 -- installed with the extra

        row = np.zeros((1, self.dimension), dtype=np.float32)
        for word, weight in weights.items():
            ids = self._tokenizer.encode(word, add_special_tokens=False).ids
            row[0] += np.float32(weight) * self._table[ids].sum(axis=0)
        return Vectors(embedder=NAME, rows=_of_length_one(row))


def _of_length_one(rows: NDArray[float32]) -> NDArray[float32]:
    """Divide each row by its length, unless it is zero."""
    import numpy as np  # noqa: PLC0415 -- installed with the extra

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, np.float32(1))
    return rows


@cache
def _loaded(folder: Path) -> tuple[NDArray[float32], Tokenizer]:
    """Read the table and the vocabulary, which takes a third of a second; neither is changed."""
    from numpy import float32  # noqa: PLC0415 -- only with the extra
    from safetensors.numpy import load_file  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    table = load_file(folder / _WEIGHTS)["embedding.weight"].astype(float32)
    return table, Tokenizer.from_file(str(folder / _VOCABULARY))


def _package_folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ExtraMissing(extra=EXTRA)
    return Path(spec.submodule_search_locations[0])
