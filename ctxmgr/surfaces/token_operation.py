"""The tokens that the HTTP API is guarded by, made for whoever asks it."""

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Param

if TYPE_CHECKING:
    from ctxmgr.app import App

DAY_SECONDS: Final = 24 * 60 * 60
DAYS_MAX: Final = 3_650


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    token: str
    """To be sent as ``Authorization: Bearer …``; it is not kept here."""
    token_id: str
    """By which it can be revoked, also by whoever does not have it any more."""
    session_id: str | None
    writes: bool
    expires: str
    """In ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    token_id: str
    revoked: bool


async def token(
    app: "App",  # noqa: ARG001 (as every operation)
    *,
    session: Annotated[
        str | None, Param("Reach this session only; default: everything.", metavar="SESSION")
    ] = None,
    read_only: Annotated[bool, Param("Let it read, not write.")] = False,
    days: Annotated[int, Param("How long it holds.")] = 30,
    revoke: Annotated[
        str | None, Param("End this token instead: itself, or its id.", metavar="TOKEN")
    ] = None,
) -> Token | RevokedToken:
    """Make a token for the HTTP API, or revoke one.

    Nothing is stored of a token that holds. It is signed with a secret in ctxmgr's data folder:
    servers that read the same folder take it. A revoked one ends at once, in servers that run too.
    Remove the secret's file (serve.secret) and start them again to end every token.
    """
    from ctxmgr.settings import data_dir
    from ctxmgr.surfaces.access_tokens import TOKEN_ID_BYTES, Grant, make_secret, mint
    from ctxmgr.surfaces.revoked_tokens import revoke_token
    from ctxmgr.surfaces.scopes import scope_named
    from ctxmgr.surfaces.tables import iso

    if revoke is not None:
        if session is not None or read_only:
            raise Incorrect("--revoke ends a token that is there: give it no other flags")
        return RevokedToken(token_id=revoke_token(data_dir(), revoke), revoked=True)
    if not 1 <= days <= DAYS_MAX:
        raise Incorrect(f"--days is 1 to {DAYS_MAX}, not {days}")
    expires, token_id = int(time.time()) + days * DAY_SECONDS, secrets.token_hex(TOKEN_ID_BYTES)
    grant = Grant(
        session_id=None if session is None else scope_named(session),
        writes=not read_only,
        expires=expires,
        token_id=token_id,
    )
    return Token(
        token=mint(make_secret(data_dir()), grant),
        token_id=token_id,
        session_id=grant.session_id,
        writes=grant.writes,
        expires=iso(expires * 1000),
    )
