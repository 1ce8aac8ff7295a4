"""What a request must be before a proxy reads it: from this machine, from no web page. No I/O.

    Host     names loopback, against DNS rebinding
    Origin   absent: programs do not send it, pages of any site do
    token    a header, or else the first segment of the path, if the proxy was started with one

Every path needs the token, also one that nothing matches.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from ctxmgr.proxy.server.headers import TOKEN_HEADER

_HOST: Final = re.compile(
    r"(?:(?P<four>[0-9.]{1,15})|(?P<name>localhost)|\[(?P<six>[0-9A-Fa-f:.]{1,45})\])(?::[0-9]{1,5})?"
)
_DOTS: Final = re.compile(
    r"(?:[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:;|[/\\]|%2f|%5c|%3b|$)", re.IGNORECASE
)
"""A segment that some servers take for the folder above."""


class RequestRefused(Exception):  # noqa: N818 (named for what happened)
    """The proxy does not forward the request."""

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class ProxyGuard:
    """Checks requests."""

    token: str | None = None

    def admitted_path(self, path: str, headers: Mapping[str, str]) -> str:
        """Return the path without the token; ``RequestRefused`` if the request may not pass."""
        host = headers.get("host", "")
        if not _names_loopback(host):
            raise RequestRefused(421, f"wrong host {host!r:.80}: use 127.0.0.1")
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            raise RequestRefused(421, "web pages may not use this proxy")
        if not path.startswith("/") or _DOTS.search(path):
            raise RequestRefused(400, f"invalid path {path!r:.80}")
        if self.token is None:
            return path
        given, _, rest = path[1:].partition("/")
        if TOKEN_HEADER in headers:
            given, rest = headers[TOKEN_HEADER], path[1:]
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise RequestRefused(401, "this proxy requires its token: use the URL that it printed")
        return f"/{rest}"


def _names_loopback(host: str) -> bool:
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    if match["name"]:
        return True
    try:
        return ip_address(match["four"] or match["six"]).is_loopback
    except ValueError:
        return False
