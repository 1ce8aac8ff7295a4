"""What a node's reply means. Pure.

    200 202   EDN, whole                      the value
    200       cut off, or empty               Lost: a query that fails while it is sent ends so
    200       HTML, JSON …                    Unavailable: some other server
    400       out of sync                     Behind;  anything else: Incorrect
    401 403   text                            Denied
    404       EDN: None, nothing there;       without EDN: Unavailable, some other server
    413 414   too large                       Incorrect
    500       a wait that ran out             Behind;  anything else: Unavailable
    429 502 503 504                           Lost: a proxy's, or a server's that is going down

To a submission only a refusal says that nothing was written (400 401 403 413 414). Whatever else is
no landing is Lost: the transaction may stand on the log.

Replies repeat what was sent, content included, so only their beginnings stand in messages.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ctxmgr.core.store import Instant
from ctxmgr.errors import Corrupt, CtxmgrError, Denied, Incorrect, Unavailable
from ctxmgr.stores.edn import EdnError, EdnTruncated, Keyword
from ctxmgr.stores.edn_reader import loads

MESSAGE_CHARACTERS: Final = 200
"""Of a reply in an error's message."""

ERROR_BYTES_MAX: Final = 64 * 1024
"""Of an error reply that is read at all; a coercion error repeats the whole request."""

OK: Final = (200, 202)
_NOT_THERE: Final = 404
_REFUSALS: Final = (400, 401, 403, 413, 414)
_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")
_OUT_OF_SYNC: Final = "node-out-of-sync"
_WAIT_RAN_OUT: Final = "java.util.concurrent.TimeoutException"


class NotSent(Unavailable):
    """No connection: the request did not leave this machine."""


class Lost(Unavailable):
    """The request left, and no whole answer came back."""


class Behind(Unavailable):
    """The node has not got to the transaction that was asked for."""


class Replaced(Unavailable):
    """Another database is there than the one this store knew, or an older copy of it."""


@contextmanager
def told() -> Iterator[None]:
    """Let callers see the errors they know; how far a request got is the store's own affair."""
    try:
        yield
    except (NotSent, Lost, Behind, Replaced) as error:
        raise Unavailable(str(error)) from error


def value_of(status: int, content_type: str, body: bytes, *, node: str) -> Any:
    """Return the value of a reply, or None for what is not there; raise what it means otherwise."""
    edn = content_type.startswith("application/edn")
    if status in OK:
        if not edn and body:
            raise _other_server(node, status, body)
        return read_value(body, node=node)
    if status == _NOT_THERE and edn:
        return None
    raise meaning(status, body, edn=edn, node=node)


def landing_of(status: int, content_type: str, body: bytes, *, node: str) -> tuple[int, Instant]:
    """Return where a submission landed; raise its refusal, or ``Lost`` when it may have landed."""
    try:
        reply = value_of(status, content_type, body, node=node)
        with readable(node):
            return int(reply[_TX_ID]), reply[_TX_TIME].ms
    except CtxmgrError as error:
        if status in _REFUSALS:
            raise
        raise Lost(str(error)) from error


def read_value(body: bytes, *, node: str) -> Any:
    """Decode a whole body. ``Lost`` if it ends too early, ``Corrupt`` if it is no EDN."""
    with readable(node):
        return loads(body)


@contextmanager
def readable(node: str) -> Iterator[None]:
    """Translate what reading a reply of this node raises, an unexpected shape included."""
    try:
        yield
    except EdnTruncated as error:
        raise Lost(
            f"{node} broke its reply off, which is how XTDB ends a query that fails ({error}); "
            "its log says why"
        ) from error
    except EdnError as error:
        raise Corrupt(f"{node} sent malformed EDN: {error!s:.{MESSAGE_CHARACTERS}}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{node} sent something else than was asked for: {error!r:.100}") from error


def meaning(status: int, body: bytes, *, edn: bool, node: str) -> CtxmgrError:
    """Say what a status that is no success means."""
    said = body[: MESSAGE_CHARACTERS * 4].decode("utf-8", "replace")[:MESSAGE_CHARACTERS].strip()
    match status:
        case 401 | 403:
            return Denied(f"{node} refused ({status}): {said or 'no reason given'}")
        case 413 | 414:
            return Incorrect(f"{node} takes no request of this size ({status}): send less at once")
        case 429 | 502 | 503 | 504:
            return Lost(f"{node} is not available ({status}): {said}")
        case 400:
            return _refused(_error_map(body) if edn else {}, said, node)
        case 500:
            return _failed(_error_map(body) if edn else {}, said, node)
    return _other_server(node, status, body)


def _refused(error: dict[str, Any], said: str, node: str) -> CtxmgrError:
    kind = error.get("xtdb.error/error-type")
    if isinstance(kind, Keyword) and kind.name == _OUT_OF_SYNC:
        return Behind(f"{node} has not got so far: {error.get('xtdb.error/message', said)}")
    return Incorrect(f"{node} refused the request: {error.get('xtdb.error/message', said)!s:.400}")


def _failed(error: dict[str, Any], said: str, node: str) -> CtxmgrError:
    name = error.get("class")
    if name == _WAIT_RAN_OUT:
        return Behind(f"{node} did not get to the transaction in time")
    return Unavailable(f"{node} failed: {name or said or 'its log says why'}")


def _error_map(edn: bytes) -> dict[str, Any]:
    try:
        found = loads(edn)
    except EdnError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key.name: value for key, value in found.items() if isinstance(key, Keyword)}


def _other_server(node: str, status: int, body: bytes) -> Unavailable:
    beginning = body[:40].decode("utf-8", "replace")
    return Unavailable(
        f"{node} does not speak XTDB 1's API: it answered {status} with {beginning!r}; "
        "is the address right?"
    )
