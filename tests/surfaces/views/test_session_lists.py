"""Lists of sessions: their order and their pages."""

from pathlib import Path

import pytest

import ctxmgr
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.views.sessions import list_sessions, pick_sessions

NAMES = [f"s{number}" for number in range(5)]


async def picked(store: Store, names: list[str], *, limit: int) -> list[list[str]]:
    """The ids of all pages."""
    pages, cursor, more = [], None, True
    while more:
        page = await pick_sessions(store, names, limit=limit, cursor=cursor)
        pages.append([line.session_id for line in page.sessions])
        cursor, more = page.cursor, page.cursor is not None
    return pages


async def test_picked_sessions_are_listed_as_all_sessions_are(tmp_path: Path) -> None:
    """003-R111: an agent that sees one project's sessions looks for the newest one, too."""
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        for name in NAMES:
            await client.start(name, system_prompt="Hello.")
        session = await client.visit("s1")
        await session.end_turn("newest", user="")
        store = client.store

        everything = await list_sessions(store, limit=10, cursor=None)
        order = [line.session_id for line in everything.sessions]
        chosen = [name for name in order if name != "s2"]

        assert order[0] == "s1"
        assert await picked(store, [*NAMES, "s0", "missing"], limit=10) == [order]
        names = ["s0", "s1", "s3", "s4"]
        assert await picked(store, names, limit=2) == [chosen[:2], chosen[2:]]
        assert await picked(store, [], limit=2) == [[]]
        with pytest.raises(Incorrect, match="cursor"):
            await pick_sessions(store, names, limit=2, cursor="s0")
