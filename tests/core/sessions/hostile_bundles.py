"""Bundles that were altered by someone who makes every hash fit, and what a session is worth."""

import gzip
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import ctxmgr
from ctxmgr import AsOf, CtxmgrError, Store
from ctxmgr.core.client.client import Client
from ctxmgr.core.events.derive import compared, derive
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.envelope import OBJECT_KINDS
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import (
    content_hash,
    identity_hash,
    metadata_hash,
    object_hash,
    sha256,
)
from ctxmgr.core.objects.sources import parse_source
from ctxmgr.core.sessions.bundle import Bundle, BundledWrite, BundleWriter
from ctxmgr.core.sessions.bundle_limits import BundleBudget


@dataclass
class BundledVersion:
    """One version that a bundle holds."""

    sequence: int
    document: dict[str, Any]
    valid_from: Any


Alter = Callable[[list[BundledVersion]], list[BundledVersion]]


@dataclass(frozen=True)
class Alteration:
    """A named way to alter a bundle; hypothesis prints the name."""

    name: str
    apply: Callable[[Any], Any] = field(repr=False)


def connecting(url: str, project: Path) -> Any:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(project), "filesystemId": "disk"}]
    return ctxmgr.connect(url, mounts=mounts, filesystem_id="box", tracking=False)


async def work(client: Client, session_id: str, project: Path, *, texts: Iterable[str]) -> None:
    """A session that reads a file, lists another, and renders both layouts."""
    session = await client.start(session_id, system_prompt="Be careful.")
    for number, text in enumerate(texts):
        (project / "a.txt").write_text(text, encoding="utf-8")
        await session.render(f"turn {number}", policy="economy" if number % 2 else None)
        await session.read("/w/a.txt")
        await session.record(
            f"{session_id}-{number}",
            tool="bash",
            args={"command": "ls"},
            output="b.txt\n",
            directory="/w",
        )
        await session.end_turn("Done.")
    await client.pause(session_id)


def read_bundle(data: bytes) -> Bundle:
    """Read an unpacked bundle."""
    return Bundle.from_lines(lambda: iter(io.BytesIO(data)), budget=BundleBudget(len(data)))


def versions_of(data: bytes) -> tuple[str, list[BundledVersion]]:
    bundle = read_bundle(gzip.decompress(data))
    return bundle.session_id, [
        BundledVersion(transaction.sequence, dict(write.document), write.valid_from)
        for transaction in bundle.transactions()
        for write in transaction.writes
    ]


def packed(session_id: str, versions: Iterable[BundledVersion]) -> bytes:
    """Return a bundle of these versions, with every hash as it must be."""
    by_id: dict[str, list[tuple[int, BundledWrite]]] = {}
    for version in versions:
        document = fitted(version.document)
        write = BundledWrite(document=document, valid_from=version.valid_from)
        by_id.setdefault(str(document.get("xt/id")), []).append((version.sequence, write))
    writer = BundleWriter()
    for writes in by_id.values():
        writer.add(sorted(writes, key=lambda entry: entry[0]))
    return gzip.compress(writer.to_bytes(session_id)[0])


def fitted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with hashes that fit its other fields, as far as they can be made."""
    if document.get("type") not in OBJECT_KINDS:
        return document
    document = dict(document)
    try:
        if document.get("source") is not None:
            source = parse_source(document["source"]).to_value()
            document["identity_hash"] = identity_hash(document["type"], source=source)
        else:
            object_id = document["xt/id"]
            document["identity_hash"] = identity_hash(document["type"], object_id=object_id)
        document["content_hash"] = content_hash(document.get("content"))
        document["metadata_hash"] = metadata_hash(document)
        document["object_hash"] = object_hash(
            file=document.get("file_hash"),
            content=document["content_hash"],
            metadata=document["metadata_hash"],
        )
    except (CtxmgrError, KeyError, TypeError, AttributeError, ValueError):
        return document
    return document


JUNK = st.sampled_from(
    [
        *(None, True, -1, 0, 7, 2**70, 1.5, [], {}, [[]], {"a": 1}, ["mine-0"], ["x", "x"]),
        *("", "x", "mine", "guest", "0" * 64, "mine-0", "/etc/shadow", "chat:mine", "\0"),
    ]
)
TIMES = st.sampled_from(
    [0, -1, 1, 4_000_000_000_000, 10**15, 1.5, "7", None, True, float("inf"), float("nan")]
)
FOREIGN: list[dict[str, Any]] = [
    {"xt/id": "run:guest", "type": "run", "sandbox": "host", "workspace": "/"},
    {"xt/id": "run:mine", "type": "run", "sandbox": "host"},
    {"xt/id": "lease:mine", "type": "lease", "session": "mine", "holder": "x"},
    {"xt/id": "turn:mine:1", "type": "turn", "session": "mine", "n": 1},
    {"xt/id": "fork:mine", "type": "fork", "session": "mine", "parent": "guest", "turn": 1},
    {"xt/id": "fork:elder", "type": "fork", "session": "elder", "parent": "mine", "turn": 1},
    {"xt/id": "fork:elder", "type": "fork", "session": "elder", "parent": "guest", "turn": 1},
    {"xt/id": "lifecycle:mine", "type": "lifecycle", "session": "mine", "state": "active"},
    {"xt/id": "note", "type": "note"},
]


@st.composite
def alterations(draw: st.DrawFn) -> Alteration:
    """One way to alter a bundle."""
    which = draw(st.sampled_from(sorted(_ALTERATIONS)))
    return Alteration(which, _ALTERATIONS[which](draw))


def _anywhere(draw: st.DrawFn) -> Alter:
    """Replace some value, however deep, of some version."""
    place, path, junk = draw(_PLACE), draw(st.lists(_PLACE, min_size=1, max_size=6)), draw(JUNK)

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        version = versions[place % len(versions)]
        version.document = json.loads(json.dumps(version.document))
        value: Any = version.document
        for step in path:
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            if not keys:
                break
            key = keys[step % len(keys)]
            deeper = value[key]
            if step is path[-1] or not isinstance(deeper, dict | list) or not deeper:
                value[key] = junk
                break
            value = deeper
        return versions

    return alter


def _field(draw: st.DrawFn) -> Alter:
    """Remove a field, or add one."""
    place, name, junk = draw(_PLACE), draw(_PLACE), draw(JUNK)
    add = draw(st.booleans())

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        document = dict(versions[place % len(versions)].document)
        if add:
            document["extra"] = junk
        else:
            del document[list(document)[name % len(document)]]
        versions[place % len(versions)].document = document
        return versions

    return alter


def _time(draw: st.DrawFn) -> Alter:
    place, time, every = draw(_PLACE), draw(TIMES), draw(st.booleans())

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        for version in versions if every else [versions[place % len(versions)]]:
            version.valid_from = time
        return versions

    return alter


def _renamed(draw: st.DrawFn) -> Alter:
    """Use the names of a session that the store has."""
    old, new = draw(st.sampled_from([("guest", "mine"), ("elder", "mine"), ("guest", "elder")]))
    place, every = draw(_PLACE), draw(st.booleans())

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        for version in versions if every else [versions[place % len(versions)]]:
            version.document = json.loads(json.dumps(version.document).replace(old, new))
        return versions

    return alter


def _stub(_: st.DrawFn) -> Alter:
    """Say of every file that it was never read."""

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        for version in versions:
            if version.document["type"] == "file":
                source = parse_source(version.document["source"])
                version.document = to_document(File.stub(source))
        return versions

    return alter


def _moved(draw: st.DrawFn) -> Alter:
    """Drop, repeat or swap versions, or give one the kind or the id of another."""
    one, other = draw(_PLACE), draw(_PLACE)
    how = draw(st.sampled_from(["drop", "repeat", "swap", "kind", "id"]))

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        first, second = versions[one % len(versions)], versions[other % len(versions)]
        match how:
            case "drop":
                versions.remove(first)
            case "repeat":
                last = max(version.sequence for version in versions)
                versions.append(BundledVersion(last + 1, first.document, first.valid_from))
            case "swap":
                first.document, second.document = second.document, first.document
            case "kind":
                first.document = {**first.document, "type": second.document["type"]}
            case _:
                first.document = {**first.document, "xt/id": second.document["xt/id"]}
        return versions

    return alter


def _foreign(draw: st.DrawFn) -> Alter:
    """Add a document that is none of the session's."""
    document, time = draw(st.sampled_from(FOREIGN)), draw(TIMES)

    def alter(versions: list[BundledVersion]) -> list[BundledVersion]:
        last = max(version.sequence for version in versions)
        return [*versions, BundledVersion(last + 1, dict(document), time)]

    return alter


_PLACE = st.integers(0, 10_000)
_ALTERATIONS: dict[str, Callable[[st.DrawFn], Alter]] = {
    "anywhere": _anywhere,
    "anywhere else": _anywhere,
    "field": _field,
    "foreign": _foreign,
    "moved": _moved,
    "renamed": _renamed,
    "stub": _stub,
    "time": _time,
}


@st.composite
def altered_lines(draw: st.DrawFn) -> Alteration:
    """Alter a bundle below its documents: its bytes, or its lines with a root that fits."""
    how = draw(st.sampled_from(["truncate", "flip", "repeat", "swap", "drop", "heading"]))
    place, junk = draw(_PLACE), draw(JUNK)

    def alter(data: bytes) -> bytes:
        if how == "truncate":
            return data[: place % len(data)]
        if how == "flip":
            at = place % len(data)
            return data[:at] + bytes([data[at] ^ 1 << place % 8]) + data[at + 1 :]
        first, *lines = gzip.decompress(data).splitlines(keepends=True)
        at, heading = place % len(lines), json.loads(first)
        match how:
            case "repeat":
                lines.insert(at, lines[at])
            case "swap":
                lines[at], lines[at - 1] = lines[at - 1], lines[at]
            case "drop":
                del lines[at]
            case _:
                heading["session"] = junk
        heading["root"] = sha256(b"".join(lines))
        return gzip.compress(json.dumps(heading).encode() + b"\n" + b"".join(lines))

    return Alteration(how, alter)


async def worth(client: Client, session_id: str, *, as_in: Any = None) -> Any:
    """Everything that a session is, was, believed and sent.

    Its objects are compared at the moments of ``as_in``, an earlier result: an import may add
    versions before all others, where nobody looks for them but by their hash.
    """
    store = client.store
    record = await store.get(f"session:{session_id}")
    chat = await store.get(f"chat:{session_id}")
    assert record is not None
    assert chat is not None
    turns = range(1, chat.document["turn_count"] + 1)
    kinds = ("session", "chat", "system_prompt", "lifecycle", "fork", "run", "lease")
    own = [f"{kind}:{session_id}" for kind in kinds]
    own += [f"turn:{session_id}:{number}" for number in range(1, len(turns) + 3)]
    seen: dict[Any, Any] = {object_id: await _history(store, object_id) for object_id in own}
    for object_id in record.document["session_index"]:
        history = await _history(store, object_id)
        seen[object_id] = await _at(store, object_id, None)
        moments = [moment for moment, _ in history]
        for moment in moments if as_in is None else as_in["moments"][object_id]:
            seen[object_id, moment] = await _at(store, object_id, moment)
        seen.setdefault("moments", {})[object_id] = (
            moments if as_in is None else as_in["moments"][object_id]
        )
    seen["prompts"] = [(await client.prompt_as_of(session_id, turn=n)).text() for n in turns]
    return seen


async def _history(store: Store, object_id: str) -> list[Any]:
    page = await store.history(object_id, corrections=True)
    return [(entry.valid_time, entry.document) for entry in page.entries]


async def _at(store: Store, object_id: str, moment: int | None) -> Any:
    version = await store.get(object_id, as_of=AsOf(valid_time=moment))
    return version and version.document


async def use(client: Client, session_id: str) -> None:
    """Do with an imported session what people do; only our errors may come out of it."""
    chat = await client.store.get(f"chat:{session_id}")
    assert chat is not None
    for turn in range(chat.document["turn_count"] + 1):
        try:
            await client.prompt_as_of(session_id, turn=turn)
        except CtxmgrError:
            continue
    for moment in (0, 1_000, chat.valid_time):
        try:
            await client.state_as_of(session_id, valid_time=moment)
        except CtxmgrError:
            continue
    try:
        session = await client.resume(session_id)
        await session.render("go on", policy="economy")
        await session.render("go on")
        await session.end_turn("gone on")
        await client.pause(session_id)
    except CtxmgrError:
        return


async def derive_everything(store: Store) -> None:
    """Derive every event of the store, as a listener that was started anew does."""
    after: int | None = None
    while transactions := await store.feed(after=after):
        for transaction in transactions:
            ids = compared(transaction)
            earlier = AsOf(sequence=transaction.sequence - 1)
            found = await store.get_many(ids, as_of=earlier) if transaction.sequence > 1 else {}
            derive(transaction, before={key: version.document for key, version in found.items()})
            after = transaction.sequence
