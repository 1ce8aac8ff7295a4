"""Interpret the replies of XTDB nodes: values and errors. Pure.

    200 202   complete EDN                    the value
    200       truncated or empty              ReplyLost: a query that fails while streaming
    200       HTML, JSON …                    Unavailable: another kind of server
    400       out of sync                     NodeBehind;  otherwise: Incorrect
    401 403   text                            Denied
    404       EDN: None, not found;           without EDN: Unavailable, another kind of server
    413 414   too large                       Incorrect
    500       a wait timed out                NodeBehind;  otherwise: Unavailable
    429 502 503 504                           ReplyLost: a proxy, or a server shutting down

For a submission, only 400, 401, 403, 413 and 414 mean that nothing was written. Any other failure
is ``ReplyLost``: the transaction may be in the log.

Error replies echo the request, content included, so messages quote only their beginning.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Corrupt, CtxmgrError, Denied, Incorrect, Unavailable
from ctxmgr.stores.edn.reader import loads
from ctxmgr.stores.edn.values import EdnError, EdnTruncated, Keyword

MESSAGE_CHARACTERS: Final = 200
"""Characters of a reply that are quoted in an error message."""

ERROR_BYTES_MAX: Final = 64 * 1024
"""Bytes of an error reply that are read; a coercion error echoes the whole request."""

OK: Final = (200, 202)
_NOT_THERE: Final = 404
_REFUSALS: Final = (400, 401, 403, 413, 414)
_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")
_OUT_OF_SYNC: Final = "node-out-of-sync"
_WAIT_RAN_OUT: Final = "java.util.concurrent.TimeoutException"


class NotSent(Unavailable):
    """No connection was made, so the request was not sent."""


class ReplyLost(Unavailable):
    """The request was sent, but no complete reply arrived."""


class NodeBehind(Unavailable):
    """The node has not indexed the requested transaction yet."""


class DatabaseReplaced(Unavailable):
    """The database is not the one this store has used, or an older copy of it."""


class StoredBefore(Unavailable):
    """The transaction puts single versions again that are stored already, with equal documents."""

    def __init__(self, matches: dict[str, str]) -> None:
        super().__init__(f"{', '.join(matches)}: stored by another client meanwhile; retry")
        self.matches = matches
        """The match that holds for each, by its id."""


@contextmanager
def public_errors() -> Iterator[None]:
    """Turn errors internal to this store into ``Unavailable``."""
    try:
        yield
    except (NotSent, ReplyLost, NodeBehind, DatabaseReplaced, StoredBefore) as error:
        raise Unavailable(str(error)) from error


def value_of(status: int, content_type: str, body: bytes, *, node: str) -> Any:
    """Return the value of a reply, or None if nothing was found; raise the error it reports."""
    edn = content_type.startswith("application/edn")
    if status in OK:
        if not edn and body:
            raise _other_server(node, status, body)
        return read_value(body, node=node)
    if status == _NOT_THERE and edn:
        return None
    raise meaning(status, body, edn=edn, node=node)


def landing_of(status: int, content_type: str, body: bytes, *, node: str) -> tuple[int, Instant]:
    """Return where a submission was logged; raise ``ReplyLost`` if it may have been logged."""
    try:
        reply = value_of(status, content_type, body, node=node)
        with readable(node):
            return int(reply[_TX_ID]), reply[_TX_TIME].ms
    except CtxmgrError as error:
        if status in _REFUSALS:
            raise
        raise ReplyLost(str(error)) from error


def read_value(body: bytes, *, node: str) -> Any:
    """Decode a body. Raises ``ReplyLost`` if it is truncated, ``Corrupt`` if it is not EDN."""
    with readable(node):
        return loads(body)


@contextmanager
def readable(node: str) -> Iterator[None]:
    """Translate the errors of reading this node's reply, including unexpected shapes."""
    try:
        yield
    except EdnTruncated as error:
        raise ReplyLost(
            f"{node} sent a truncated reply, as XTDB does when a query fails ({error}); see its log"
        ) from error
    except EdnError as error:
        raise Corrupt(f"{node} sent malformed EDN: {error!s:.{MESSAGE_CHARACTERS}}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{node} sent an unexpected reply: {error!r:.100}") from error


def meaning(status: int, body: bytes, *, edn: bool, node: str) -> CtxmgrError:
    """Return the error that an unsuccessful status means."""
    quoted = body[: MESSAGE_CHARACTERS * 4].decode("utf-8", "replace")[:MESSAGE_CHARACTERS].strip()
    match status:
        case 401 | 403:
            return Denied(f"{node} refused ({status}): {quoted or 'no reason given'}")
        case 413 | 414:
            return Incorrect(
                f"{node} refused the size of the request ({status}): send less at once"
            )
        case 429 | 502 | 503 | 504:
            return ReplyLost(f"{node} is not available ({status}): {quoted}")
        case 400:
            return _refused(_error_map(body) if edn else {}, quoted, node)
        case 500:
            return _failed(_error_map(body) if edn else {}, quoted, node)
    return _other_server(node, status, body)


def _refused(error: dict[str, Any], quoted: str, node: str) -> CtxmgrError:
    kind = error.get("xtdb.error/error-type")
    if isinstance(kind, Keyword) and kind.name == _OUT_OF_SYNC:
        return NodeBehind(f"{node} is behind: {error.get('xtdb.error/message', quoted)}")
    message = error.get("xtdb.error/message", quoted)
    return Incorrect(f"{node} refused the request: {message!s:.400}")


def _failed(error: dict[str, Any], quoted: str, node: str) -> CtxmgrError:
    name = error.get("class")
    if name == _WAIT_RAN_OUT:
        return NodeBehind(f"{node} did not index the transaction in time")
    return Unavailable(f"{node} failed: {name or quoted or 'see its log'}")


def _error_map(edn: bytes) -> dict[str, Any]:
    try:
        error = loads(edn)
    except EdnError:
        return {}
    if not isinstance(error, dict):
        return {}
    return {key.name: value for key, value in error.items() if isinstance(key, Keyword)}


def _other_server(node: str, status: int, body: bytes) -> Unavailable:
    beginning = body[:40].decode("utf-8", "replace")
    return Unavailable(
        f"{node} does not implement the XTDB 1 API: it replied {status} with {beginning!r}; "
        "check the address"
    )
