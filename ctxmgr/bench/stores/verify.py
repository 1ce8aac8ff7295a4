"""Benchmark of `ctxmgr store verify` on one long session. Writes a temporary file."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from ctxmgr.bench.report import Figure, Say, within
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import KINDS, to_document
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite.store import SqliteStore

TURNS: Final = 1_500
QUICK_TURNS: Final = 100

MESSAGE_CHARS: Final = 4_000
OUTPUT_CHARS: Final = 11_000
"""With the messages, 15 KB per turn: a session of some 1,500 turns fills 25 MB."""

SECONDS_MAX: Final = 5.0
"""What a person waits for without asking whether it hangs."""


async def verify_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Verify a store in which every turn made a new version of the chat."""
    turns = QUICK_TURNS if quick else TURNS
    say(f"verify: a session of {turns} turns")
    with TemporaryDirectory(prefix="ctxmgr-bench-") as folder:
        path = Path(folder) / "store.db"
        async with await SqliteStore.open(path, kinds=KINDS, durability="normal") as store:
            await _save_session(store, turns=turns)
            started = process_time()
            verified = await store.verify()
            seconds = process_time() - started
        size = path.stat().st_size
    assert verified.faults == ()
    return [
        within(
            f"SQLite verify of a session of {turns:,} turns",
            seconds,
            bound=SECONDS_MAX,
            unit="s",
            against="seconds of processor time",
            note=f"{size / 1e6:.0f} MB, {verified.versions:,} versions; most of it is SHA-256",
        )
    ]


async def _save_session(store: SqliteStore, *, turns: int) -> None:
    random = Random("verify")  # noqa: S311 (filler, reproducible)
    chat = Chat(session_id="bench")
    ids: tuple[str, ...] = ()
    for number in range(turns):
        call = ToolCall(
            toolcall_id=f"toolu_{number:024d}",
            tool="bash",
            args={"command": "make test"},
            status="ok",
            chat_ref=chat.object_id,
            content=random.randbytes(OUTPUT_CHARS // 2).hex(),
        )
        ids = (*ids, call.object_id)
        text = random.randbytes(MESSAGE_CHARS // 4).hex()
        turn = Turn(
            user=text, assistant=({"type": "text", "text": text},), toolcall_ids=(call.object_id,)
        )
        chat = chat.append(turn)
        session = SessionRecord(session_id="bench", session_index=ids, metadata_pool=ids)
        await store.commit([Put(to_document(version)) for version in (call, chat, session)])
