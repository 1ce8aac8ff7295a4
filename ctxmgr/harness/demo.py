"""The demo: the main job on a small story, on public names only. Writes to the store it is given.

    a file     two versions as they happen, and one that is learnt late
    a chat     grows by a turn a version
    a session  two clients change it at once
    a retry    after a reply that was lost

Every step asks the store something and keeps the answer, so what is shown is what it said.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias
from uuid import uuid4

from ctxmgr import (
    AsOf,
    Chat,
    Conflict,
    File,
    FilesystemSource,
    Match,
    Put,
    SessionRecord,
    Store,
    Turn,
    from_document,
    open_store,
    to_document,
)

Row: TypeAlias = Mapping[str, Any]
Told: TypeAlias = tuple[str, Sequence[Row]]

TRY_NEXT: Final = (
    "ctxmgr doctor            what is installed here, and where data would lie",
    "ctxmgr xtdb up           the same on an XTDB server: ctxmgr demo --store URL",
    "ctxmgr feed --store URL  what the last transactions wrote",
    "docs/quickstart.md       the same in Python",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    title: str
    says: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    store: str
    steps: tuple[Step, ...]
    try_next: tuple[str, ...] = TRY_NEXT


async def run_demo(url: str | None = None, *, say: Callable[[str], None]) -> Demo:
    """Tell the story on that store; None: on a file that is gone afterwards."""
    if url is not None:
        return await _tell(url, say)
    with TemporaryDirectory(prefix="ctxmgr-demo-") as folder:
        return await _tell(f"sqlite:///{Path(folder) / 'demo.db'}", say)


async def _tell(url: str, say: Callable[[str], None]) -> Demo:
    name = f"demo-{uuid4().hex[:8]}"
    async with await open_store(url) as store, await open_store(url) as other:
        start = (await store.status()).sequence
        story: dict[str, Callable[[], Awaitable[Told]]] = {
            "a file, and news that comes late": lambda: _file(store, name),
            "a chat that grows": lambda: _chat(store, name),
            "two clients, one session": lambda: _conflict(store, other, name),
            "a retry that writes nothing twice": lambda: _retry(store, name),
            "every hash of it all": lambda: _verify(store, start),
        }
        steps = []
        for title, tell in story.items():
            say(title)
            says, rows = await tell()
            steps.append(Step(title=title, says=says, rows=tuple(rows)))
        engine = (await store.status()).engine
    return Demo(store=engine, steps=tuple(steps))


async def _file(store: Store, name: str) -> Told:
    source = FilesystemSource(filesystem_id=name, path="/project/server.toml")
    yesterday = datetime.now(UTC) - timedelta(days=1)

    async def learn(text: str, clock: str) -> tuple[str, int]:
        version = File.read(source, data=text.encode())
        put = Put(to_document(version), valid_from=_at(yesterday, clock))
        return version.object_id, (await store.commit([put])).sequence

    object_id, _ = await learn("port = 8080", "09:00")
    _, before = await learn("port = 9090", "11:00")
    await learn("port = 8888", "10:00")  # it had changed in between, and nobody had noticed

    asked = {
        "What did the file say at 10:30?": AsOf(valid_time=_at(yesterday, "10:30")),
        "What did we believe it said at 10:30, before the late news?": AsOf(
            valid_time=_at(yesterday, "10:30"), sequence=before
        ),
        "What does it say now?": AsOf(),
    }
    rows = []
    for question, as_of in asked.items():
        version = await store.get(object_id, as_of=as_of)
        assert version is not None
        rows.append({"question": question, "answer": version.document["content"]})
    says = (
        "Read at 09:00 and 11:00; later we learn that it had also changed at 10:00. "
        "What was true and what we believed are two questions, and both keep their answer."
    )
    return says, rows


async def _chat(store: Store, name: str) -> Told:
    chat = Chat(session_id=name)
    for user, answer in (
        ("Which port?", "8080, says server.toml."),
        ("And now?", "9090 since 11:00."),
        ("Thanks.", "You are welcome."),
    ):
        chat = chat.append(Turn(user=user, assistant=({"type": "text", "text": answer},)))
        await store.commit([Put(to_document(chat))])
    page = await store.history(chat.object_id)
    rows = [
        {
            "transaction": entry.sequence,
            "turns": entry.document["turn_count"],
            "last answer": entry.document["turns"][-1]["assistant"][0]["text"],
        }
        for entry in page.entries
        if entry.document is not None
    ]
    return "Each turn is a new version; the store keeps the text once, not once per version.", rows


async def _conflict(store: Store, other: Store, name: str) -> Told:
    first = SessionRecord(session_id=name)
    await store.commit([Match(first.object_id, None), Put(to_document(first))])
    rows = []

    async def add(client: Store, who: str, met: str, token: str | None, index: list[str]) -> None:
        changed = SessionRecord(session_id=name, session_index=(*index, met))
        try:
            await client.commit([Match(first.object_id, token), Put(to_document(changed))])
            rows.append({"client": who, "adds": met, "outcome": "committed"})
        except Conflict:
            rows.append({"client": who, "adds": met, "outcome": "conflict: reads again, retries"})
            again, known = await _index(client, first.object_id)
            await add(client, who, met, again, known)

    token, index = await _index(store, first.object_id)  # both clients have read this one
    await add(store, "A", "file-a", token, index)
    await add(other, "B", "file-b", token, index)
    _, index = await _index(store, first.object_id)
    rows.append({"client": "the session now knows", "adds": ", ".join(index), "outcome": ""})
    return "Both read, both write with the version they read as a guard. Nothing is lost.", rows


async def _index(store: Store, object_id: str) -> tuple[str | None, list[str]]:
    version = await store.get(object_id)
    assert version is not None
    return version.token, version.document["session_index"]


async def _retry(store: Store, name: str) -> Told:
    note = {"xt/id": f"note:{name}", "type": "note", "text": "written once"}
    rows = []
    for attempt in ("first", "retry"):
        commit = await store.commit([Put(note)], key=f"{name}-note")
        wrote = "nothing: it had been written" if commit.repeated else "the document"
        rows.append({"attempt": attempt, "transaction": commit.sequence, "wrote": wrote})
    return "A reply was lost, so the client tries again with the same key.", rows


async def _verify(store: Store, start: int | None) -> Told:
    checked: dict[str, int] = {}
    for transaction in await store.feed(after=start):
        for write in transaction.writes:
            if write.document is not None and write.document["type"] != "note":
                kind = from_document(write.document).kind
                checked[kind] = checked.get(kind, 0) + 1
    rows = [{"type": kind, "versions": count, "hashes": "right"} for kind, count in checked.items()]
    return "Read everything back from the transaction feed and compute all hashes again.", rows


def _at(day: datetime, clock: str) -> int:
    hour, minute = map(int, clock.split(":"))
    moment = day.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return int(moment.timestamp() * 1000)
