"""Counting tokens: by text, by version, by section; each text once. Pure.

A count is kept under the SHA-256 of its text, which is also a version's ``content_hash``, so that
neither a version that comes back nor the same text elsewhere is counted again. A short text is its
own key: hashing it would cost as much as counting it.

Parts counted one by one may differ from their joined text by a token or so at each joint.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from ctxmgr.core.generations import Generations
from ctxmgr.core.vocabularies import CL100K, Vocabulary, named_vocabulary

MESSAGE_TOKENS: Final = 4
"""What the framing of one message costs, over its text."""

COUNTS_MAX: Final = 65_536
"""Counts that are kept at least; with their keys some 10 MB."""

KEY_CHARS_MAX: Final = 64
"""A longer text is kept by its hash."""

_Key: TypeAlias = str | bytes


class Counted(Protocol):
    """A version with text, sealed by its hash."""

    @property
    def content(self) -> str | None: ...
    @property
    def content_hash(self) -> str | None: ...


class Piece(Protocol):
    """A piece of a prompt, as ``assembly.Block`` is one."""

    @property
    def section(self) -> str: ...
    @property
    def object_id(self) -> str | None: ...
    @property
    def text(self) -> str: ...


class TokenCounter:
    """Counts by one vocabulary and remembers."""

    __slots__ = ("_counts", "vocabulary")

    def __init__(
        self, vocabulary: Vocabulary | None = None, *, counts_max: int = COUNTS_MAX
    ) -> None:
        self.vocabulary = vocabulary or named_vocabulary(CL100K)
        self._counts: Generations[_Key, int] = Generations(counts_max)

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        if len(text) <= KEY_CHARS_MAX:
            return self._counted(text, text)
        data = text.encode(errors="surrogatepass")
        return self._counted(hashlib.sha256(data).digest(), text)

    def count_version(self, version: Counted) -> int:
        """Return the tokens of a version's content; a version without text has none."""
        if version.content is None or version.content_hash is None:
            return 0
        if len(version.content) <= KEY_CHARS_MAX:
            return self._counted(version.content, version.content)
        return self._counted(bytes.fromhex(version.content_hash), version.content)

    def count_blocks(self, blocks: Iterable[Piece]) -> dict[str | None, int]:
        """Return the tokens of each object in a prompt; None: what belongs to no object."""
        counts: dict[str | None, int] = {}
        for block in blocks:
            counts[block.object_id] = counts.get(block.object_id, 0) + self.count(block.text)
        return counts

    def count_sections(self, blocks: Iterable[Piece]) -> dict[str, int]:
        """Return the tokens of each section that has any, in the order of the prompt."""
        counts: dict[str, int] = {}
        for block in blocks:
            counts[block.section] = counts.get(block.section, 0) + self.count(block.text)
        return counts

    def _counted(self, key: _Key, text: str) -> int:
        known = self._counts.get(key)
        if known is None:
            known = self.vocabulary.count(text)
            self._counts.keep(key, known)
        return known
