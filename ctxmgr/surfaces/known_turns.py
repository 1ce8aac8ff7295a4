"""What a session's turns say of it: how many there are, what the last showed, what paths meant.

Reads the store, no more of it than a question needs, and this machine's id.
"""

from typing import Any, Final

from ctxmgr.core.contents import File
from ctxmgr.core.envelopes import chat_id, turn_id
from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.lineages import lineage, owner
from ctxmgr.core.mount_settings import read_mappings
from ctxmgr.core.mounts import Mounts, Place
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import LATEST, AsOf, Store
from ctxmgr.core.turns import TurnRecord
from ctxmgr.errors import Unavailable

NOWHERE: Final = "nowhere"
"""Names the filesystem of a sandbox that only its own client knows."""


async def turn_count(store: Store, session_id: str, *, as_of: AsOf = LATEST) -> int:
    """Count a session's turns. They are not read, which would cost ten times more."""
    named = chat_id(session_id)
    found = await store.get_many([named], as_of=as_of, without=("turns", "toolcall_refs"))
    return int(found[named].document["turn_count"]) if named in found else 0


async def last_record(store: Store, session_id: str) -> TurnRecord | None:
    """Return the record of the last turn; None: there was none."""
    turns = await turn_count(store, session_id)
    if turns == 0:
        return None
    made_by = owner(await lineage(store, session_id), turns)
    version = await store.get(turn_id(made_by, number=turns))
    return None if version is None else TurnRecord.from_document(version.document)


def mounts_of(record: TurnRecord | None) -> Mounts:
    """Tell what paths meant when a turn was made; without mounts they were the host's."""
    if record is None or not record.mounts:
        return Mounts.of_host(_host_id())
    given: list[dict[str, Any]] = [dict(each) for each in record.mounts]
    return Mounts.of_sandbox(read_mappings(given, host_id=_host_id()), own_id=NOWHERE)


def display_path(file: File, mounts: Mounts) -> str:
    """Return the path by which the agent knows a file."""
    source = file.source
    assert isinstance(source, FilesystemSource), "the only source type there is"
    place = Place(filesystem_id=source.filesystem_id, path=source.path, on_host=False)
    return mounts.reverse(place)


def _host_id() -> str:
    try:
        return host_filesystem_id()
    except Unavailable:  # to look at stored paths nothing is read here
        return NOWHERE
