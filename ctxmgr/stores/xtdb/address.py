"""Parse the URL of an XTDB store into nodes and credentials. Pure.

    xtdb+http://host:3000                      one node
    xtdb+https://a:3000,b:3000/behind/proxy    several nodes of one database, under a path
    xtdb+http://user:password@host             Authorization: Basic
    xtdb+http://token@host                     Authorization: Bearer
    xtdb+http://host?timeout=30                seconds that a call may take

Credentials are used only for the header; displayed URLs never contain them.
"""

import base64
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import Incorrect

NODES_MAX: Final = 16
"""Nodes of one database; each holds a complete copy."""

TIMEOUT_S_MAX: Final = 3_600.0
"""Longer than anyone waits for a call; larger numbers are mistakes, such as milliseconds."""

_SCHEMES: Final = {"xtdb+http": 3000, "xtdb+https": 443}
_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class XtdbAddress:
    """The nodes of one database, in the order in which they are tried."""

    nodes: tuple[str, ...]
    """``http://host:port/_xtdb/``, one each."""
    shown: str
    """The store's URL without credentials."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header."""
    timeout_s: float | None = None
    """The time of a call; None: not given."""


def read_address(url: str, *, token: str | None = None) -> XtdbAddress:
    """Parse a store's URL. Raises ``Incorrect`` if it is invalid."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise Incorrect(f"invalid XTDB store {redact_url(url)!r}: use xtdb+http://host:port")
    rest, question, query = rest.partition("?")
    names = [name.removeprefix(f"{scheme}://") for name in rest.split(",")]
    if len(names) > NODES_MAX:
        raise Incorrect(f"{len(names)} nodes in one URL (at most {NODES_MAX})")
    hosts = [_split(f"{scheme}://{name}", default_port=_SCHEMES[scheme]) for name in names]
    path = hosts[-1].path.rstrip("/")
    if any(host.path.rstrip("/") not in ("", path) for host in hosts):
        raise Incorrect(f"the nodes of {_display_url(scheme, hosts, path)} have different paths")
    bases = (f"{scheme.removeprefix('xtdb+')}://{_host_port(host)}{path}/_xtdb/" for host in hosts)
    return XtdbAddress(
        nodes=tuple(dict.fromkeys(bases)),
        shown=_display_url(scheme, hosts, path),
        authorization=_authorization(hosts, token),
        timeout_s=_timeout(query) if question else None,
    )


def check_timeout(timeout_s: float) -> None:
    """Raise ``Incorrect`` unless a call may take this long."""
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise Incorrect(
            f"the timeout must be more than 0 and at most {TIMEOUT_S_MAX:g} seconds, "
            f"not {timeout_s!r:.40}"
        )


def _timeout(query: str) -> float:
    name, _, value = query.partition("=")
    try:
        timeout_s = float(value) if name == "timeout" else None
    except ValueError:
        timeout_s = None
    if timeout_s is None:
        # Not shown: what stands there may be a password.
        raise Incorrect("the URL of an XTDB store takes only a timeout, such as ?timeout=30")
    check_timeout(timeout_s)
    return timeout_s


def _split(url: str, *, default_port: int) -> SplitResult:
    where = redact_url(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # the cause may quote a password
        raise Incorrect(f"invalid URL {where!r}: check the host and the port") from None
    if not host:
        raise Incorrect(f"{where!r} has no host")
    if port is not None and not 0 < port <= _PORT_MAX:
        raise Incorrect(f"{where!r}: invalid port {port}")
    if parts.fragment:
        raise Incorrect(f"{where!r}: the URL of an XTDB store cannot have a fragment")
    if port is None:
        parts = parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{default_port}")
    return parts


def _host_port(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _display_url(scheme: str, hosts: list[SplitResult], path: str) -> str:
    return f"{scheme}://{','.join(map(_host_port, hosts))}{path}"


def _authorization(hosts: list[SplitResult], token: str | None) -> str | None:
    in_url = {host.netloc.rpartition("@")[0] for host in hosts if "@" in host.netloc}
    if len(in_url) + (token is not None) > 1:
        raise Incorrect("several credentials for one database: give one, in the URL or as a token")
    secret = in_url.pop() if in_url else token
    if secret is None:
        return None
    if token is None and ":" in secret:
        user, _, password = secret.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    bearer = secret if token is not None else unquote(secret)
    if not bearer or not bearer.isascii() or not bearer.isprintable() or " " in bearer:
        raise Incorrect("invalid token: it must be printable ASCII without spaces")
    return f"Bearer {bearer}"
