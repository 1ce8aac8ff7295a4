"""Check every request before any endpoint: host, origin, token, rate. An ASGI middleware.

    Host      on loopback it must name this machine, against DNS rebinding
    Origin    pages of other sites are rejected; there is no CORS
    token     required on other addresses, or if configured; one that is sent is always checked;
              the audit log needs a reviewer's, which opens nothing else
    rate      per session token, otherwise per address: a token bucket for each

The inspector's files and the API's description hold no data and need no token.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import ip_address
from math import ceil
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctxmgr.errors import CtxmgrError, Denied
from ctxmgr.surfaces.access_tokens import EVERYTHING, Grant, Keys
from ctxmgr.surfaces.http.answers import HttpRefusal, error_response

CLIENTS_MAX: Final = 10_000
"""Buckets kept; beyond that, the least recently used are dropped and start full again."""

BURST_SECONDS: Final = 2
"""A burst may have as many requests as this many seconds allow."""


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


class Rates:
    """Token buckets by client. ``now`` is in seconds of any monotonic clock."""

    def __init__(self, *, per_second: int) -> None:
        self._per_second = per_second
        self._burst = float(per_second * BURST_SECONDS)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, client: str, *, now: float) -> float:
        """Count a request; return 0 if it is allowed, otherwise the seconds to wait."""
        bucket = self._buckets.setdefault(client, _Bucket(self._burst, now))
        self._buckets.move_to_end(client)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        gained = (now - bucket.filled) * self._per_second
        bucket.left = min(self._burst, bucket.left + gained)
        bucket.filled = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_second
        bucket.left -= 1
        return 0.0


HOOKS_PATH: Final = "/hooks/"
"""The beginning of the paths that webhooks are delivered to, and that their tokens are for."""

GRANT: Final = "ctxmgr.grant"
"""The key of the ``Grant`` in a request's scope; None there: only public paths are allowed."""

_CHALLENGE: Final = {"www-authenticate": "Bearer"}

_EVERY_RESPONSE: Final = {
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """The configuration of a ``RequestGuard``."""

    loopback: bool
    """It listens on loopback only."""
    keys: Callable[[], Keys | None]
    """Returns None if no token has been created, so none is valid."""
    token_required: bool
    public: Collection[str]
    """Paths without data. Every other path needs a grant, even one that no router matches."""
    reviewed: Collection[str]
    """Paths of the audit log, for a reviewer's token and no other."""
    rate_per_second: int


class RequestGuard:
    def __init__(self, app: ASGIApp, *, rules: GuardRules) -> None:
        self._app = app
        self._rules = rules
        self._rates = Rates(per_second=rules.rate_per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        send = _with_headers(send)
        try:
            scope[GRANT] = self._admit(scope)
        except (HttpRefusal, CtxmgrError) as error:
            return await error_response(error)(scope, receive, send)
        return await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Grant | None:
        headers = Headers(scope=scope)
        address = scope["client"][0] if scope["client"] else ""
        host = headers.get("host", "")
        if self._rules.loopback and not names_loopback(host):
            raise HttpRefusal(421, f"wrong host {host!r:.80}: use 127.0.0.1")
        public = scope["path"] in self._rules.public
        _check_origin(headers.get("origin"), host)
        _check_fetch_site(headers, public=public)
        try:
            grant = self._grant(headers, path=scope["path"])
        except HttpRefusal:
            self._check_rate(address)
            raise
        if grant is not None and grant.webhook and not scope["path"].startswith(HOOKS_PATH):
            raise HttpRefusal(401, "this token is for webhooks only", headers=_CHALLENGE)
        session_id = None if grant is None else grant.session_id
        self._check_rate(address if session_id is None else f"session {session_id}")
        return grant

    def _grant(self, headers: Headers, *, path: str) -> Grant | None:
        reviewed = path in self._rules.reviewed
        token = bearer_token(headers)
        if token is not None:
            return self._grant_of(token, reviewed=reviewed)
        if reviewed:
            raise _reviewer_required()
        if not self._rules.token_required:
            return EVERYTHING
        if path in self._rules.public:
            return None
        raise _token_required()

    def _grant_of(self, token: str, *, reviewed: bool) -> Grant:
        keys = self._rules.keys()
        if keys is None:
            raise HttpRefusal(401, "this server has issued no tokens", headers=_CHALLENGE)
        try:
            grant = keys.read(token, now=time.time())
        except Denied as error:
            raise HttpRefusal(401, str(error), headers=_CHALLENGE) from error
        if grant.reviewer is not None and not reviewed:
            raise HttpRefusal(401, "this token is for the audit log only", headers=_CHALLENGE)
        if grant.reviewer is None and reviewed:
            raise _reviewer_required()
        return grant

    def _check_rate(self, client: str) -> None:
        seconds = self._rates.wait(client, now=time.monotonic())
        if seconds:
            limit = self._rules.rate_per_second
            raise HttpRefusal(
                429,
                f"more than {limit} requests per second: wait",
                headers={"retry-after": str(ceil(seconds))},
            )


def bearer_token(headers: Headers) -> str | None:
    """Return the token that a request brings."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if token and scheme.lower() == "bearer" else None


def require_grant(scope: Scope) -> Grant:
    """Return the grant of a request. Endpoints with data check it again here."""
    grant: Grant | None = scope.get(GRANT)
    if grant is None:
        raise _token_required()
    if grant.reviewer is not None:
        raise HttpRefusal(401, "this token is for the audit log only", headers=_CHALLENGE)
    return grant


def require_reviewer(scope: Scope) -> str:
    """Return the token of a request to the audit log. Its endpoints check it again here."""
    grant: Grant | None = scope.get(GRANT)
    token = bearer_token(Headers(scope=scope))
    if grant is None or grant.reviewer is None or token is None:
        raise _reviewer_required()
    return token


def names_loopback(host: str) -> bool:
    """Return whether a Host header, or an address to listen on, is this machine's loopback."""
    match = _HOST.fullmatch(host)
    return match is not None and (
        match["name"] == "localhost" or _is_loopback(match["address"] or match["six"])
    )


_HOST: Final = re.compile(
    r"(?P<name>(?P<address>[0-9.]{1,15})|localhost|\[(?P<six>[0-9A-Fa-f:.]{1,45})\])(?::[0-9]{1,5})?"
)
"""A host and a port, and nothing else that a lenient parser would skip."""


def _is_loopback(name: str | None) -> bool:
    try:
        return name is not None and ip_address(name).is_loopback
    except ValueError:
        return False


def _check_origin(origin: str | None, host: str) -> None:
    """Reject requests from pages of other sites; the inspector's origin is the server itself."""
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        raise HttpRefusal(421, f"pages of {origin!r:.80} may not use this server")


def _token_required() -> HttpRefusal:
    return HttpRefusal(401, "a token is required: Authorization: Bearer …", headers=_CHALLENGE)


def _reviewer_required() -> HttpRefusal:
    return HttpRefusal(
        401,
        "the audit log needs a reviewer's token: create one with `ctxmgr token --reviewer NAME`",
        headers=_CHALLENGE,
    )


def _check_fetch_site(headers: Headers, *, public: bool) -> None:
    """Reject what another site's page loads without an Origin header, such as an image.

    Another port of this machine counts as another site. A link to the inspector may be followed.
    """
    if headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
        return
    if public and headers.get("sec-fetch-mode") == "navigate":
        return
    raise HttpRefusal(421, "pages of other sites may not use this server")


def _with_headers(send: Send) -> Send:
    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_EVERY_RESPONSE)
        await send(message)

    return send_guarded
