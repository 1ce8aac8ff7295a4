"""Headers that pass through a proxy, and those that do not. Pure.

hop-by-hop     concern one connection: removed in both directions (RFC 9110, 7.6.1)
credentials    forwarded, and left out of everything else
all others     forwarded in their order, as they came
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Names in lower case and values, as they came."""

PROXY_HEADER: Final = "x-ctxmgr-proxy"
"""In responses: whether the request was shaped, and the reason if it was not."""

TOKEN_HEADER: Final = "x-ctxmgr-token"  # noqa: S105 (a name)
"""In requests: the token of the proxy, for clients whose base URL others can see."""

REASON_LENGTH_MAX: Final = 200
"""Characters of a reason in ``PROXY_HEADER`` and in the status."""

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OWN: Final = frozenset(
    {b"host", b"content-length", b"expect", b"accept-encoding", TOKEN_HEADER.encode()}
)
"""Headers that the proxy sets for its own request, or that are meant for itself."""

_CREDENTIAL: Final = re.compile(
    "auth|api-?key|cookie|token|secret|password|credential|signature", re.IGNORECASE
)
_NOT_PRINTABLE: Final = re.compile(r"[^ !#-\[\]-~]")


def forwarded_headers(
    headers: RawHeaders,
    *,
    codings: Iterable[str],
    added: Mapping[str, str],
    decoded: bool,
) -> list[tuple[bytes, bytes]]:
    """Return the headers of the request to the provider.

    ``codings`` are the content codings that the proxy can read in the answer. ``added`` values are
    appended to those that the client sent. ``decoded`` says that the body is no longer compressed.
    """
    dropped = _HOP_BY_HOP | _OWN | _named_by_connection(headers)
    if decoded:
        dropped |= {b"content-encoding"}
    kept = [(name, value) for name, value in headers if name not in dropped]
    accepted = _accepted(headers, codings)
    if accepted is not None:
        kept.append((b"accept-encoding", accepted))
    for name, value in added.items():
        kept = _with_value(kept, name.encode("ascii"), value.encode("latin-1"))
    return kept


def returned_headers(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Return the headers of the provider's response as the client gets them."""
    dropped = _HOP_BY_HOP | _named_by_connection(headers)
    return [(name.lower(), value) for name, value in headers if name.lower() not in dropped]


def without_credentials(headers: RawHeaders) -> dict[str, str]:
    """Return headers by name; those that may be credentials are left out."""
    readable = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    return {name: value for name, value in readable if not _CREDENTIAL.search(name)}


def header_text(text: str) -> str:
    """Return a text as the value of a quoted header parameter: one line of printable ASCII."""
    return _NOT_PRINTABLE.sub("?", " ".join(text.split()))[:REASON_LENGTH_MAX]


def _named_by_connection(headers: RawHeaders) -> frozenset[bytes]:
    return frozenset(
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    )


def _accepted(headers: RawHeaders, codings: Iterable[str]) -> bytes | None:
    """Return the part of the client's ``accept-encoding`` that the proxy can read."""
    readable = {*codings, "identity"}
    given = [value.decode("latin-1") for name, value in headers if name == b"accept-encoding"]
    if not given:
        return None
    words = [word.strip() for word in ",".join(given).split(",")]
    kept = [word for word in words if word.partition(";")[0].strip().lower() in readable]
    return ", ".join(kept or ["identity"]).encode("latin-1")


def _with_value(
    headers: list[tuple[bytes, bytes]], name: bytes, value: bytes
) -> list[tuple[bytes, bytes]]:
    for position, (known, present) in enumerate(headers):
        if known == name:
            return [*headers[:position], (name, present + b"," + value), *headers[position + 1 :]]
    return [*headers, (name, value)]
