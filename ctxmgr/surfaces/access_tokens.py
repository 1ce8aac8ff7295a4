"""Access tokens of the HTTP API: signing, checking, revoking. Owns two files in the data folder.

    ctxmgr_PAYLOAD.SIGNATURE     both base64url; the payload is JSON and not encrypted
    serve.secret                 signs tokens
    serve.revoked                one line per revoked token: its id and the time, in seconds

Valid tokens are not stored. A token is valid until it expires, until it is revoked by its id, or
until ``serve.secret`` is removed and the server restarted, which ends all tokens.

``serve.revoked`` is only appended to, one write per line, so concurrent revocations are both kept.
Each line begins with a newline, so a line that a full disk cut short does not damage the next one.
Servers check the file on every request. A token that a server has seen as revoked stays revoked
until the server ends, even if the file is removed; if the file cannot be read, every token is
rejected.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, Unavailable

PREFIX: Final = "ctxmgr_"
"""The start of every token, so that one in a log can be recognised."""

TOKEN_LENGTH_MAX: Final = 4_096
"""Characters; longer tokens are rejected unread."""

TOKEN_ID_BYTES: Final = 8
"""Random bytes in a token's id: enough that ids do not collide."""

SECRET_BYTES: Final = 32
SECRET_FILE: Final = "serve.secret"  # noqa: S105 (a file's name)

_SOURCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_CONTEXT: Final = b"ctxmgr access token 1\n"
"""Prefixed to the signed payload, so that signatures made for other purposes are not valid here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a request may do."""

    session_id: str | None
    """The only session it may access; None: everything."""
    writes: bool
    expires: int | None
    """Seconds since 1970; None: never."""
    token_id: str | None
    """The id of the token that grants it; None: no token was required."""
    reviewer: str | None = None
    """Whom it lets query the audit log; such a token allows nothing else."""
    webhook: str | None = None
    """The source whose webhooks it may deliver; such a token allows nothing else."""


EVERYTHING: Final = Grant(session_id=None, writes=True, expires=None, token_id=None)


def mint(secret: bytes, grant: Grant) -> str:
    """Create a token."""
    fields = {
        "id": grant.token_id,
        "session": grant.session_id,
        "writes": grant.writes,
        "expires": grant.expires,
    }
    if grant.reviewer is not None:
        fields["reviewer"] = grant.reviewer
    if grant.webhook is not None:
        fields["webhook"] = grant.webhook
    payload = json.dumps(fields, separators=(",", ":")).encode()
    return f"{PREFIX}{_encoded(payload)}.{_encoded(_signature(secret, payload))}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The secret and the revoked ids that tokens are checked with."""

    secret: bytes
    revoked: Container[str]
    """Ids of revoked tokens."""

    def read(self, token: str, *, now: float) -> Grant:
        """Return the grant of a token; ``Denied`` if it is not signed by us or has ended."""
        grant = self.signed(token)
        self.check(grant, now=now)
        return grant

    def check(self, grant: Grant, *, now: float) -> None:
        """Raise ``Denied`` if the token of a grant has expired or was revoked."""
        if grant.expires is not None and now >= grant.expires:
            raise Denied("this token has expired; create another with `ctxmgr token`")
        if grant.token_id is not None and grant.token_id in self.revoked:
            raise Denied("this token was revoked; create another with `ctxmgr token`")

    def signed(self, token: str) -> Grant:
        """Return the grant of a token, valid or not; ``Denied`` if it is not signed by us."""
        unknown = Denied("this server did not issue this token; create one with `ctxmgr token`")
        if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
            raise unknown
        payload_text, _, signature_text = token.removeprefix(PREFIX).partition(".")
        payload, signature = _decoded(payload_text, unknown), _decoded(signature_text, unknown)
        if not hmac.compare_digest(signature, _signature(self.secret, payload)):
            raise unknown
        fields = json.loads(payload)
        return Grant(
            session_id=fields["session"],
            writes=fields["writes"],
            expires=fields["expires"],
            # A token of an earlier version has no id; one is derived, so that it can be revoked.
            token_id=fields.get("id") or hashlib.sha256(payload).hexdigest()[: 2 * TOKEN_ID_BYTES],
            reviewer=fields.get("reviewer"),
            webhook=fields.get("webhook"),
        )


def check_source(name: str) -> None:
    """Raise ``Incorrect`` unless this can name a source of webhooks, or an event, in a URL."""
    if not _SOURCE.fullmatch(name):
        raise Incorrect(
            f"{name!r:.80} is not the name of a source or event: use up to 64 letters, digits, "
            "dots, hyphens and underscores"
        )


def reviewer_of(folder: Path, token: str, *, now: float) -> str:
    """Return the reviewer to whom a token belongs; ``Denied`` if it is not a reviewer's."""
    try:
        keys = Keys(load_secret(folder), RevokedTokens(folder))
    except NotFound as error:
        raise Denied("no token has been created on this machine") from error
    grant = keys.read(token, now=now)
    if grant.reviewer is None:
        raise Denied("this token is not a reviewer's; create one with `ctxmgr token --reviewer`")
    return grant.reviewer


def load_secret(folder: Path) -> bytes:
    """Read the secret; ``NotFound`` if no token has been created yet."""
    path = folder / SECRET_FILE
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Denied(f"{path} can be read by other users: chmod 600 it")
            secret = file.read(SECRET_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist: no token has been created yet") from error
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error
    if len(secret) != SECRET_BYTES:
        raise Denied(f"{path} is not a valid secret: remove it and create new tokens")
    return secret


def make_secret(folder: Path) -> bytes:
    """Return the secret, creating it if needed. Concurrent callers get the same one."""
    path = folder / SECRET_FILE
    if not path.exists():
        draft = folder / f".{SECRET_FILE}-{secrets.token_hex(8)}"
        try:
            make_private_folder(folder)
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_bytes(secrets.token_bytes(SECRET_BYTES))
            try:
                # If another process was first, its secret is read below.
                with suppress(FileExistsError):
                    path.hardlink_to(draft)
            finally:
                draft.unlink()
        except OSError as error:
            raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
    return load_secret(folder)


def _signature(secret: bytes, payload: bytes) -> bytes:
    return hmac.digest(secret, _CONTEXT + payload, hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str, unknown: CtxmgrError) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise unknown from error


REVOKED_FILE: Final = "serve.revoked"

_ID: Final = re.compile(f"[0-9a-f]{{{2 * TOKEN_ID_BYTES}}}")

_Stamp = tuple[int, int, int]


class RevokedTokens:
    """The revoked ids, reread when the file changes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REVOKED_FILE
        self._stamp: _Stamp | None = None
        self._ids: frozenset[str] = frozenset()

    def __contains__(self, token_id: object) -> bool:
        stamp = self._current_stamp()
        if stamp != self._stamp:
            # Revoked tokens stay revoked while this server runs, even if the file is removed.
            self._ids |= frozenset() if stamp is None else self._read()
            self._stamp = stamp
        return token_id in self._ids

    def _current_stamp(self) -> _Stamp | None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _read(self) -> frozenset[str]:
        try:
            lines = self._path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        return frozenset(line.partition(" ")[0] for line in lines if line)

    def _unreadable(self, error: Exception) -> Denied:
        return Denied(f"{self._path} cannot be read, so every token is rejected: {error}")


def revoke_token(folder: Path, token_or_id: str) -> str:
    """Revoke a token, given in full or by its id; return the id."""
    if token_or_id.startswith(PREFIX):
        grant = Keys(make_secret(folder), ()).signed(token_or_id)
        assert grant.token_id is not None, "every token has an id"
        token_id = grant.token_id
    elif _ID.fullmatch(token_or_id):
        token_id = token_or_id
    else:
        raise Incorrect(f"{token_or_id!r:.80} is neither a token nor a token id")
    if token_id not in RevokedTokens(folder):
        # The leading newline ends a line that a full disk has cut short.
        _append(folder / REVOKED_FILE, f"\n{token_id} {int(time.time())}\n".encode())
    return token_id


def _append(path: Path, line: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.write(descriptor, line) != len(line):
                raise Unavailable(f"{path} cannot be written: the line was cut short")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
