"""Questions to a store of an earlier version. Reads the store; ``resumed`` also writes to it.

Every answer is a JSON value. ``portable`` removes what differs between a store and a copy imported
from a bundle: transaction numbers and system times.
"""

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from click.testing import CliRunner

import ctxmgr
from ctxmgr.surfaces.terminal.cli import COMMANDS

SESSION: Final = "earlier"
FORK: Final = "earlier-fork"
FORMS: Final = ("text", "anthropic", "openai")
EVENTS_SECONDS: Final = 30.0
"""For all events to arrive: a fraction of a second, unless an XTDB server is busy."""

_STORED: Final = frozenset({"sequence", "system_time"})


async def stored(client: Any) -> dict[str, Any]:
    """Return every version of every object, and the sets of both sessions."""
    return {
        "versions": await _versions(client),
        "sets": {name: _sets(await client.visit(name)) for name in (SESSION, FORK)},
    }


async def prompts(client: Any, session_id: str, *, turns: int) -> list[str]:
    """Return the hash of every prompt of a session, rebuilt from its turn record."""
    contexts = [await client.prompt_as_of(session_id, turn=n) for n in range(1, turns + 1)]
    return [digest(context.text()) for context in contexts]


async def resumed(client: Any) -> dict[str, Any]:
    """Resume both sessions and return what would be sent next."""
    answers = {}
    for name in (SESSION, FORK):
        session = await client.resume(name)
        plain = await session.render("What is next?", policy="plain")
        economy = await session.render("What is next?", policy="economy")
        answers[name] = {
            "turn": session.turn,
            "sets": _sets(session),
            "plain": [len(plain), digest(plain)],
            "economy": [len(economy), digest(economy)],
            "orphaned": len(client.reconciliation(name).orphaned),
        }
        await client.pause(name)
    return answers


async def events(url: str) -> list[Any]:
    """Return the events that a listener receives, up to the last one: the fork is paused."""
    listener = _Listener()
    async with ctxmgr.connect(url, listeners=[listener], tracking=False):
        async with asyncio.timeout(EVENTS_SECONDS):
            await listener.complete.wait()
    return listener.events


def operations(url: str, *, file_id: str) -> dict[str, Any]:
    """Return the JSON output of the commands that read a session."""
    commands = {
        "log": ("log", SESSION, "--full", "--limit", "100"),
        "log of the fork": ("log", FORK, "--limit", "100"),
        "timeline": ("timeline", SESSION, "--limit", "100"),
        "timeline of the fork": ("timeline", FORK, "--limit", "100"),
        "cache": ("cache", SESSION),
        "cache as reported": ("cache", SESSION, "--recorded"),
        "turn": ("turn", SESSION, "8"),
        "turn under the policy": ("turn", SESSION, "20"),
        "history": ("history", file_id),
        "diff": ("diff", SESSION, "--from-turn", "2", "--to-turn", "12"),
    }
    return {name: command(url, *arguments) for name, arguments in commands.items()}


def prompts_by_form(url: str, *, turns: int) -> dict[str, list[str]]:
    """Return the hashes of every fifth prompt, in every form that the command line prints."""
    return {
        form: [
            digest(_canonical(command(url, "context", SESSION, "--turn", str(n), "--form", form)))
            for n in range(1, turns + 1, 5)
        ]
        for form in FORMS
    }


def command(url: str, *arguments: str) -> Any:
    """Run a command on a store and return the value that it prints."""
    result = CliRunner().invoke(COMMANDS, [*arguments, "--store", url, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def portable(value: Any) -> Any:
    """Remove what the store assigns when it writes."""
    if isinstance(value, Mapping):
        return {name: portable(item) for name, item in value.items() if name not in _STORED}
    return [portable(item) for item in value] if isinstance(value, list) else value


class _Listener:
    name = "compatibility"

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.complete = asyncio.Event()

    async def last_handled(self) -> None:
        return None

    async def handle(self, event: Any) -> None:
        if self.complete.is_set():
            return
        fields = dataclasses.asdict(event)
        event_id = fields.pop("id")
        self.events.append(
            {
                "event": event.name,
                "sequence": [event_id["sequence"], event_id["position"]],
                "system_time": fields.pop("system_time"),
                "about": fields.get("session_id") or fields.get("object_id"),
                "digest": digest(_canonical(fields))[:16],
            }
        )
        if (event.name, fields.get("session_id")) == ("session_paused", FORK):
            self.complete.set()


async def _versions(client: Any) -> dict[str, list[Any]]:
    ids: dict[str, None] = {}
    for name in (SESSION, FORK):
        session = await client.visit(name)
        turns = range(1, session.turn)
        own = ("session", "chat", "system_prompt", "lifecycle", "fork")
        ids |= dict.fromkeys(f"{kind}:{name}" for kind in own)
        ids |= dict.fromkeys(f"turn:{name}:{n}" for n in turns)
        ids |= dict.fromkeys(session.sets.session_index)
    return {object_id: await _history(client.store, object_id) for object_id in ids}


async def _history(store: ctxmgr.Store, object_id: str) -> list[Any]:
    page = await store.history(object_id, corrections=True)
    assert page.cursor is None
    return [
        {
            "valid_time": entry.valid_time,
            "sequence": entry.sequence,
            "system_time": entry.system_time,
            "digest": digest(_canonical(_checked(entry.document)))[:16],
        }
        for entry in page.entries
    ]


def _checked(document: Any) -> Any:
    """Check an object's hashes by decoding it; other documents have none."""
    if document is not None and document["type"] in ctxmgr.KINDS and "object_hash" in document:
        assert ctxmgr.to_document(ctxmgr.from_document(document)) == document
    return document


def _sets(session: Any) -> dict[str, Any]:
    sets = session.sets
    return {
        "session_index": [len(sets.session_index), digest(" ".join(sets.session_index))],
        "metadata_pool": [len(sets.metadata_pool), digest(" ".join(sets.metadata_pool))],
        "active_set": list(sets.active_set),
        "pinned_set": list(sets.pinned_set),
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=list)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
