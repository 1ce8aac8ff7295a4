"""Store URLs: from a plain path, and as they are shown, without credentials. Pure.

    agent.db                              ->  sqlite:///agent.db

    xtdb+http://user:password@host:3000   ->  xtdb+http://…@host:3000
    https://host/v1?key=secret            ->  https://host/v1?…

A malformed URL is redacted, too: it is the one that an error message quotes. What cannot be told
from a credential is hidden.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

HIDDEN: Final = "…"

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}:(?=/)/{0,3}")
_FILE_SCHEME: Final = "sqlite:"
_PASSWORD_IN_PATH: Final = re.compile(r"[^/@\s]{0,512}:[^/\s]{0,512}@")
_NO_PORT: Final = re.compile(r":(?!\d{0,5}(?:,|$))[^,\]\[]*(?=,|$)")
"""A colon after a host's name that no port follows: what follows may be a password."""
_URLS: Final = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,63}://[^\s'\"<>`]{1,4096}")


_MEMORY: Final = ":memory:"
_NO_PATH: Final = re.compile(r"[^/]*:|[^@]*:[^@]*@")
"""How an address or a mistyped URL begins, which may contain a password: with a colon."""


def store_url(url_or_path: str) -> str:
    """Return the URL of a store; a path becomes the URL of an SQLite file."""
    if url_or_path == _MEMORY:
        return f"sqlite://{_MEMORY}"
    if not url_or_path or _NO_PATH.match(url_or_path):
        return url_or_path
    return f"sqlite:///{quote(url_or_path)}"


def shown_store(url: str) -> str:
    """Return how a store is named to a person: an SQLite file by its path."""
    return unquote(redact_url(url).removeprefix("sqlite:///"))


def redact_url(url: str) -> str:
    """Return a URL without credentials and without its query, whether or not it is well-formed."""
    scheme = _SCHEME.match(url)
    start, rest = ("", url) if scheme is None else (scheme[0], url[scheme.end() :])
    address, mark, _ = _partition(rest)
    if start.startswith(_FILE_SCHEME):
        address = _PASSWORD_IN_PATH.sub(f"{HIDDEN}@", address)
    elif "@" in address:
        host, slash, path = address.rpartition("@")[2].partition("/")
        address = f"{HIDDEN}@{_NO_PORT.sub(f':{HIDDEN}', host)}{slash}{path}"
    elif scheme is not None:
        hosts, slash, path = address.partition("/")
        address = f"{_NO_PORT.sub(f':{HIDDEN}', hosts)}{slash}{path}"
    return f"{start}{address}{mark + HIDDEN if mark else ''}"


def redact_urls(text: str) -> str:
    """Return a text in which every URL is shown as ``redact_url`` shows it."""
    return _URLS.sub(lambda match: redact_url(match[0]), text) if "://" in text else text


def _partition(text: str) -> tuple[str, str, str]:
    """Split at a query or fragment; one that contains an @ may be a part of a password."""
    for mark in ("?", "#"):
        before, found, after = text.partition(mark)
        if found and "@" not in after:
            return before, found, after
    return text, "", ""
