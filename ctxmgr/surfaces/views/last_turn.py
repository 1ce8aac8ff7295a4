"""A session's turn count, last turn record and mounts. Reads the store and this machine's id."""

from typing import Any, Final

from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.mount_settings import read_mappings
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.objects.envelope import chat_id, turn_id
from ctxmgr.core.sessions.lineage import lineage, owner
from ctxmgr.core.store.contract import LATEST, AsOf, Store
from ctxmgr.errors import Unavailable

NOWHERE: Final = "nowhere"
"""Stands for the filesystem id of a sandbox, which only its own client knows."""


async def turn_count(store: Store, session_id: str, *, as_of: AsOf = LATEST) -> int:
    """Count a session's turns without reading them, which would cost ten times more."""
    object_id = chat_id(session_id)
    versions = await store.get_many([object_id], as_of=as_of, without=("turns", "toolcall_refs"))
    return int(versions[object_id].document["turn_count"]) if object_id in versions else 0


async def last_record(store: Store, session_id: str) -> TurnRecord | None:
    """Return the record of the last turn; None: there was none."""
    turns = await turn_count(store, session_id)
    if turns == 0:
        return None
    owner_id = owner(await lineage(store, session_id), turns)
    version = await store.get(turn_id(owner_id, number=turns))
    return None if version is None else TurnRecord.from_document(version.document)


def mounts_of(record: TurnRecord | None) -> Mounts:
    """Return the mounts of a turn; without any, paths are the host's."""
    if record is None or not record.mounts:
        return Mounts.of_host(_host_id())
    mappings: list[dict[str, Any]] = [dict(mount) for mount in record.mounts]
    return Mounts.of_sandbox(read_mappings(mappings, host_id=_host_id()), own_id=NOWHERE)


def _host_id() -> str:
    try:
        return host_filesystem_id()
    except Unavailable:  # stored paths can be shown without it
        return NOWHERE
