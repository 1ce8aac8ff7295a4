"""Find secrets in texts and replace them by placeholders. Pure.

    export GITHUB_TOKEN=[secret:github-token:5f1c09]

A placeholder has the kind of the secret and a short fingerprint, so the agent can distinguish two
secrets and notice that one has changed. It is the same wherever the secret occurs, and masking a
masked text changes nothing. Stored content is masked only with ``Secrets.DROP``.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ctxmgr.core.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from ctxmgr.core.secrets.known_forms import SecretSpan

FINGERPRINT_DIGITS: Final = 6
MASKED_MAX: Final = 4_096
"""Texts whose result a ``Masker`` caches at least."""


class Secrets(StrEnum):
    """How secrets in files and tool outputs are treated under a policy."""

    MASK = "mask"
    """Masked in prompts, stored unchanged. The default."""
    DROP = "drop"
    """Masked in prompts and in the store; ``file_hash`` remains that of the file's bytes."""
    SHOW = "show"
    """Neither masked in prompts nor in the store."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A secret that was found in a text."""

    kind: str
    """What it is, such as ``github-token``."""
    fingerprint: str
    """Six hexadecimal digits that are the same wherever this secret occurs."""
    start: int
    """Its position in the original text."""
    end: int

    @property
    def placeholder(self) -> str:
        """The text that replaces it."""
        return f"[secret:{self.kind}:{self.fingerprint}]"


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A text with its secrets replaced by placeholders."""

    text: str = field(repr=False)
    found: tuple[FoundSecret, ...] = ()
    """The secrets, in the order of the text."""


def mask(text: str, *, key: bytes = b"") -> MaskedText:
    """Replace every secret by a placeholder, in time proportional to the length of the text.

    With a ``key`` (at most 64 bytes), a fingerprint cannot be computed from a guessed secret
    without the key.
    """
    secrets = tuple(_secret(text, span, key) for span in _joined(sorted(_spans(text))))
    return MaskedText("".join(_pieces(text, secrets)) if secrets else text, secrets)


class Masker:
    """Masks texts as a ``Secrets`` policy says, and caches the results."""

    __slots__ = ("_cached", "_key", "policy")

    def __init__(self, policy: Secrets = Secrets.MASK, *, key: bytes = b"") -> None:
        self.policy = policy
        self._key = key
        self._cached: BoundedCache[bytes, MaskedText] = BoundedCache(MASKED_MAX)

    def shown(self, text: str) -> str:
        """Return a text as it is rendered."""
        return text if self.policy is Secrets.SHOW else self.mask(text).text

    def stored(self, text: str) -> str:
        """Return a text as it is stored."""
        return self.mask(text).text if self.policy is Secrets.DROP else text

    def positions(self, text: str) -> tuple[tuple[int, int, str], ...]:
        """Return where the secrets of a text start and end, and what replaces each."""
        return tuple(
            (secret.start, secret.end, secret.placeholder) for secret in self.mask(text).found
        )

    def mask(self, text: str) -> MaskedText:
        """Mask a text, whatever the policy says."""
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        masked = self._cached.get(digest)
        if masked is None:
            masked = mask(text, key=self._key)
            self._cached.keep(digest, masked)
        return masked


_COLOUR: Final = re.compile(r"\x1b\[[0-9;:?]{0,32}[A-Za-z]")
"""Codes that a terminal does not show; programs put them around and inside of what they print."""


def _spans(text: str) -> "list[SecretSpan]":
    """Find the secrets of a text as a terminal shows it; positions are those of the text."""
    if "\x1b[" not in text:
        return _shown_spans(text)
    pieces, starts, removed = [], [], 0
    position = 0
    for code in _COLOUR.finditer(text):
        pieces.append(text[position : code.start()])
        removed += code.end() - code.start()
        position = code.end()
        starts.append((position - removed, removed))
    shown = "".join([*pieces, text[position:]])
    places = [place for place, _ in starts]

    def original(index: int) -> int:
        """Return where a character of the shown text stands."""
        before = bisect_right(places, index)
        return index + (starts[before - 1][1] if before else 0)

    return [
        replace(span, start=original(span.start), end=original(span.end - 1) + 1)
        for span in _shown_spans(shown)
        if span.end > span.start
    ]


def _shown_spans(text: str) -> "list[SecretSpan]":
    """Find the secrets of a text without codes."""
    # Compiling their patterns takes time, which a session that masks nothing does not wait for.
    from ctxmgr.core.secrets.known_forms import formed_spans  # noqa: PLC0415
    from ctxmgr.core.secrets.named_values import named_spans  # noqa: PLC0415
    from ctxmgr.core.secrets.placed_values import placed_spans  # noqa: PLC0415

    return [*formed_spans(text), *named_spans(text), *placed_spans(text)]


def _joined(spans: "Iterable[SecretSpan]") -> "Iterator[SecretSpan]":
    """Join overlapping spans; the first determines the kind."""
    current: SecretSpan | None = None
    for span in spans:
        if current is None or span.start >= current.end:
            if current is not None:
                yield current
            current = span
        elif span.end > current.end:
            current = replace(current, end=span.end)
    if current is not None:
        yield current


def _secret(text: str, span: "SecretSpan", key: bytes) -> FoundSecret:
    value = text[span.start : span.end].encode(errors="surrogatepass")
    digest = hashlib.blake2b(value, key=key, person=b"ctxmgr secret").hexdigest()
    return FoundSecret(span.kind, digest[:FINGERPRINT_DIGITS], span.start, span.end)


def _pieces(text: str, secrets: Iterable[FoundSecret]) -> Iterator[str]:
    position = 0
    for secret in secrets:
        yield text[position : secret.start]
        yield secret.placeholder
        position = secret.end
    yield text[position:]
