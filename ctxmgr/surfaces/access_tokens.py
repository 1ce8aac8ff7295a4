"""Tokens of the HTTP API: who may do what, signed with the server's secret. Owns one file.

    ctxmgr_PAYLOAD.SIGNATURE     both base64url; the payload is JSON, readable by anybody

Nothing is stored of a token that holds. It does until it expires, until it is revoked by its id
(``revoked_tokens``), or until the secret's file is removed and the server started again, which ends
all tokens.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.errors import CtxmgrError, Denied, NotFound, Unavailable

PREFIX: Final = "ctxmgr_"
"""Begins every token, so that whoever finds one in a log knows what it is."""

TOKEN_LENGTH_MAX: Final = 4_096
"""Characters: nothing longer is looked at."""

TOKEN_ID_BYTES: Final = 8
"""Of which a token's id is made: so many that no two tokens get the same."""

SECRET_BYTES: Final = 32
SECRET_FILE: Final = "serve.secret"  # noqa: S105 (a file's name)

_CONTEXT: Final = b"ctxmgr access token 1\n"
"""Signed before the payload: a signature made for another purpose is none here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a request may do."""

    session_id: str | None
    """The one session that it reaches; None: all there is."""
    writes: bool
    expires: int | None
    """Seconds since 1970; None: never."""
    token_id: str | None
    """Of the token that says so; None: no token was asked for."""


EVERYTHING: Final = Grant(session_id=None, writes=True, expires=None, token_id=None)


def mint(secret: bytes, grant: Grant) -> str:
    """Make a token."""
    fields = {
        "id": grant.token_id,
        "session": grant.session_id,
        "writes": grant.writes,
        "expires": grant.expires,
    }
    payload = json.dumps(fields, separators=(",", ":")).encode()
    return f"{PREFIX}{_encoded(payload)}.{_encoded(_signature(secret, payload))}"


@dataclass(frozen=True, slots=True)
class Keys:
    """What tokens are checked with."""

    secret: bytes
    revoked: Container[str]
    """Ids of tokens that were ended."""

    def read(self, token: str, *, now: float) -> Grant:
        """Return what a token grants; ``Denied`` if we did not sign it, or it has ended."""
        grant = self.signed(token)
        self.check(grant, now=now)
        return grant

    def check(self, grant: Grant, *, now: float) -> None:
        """Raise ``Denied`` if the token of a grant has ended meanwhile."""
        if grant.expires is not None and now >= grant.expires:
            raise Denied("this token has expired; `ctxmgr token` makes another")
        if grant.token_id is not None and grant.token_id in self.revoked:
            raise Denied("this token was revoked; `ctxmgr token` makes another")

    def signed(self, token: str) -> Grant:
        """Return what a token granted when we signed it; ``Denied`` if we did not."""
        unknown = Denied("this token is not one of this server's; `ctxmgr token` makes them")
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
            token_id=fields.get("id") or _derived_id(payload),
        )


def _derived_id(payload: bytes) -> str:
    """Name a token of an earlier version, which had no id, so that it can be revoked too."""
    return hashlib.sha256(payload).hexdigest()[: 2 * TOKEN_ID_BYTES]


def load_secret(folder: Path) -> bytes:
    """Read the secret; ``NotFound`` if no token was made yet."""
    path = folder / SECRET_FILE
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Denied(f"{path} can be read by others: chmod 600 it, or remove it")
            secret = file.read(SECRET_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is not there: no token was made yet") from error
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error
    if len(secret) != SECRET_BYTES:
        raise Denied(f"{path} is no secret of ctxmgr: remove it, and make new tokens")
    return secret


def make_secret(folder: Path) -> bytes:
    """Return the secret, making it if there is none. Two who make it at once get the same."""
    path = folder / SECRET_FILE
    if not path.exists():
        draft = folder / f".{SECRET_FILE}-{secrets.token_hex(8)}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_bytes(secrets.token_bytes(SECRET_BYTES))
            _publish(draft, path)
        except OSError as error:
            raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
    return load_secret(folder)


def _publish(draft: Path, path: Path) -> None:
    """Give a whole file its name, unless somebody was faster."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _signature(secret: bytes, payload: bytes) -> bytes:
    return hmac.digest(secret, _CONTEXT + payload, hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str, unknown: CtxmgrError) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise unknown from error
