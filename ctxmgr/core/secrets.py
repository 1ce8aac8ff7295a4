"""What must not be shown: secrets are found and masked in what is rendered. Pure.

    export GITHUB_TOKEN=[secret:github-token:5f1c09]

A placeholder keeps what kind it was and a short fingerprint, so that the agent can tell two secrets
apart and sees that one has changed. It is the same wherever the secret stands, and masking what is
masked already changes nothing. Stored content is not touched, unless the policy says drop.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ctxmgr.core.generations import Generations
from ctxmgr.core.secret_forms import Span, formed_spans
from ctxmgr.core.secret_values import named_spans

FINGERPRINT_DIGITS: Final = 6
MASKED_MAX: Final = 4_096
"""Texts whose masking a ``Masker`` remembers at least."""


class Secrets(StrEnum):
    """What a policy does with secrets."""

    MASK = "mask"
    """Rendered masked, stored as they are. The default of every policy."""
    DROP = "drop"
    """Masked before they are stored, too; ``file_hash`` stays that of the file's bytes."""
    SHOW = "show"
    """Rendered as they are."""


@dataclass(frozen=True, slots=True)
class Found:
    """One secret in a text."""

    kind: str
    fingerprint: str
    start: int
    """In the text as it was."""
    end: int

    @property
    def placeholder(self) -> str:
        return f"[secret:{self.kind}:{self.fingerprint}]"


@dataclass(frozen=True, slots=True)
class Masked:
    """A text that may be shown."""

    text: str = field(repr=False)
    found: tuple[Found, ...] = ()


def mask(text: str, *, key: bytes = b"") -> Masked:
    """Replace every secret by its placeholder. Takes time in proportion to the text.

    ``key`` (at most 64 bytes) makes fingerprints that nobody without it can compute from a guess.
    """
    spans = _joined(sorted((*formed_spans(text), *named_spans(text))))
    found = tuple(_found(text, span, key) for span in spans)
    return Masked("".join(_pieces(text, found)) if found else text, found)


class Masker:
    """Masks by a policy and remembers what a text became."""

    __slots__ = ("_key", "_known", "policy")

    def __init__(self, policy: Secrets = Secrets.MASK, *, key: bytes = b"") -> None:
        self.policy = policy
        self._key = key
        self._known: Generations[bytes, Masked] = Generations(MASKED_MAX)

    def shown(self, text: str) -> str:
        """Return the text as it is rendered."""
        return text if self.policy is Secrets.SHOW else self.mask(text).text

    def stored(self, text: str) -> str:
        """Return the text as it is stored."""
        return self.mask(text).text if self.policy is Secrets.DROP else text

    def mask(self, text: str) -> Masked:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        known = self._known.get(digest)
        if known is None:
            known = mask(text, key=self._key)
            self._known.keep(digest, known)
        return known


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Join what overlaps, under the kind of the first."""
    current: Span | None = None
    for span in spans:
        if current is None or span.start >= current.end:
            if current is not None:
                yield current
            current = span
        elif span.end > current.end:
            current = replace(current, end=span.end)
    if current is not None:
        yield current


def _found(text: str, span: Span, key: bytes) -> Found:
    secret = text[span.start : span.end].encode(errors="surrogatepass")
    digest = hashlib.blake2b(secret, key=key, person=b"ctxmgr secret").hexdigest()
    return Found(span.kind, digest[:FINGERPRINT_DIGITS], span.start, span.end)


def _pieces(text: str, found: Iterable[Found]) -> Iterator[str]:
    position = 0
    for each in found:
        yield text[position : each.start]
        yield each.placeholder
        position = each.end
    yield text[position:]
