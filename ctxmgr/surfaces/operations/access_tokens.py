"""``ctxmgr token``: create and revoke access tokens of the HTTP API. Writes to the data folder."""

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App


DAY_SECONDS: Final = 24 * 60 * 60
DAYS_MAX: Final = 3_650


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    token: str
    """Sent as ``Authorization: Bearer …``; it is not stored."""
    token_id: str
    """For revoking it, also without the token."""
    session_id: str | None
    reviewer: str | None
    webhook: str | None
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
        str | None, Param("Limit it to this session; default: everything.", metavar="SESSION")
    ] = None,
    read_only: Annotated[bool, Param("Allow reading only.")] = False,
    reviewer: Annotated[
        str | None,
        Param("Let this person query the audit log, and nothing else.", metavar="NAME"),
    ] = None,
    webhook: Annotated[
        str | None,
        Param("Let this source deliver webhooks, and nothing else.", metavar="SOURCE"),
    ] = None,
    days: Annotated[int, Param("Days until it expires.")] = 30,
    revoke: Annotated[
        str | None, Param("Revoke this token instead, given in full or by its id.", metavar="TOKEN")
    ] = None,
) -> Token | RevokedToken:
    """Create or revoke a token: HTTP API, reviewer, webhook.

    Valid tokens are not stored. They are signed with a secret in ctxmgr's data folder, and servers
    that use the same folder accept them. Revoking takes effect at once, also in running servers.
    To end every token, remove the secret's file (serve.secret) and restart the servers.
    """
    from ctxmgr.settings import data_dir
    from ctxmgr.surfaces.access_tokens import (
        TOKEN_ID_BYTES,
        Grant,
        check_source,
        make_secret,
        mint,
        revoke_token,
    )
    from ctxmgr.surfaces.encoding import iso
    from ctxmgr.surfaces.scopes import parse_session_id

    if revoke is not None:
        if session is not None or read_only or reviewer is not None or webhook is not None:
            raise Incorrect(
                "--revoke cannot be combined with --session, --read-only, --reviewer or --webhook"
            )
        return RevokedToken(token_id=revoke_token(data_dir(), revoke), revoked=True)
    if reviewer is not None and (session is not None or not reviewer.strip()):
        raise Incorrect("--reviewer needs a name, and cannot be combined with --session")
    if webhook is not None:
        if session is not None or read_only or reviewer is not None:
            raise Incorrect(
                "--webhook cannot be combined with --session, --read-only or --reviewer"
            )
        check_source(webhook)
    if not 1 <= days <= DAYS_MAX:
        raise Incorrect(f"--days must be 1 to {DAYS_MAX}, not {days}")
    expires, token_id = int(time.time()) + days * DAY_SECONDS, secrets.token_hex(TOKEN_ID_BYTES)
    grant = Grant(
        session_id=None if session is None else parse_session_id(session),
        writes=not read_only and reviewer is None and webhook is None,
        reviewer=reviewer,
        webhook=webhook,
        expires=expires,
        token_id=token_id,
    )
    return Token(
        token=mint(make_secret(data_dir()), grant),
        token_id=token_id,
        session_id=grant.session_id,
        reviewer=grant.reviewer,
        webhook=grant.webhook,
        writes=grant.writes,
        expires=iso(expires * 1000),
    )
