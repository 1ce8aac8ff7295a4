"""Where an XTDB is and what opens it: the URL of a store, taken apart. Pure.

    xtdb+http://host:3000                      one node
    xtdb+https://a:3000,b:3000/behind/proxy    several nodes of one database, under a path
    xtdb+http://user:password@host             Authorization: Basic
    xtdb+http://token@host                     Authorization: Bearer

Credentials are for the header alone: nothing that is shown ever holds them.
"""

import base64
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from ctxmgr.errors import Incorrect

NODES_MAX: Final = 16
"""Nodes of one database; every one holds it whole, so more would only be more copies."""

_SCHEMES: Final = {"xtdb+http": 3000, "xtdb+https": 443}
_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The nodes of one database, in the order in which they are tried."""

    nodes: tuple[str, ...]
    """``http://host:port/_xtdb/``, one each."""
    shown: str
    """The store's URL without credentials."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header."""


def read_address(url: str, *, token: str | None = None) -> Address:
    """Take a store's URL apart. Raises ``Incorrect`` saying what is wrong with it."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise Incorrect(f"an XTDB store is xtdb+http://host:port, not {_without_secret(url)!r}")
    places = [each.removeprefix(f"{scheme}://") for each in rest.split(",")]
    if len(places) > NODES_MAX:
        raise Incorrect(f"{len(places)} nodes in one URL; {NODES_MAX} at most")
    hosts = [_split(f"{scheme}://{each}", default_port=_SCHEMES[scheme]) for each in places]
    path = hosts[-1].path.rstrip("/")
    if any(each.path.rstrip("/") not in ("", path) for each in hosts):
        raise Incorrect(f"the nodes of {_shown(scheme, hosts, path)} have different paths")
    bases = (f"{scheme.removeprefix('xtdb+')}://{_place(each)}{path}/_xtdb/" for each in hosts)
    return Address(
        nodes=tuple(dict.fromkeys(bases)),
        shown=_shown(scheme, hosts, path),
        authorization=_authorization(hosts, token),
    )


def _split(url: str, *, default_port: int) -> SplitResult:
    where = _without_secret(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Incorrect(f"{where!r} is no URL: {error}") from error
    if not host:
        raise Incorrect(f"{where!r} names no host")
    if port is not None and not 0 < port <= _PORT_MAX:
        raise Incorrect(f"{where!r}: {port} is no port")
    if parts.query or parts.fragment:
        raise Incorrect(f"{where!r}: an XTDB store's URL has no query and no fragment")
    if port is None:
        parts = parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{default_port}")
    return parts


def _place(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _shown(scheme: str, hosts: list[SplitResult], path: str) -> str:
    return f"{scheme}://{','.join(map(_place, hosts))}{path}"


def _without_secret(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _authorization(hosts: list[SplitResult], token: str | None) -> str | None:
    given = {each.netloc.rpartition("@")[0] for each in hosts if "@" in each.netloc}
    if len(given) + (token is not None) > 1:
        raise Incorrect("one database, one set of credentials: in the URL or as a token")
    secret = given.pop() if given else token
    if secret is None:
        return None
    if token is None and ":" in secret:
        user, _, password = secret.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    bearer = secret if token is not None else unquote(secret)
    if not bearer or not bearer.isascii() or not bearer.isprintable() or " " in bearer:
        raise Incorrect("a token is printable ASCII without spaces")
    return f"Bearer {bearer}"
