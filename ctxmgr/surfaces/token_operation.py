"""The tokens that the HTTP API is guarded by, made for whoever asks it."""

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
    session_id: str | None
    writes: bool
    expires: str
    """In ISO 8601."""


async def token(
    app: "App",  # noqa: ARG001 (as every operation)
    *,
    session: Annotated[
        str | None, Param("Reach this session only; default: everything.", metavar="SESSION")
    ] = None,
    read_only: Annotated[bool, Param("Let it read, not write.")] = False,
    days: Annotated[int, Param("How long it holds.")] = 30,
) -> Token:
    """Make a token for the HTTP API.

    Of the token nothing is stored. It is signed with a secret in ctxmgr's data folder: servers that
    read the same folder take it. Remove that file and start them again to end every token.
    """
    from ctxmgr.settings import data_dir
    from ctxmgr.surfaces.access_tokens import Grant, make_secret, mint
    from ctxmgr.surfaces.scopes import scope_named
    from ctxmgr.surfaces.tables import iso

    if not 1 <= days <= DAYS_MAX:
        raise Incorrect(f"--days is 1 to {DAYS_MAX}, not {days}")
    grant = Grant(
        session_id=None if session is None else scope_named(session),
        writes=not read_only,
        expires=int(time.time()) + days * DAY_SECONDS,
    )
    return Token(
        token=mint(make_secret(data_dir()), grant),
        session_id=grant.session_id,
        writes=grant.writes,
        expires=iso((grant.expires or 0) * 1000),
    )
