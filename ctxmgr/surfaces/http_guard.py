"""Who is let in: every request passes here before anything else looks at it. An ASGI layer.

    Host      on loopback it must name this machine: a web page whose name was made to point here
              (DNS rebinding) would be let in otherwise
    Origin    a page of another site may not ask, and there is no CORS that would allow it
    token     beyond loopback, or where it is required; one that is shown is always checked
    rate      of each session's token, and otherwise of each address

Files of the inspector and the description of the API hold no data and need no token.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from math import ceil
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ctxmgr.errors import CtxmgrError, Denied
from ctxmgr.surfaces.access_tokens import EVERYTHING, Grant, Keys
from ctxmgr.surfaces.http_answers import Refused, error_answer
from ctxmgr.surfaces.rates import Rates

GRANT: Final = "ctxmgr.grant"
"""Where a request's scope holds its ``Grant``."""

_CHALLENGE: Final = {"www-authenticate": "Bearer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a server is guarded."""

    loopback: bool
    """It listens on loopback only."""
    keys: Keys | None
    """None: no token was ever made, so none is right."""
    token_required: bool
    guarded: Collection[str]
    """Paths that give or take data."""
    rate_per_second: int


class Guard:
    def __init__(self, app: ASGIApp, *, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._rates = Rates(per_second=rules.rate_per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            scope[GRANT] = self._admit(scope)
        except (Refused, CtxmgrError) as error:
            return await error_answer(error)(scope, receive, send)
        return await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Grant:
        headers = Headers(scope=scope)
        address = scope["client"][0] if scope["client"] else ""
        host = headers.get("host", "")
        if self._rules.loopback and not names_loopback(host):
            raise Refused(421, f"this server is not {host or 'without a name'}: ask 127.0.0.1")
        _check_origin(headers.get("origin"), host)
        try:
            grant = self._grant(headers, scope["path"])
        except Refused:
            self._slow_down(address)
            raise
        self._slow_down(address if grant.session_id is None else f"session {grant.session_id}")
        return grant

    def _grant(self, headers: Headers, path: str) -> Grant:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if token and scheme.lower() == "bearer":
            return self._shown(token.strip())
        if self._rules.token_required and path in self._rules.guarded:
            raise Refused(401, "a token is needed: Authorization: Bearer …", headers=_CHALLENGE)
        return EVERYTHING

    def _shown(self, token: str) -> Grant:
        if self._rules.keys is None:
            raise Refused(401, "this server has no tokens", headers=_CHALLENGE)
        try:
            return self._rules.keys.read(token, now=time.time())
        except Denied as error:
            raise Refused(401, str(error), headers=_CHALLENGE) from error

    def _slow_down(self, client: str) -> None:
        seconds = self._rates.wait(client, now=time.monotonic())
        if seconds:
            limit = self._rules.rate_per_second
            raise Refused(
                429,
                f"more than {limit} requests a second; wait",
                headers={"retry-after": str(ceil(seconds))},
            )


def names_loopback(host: str) -> bool:
    """Tell whether a Host header, or an address to listen on, means this machine only."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_loopback(name)


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _check_origin(origin: str | None, host: str) -> None:
    """A browser names the page that asks; ours has the server's own address."""
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        raise Refused(421, f"pages of {origin!r:.80} may not ask this server")
