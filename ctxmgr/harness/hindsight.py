"""The demo's last chapters: what the model saw, what was true, what was believed. Asks a client."""

from collections.abc import Sequence
from typing import Final

from ctxmgr import File
from ctxmgr.core.client import Client
from ctxmgr.core.documents import Document
from ctxmgr.core.live_session import LiveSession
from ctxmgr.harness.chapters import Chapter
from ctxmgr.harness.watching import object_at, paths
from ctxmgr.messages import anthropic

LOOK_BACK: Final = 3
"""The turn whose prompt is made again."""


async def look_back(
    client: Client, session: LiveSession, *, received: Sequence[Document]
) -> tuple[Chapter, bool]:
    """Make an earlier prompt again; tell also whether it is proven."""
    session_id = session.session_id
    record = await client.store.get(f"turn:{session_id}:{LOOK_BACK}")
    assert record is not None
    recorded = str(record.document["prompt_hash"])
    prompt = await client.prompt_as_of(session_id, turn=LOOK_BACK)
    same = anthropic.payload(prompt) == received[LOOK_BACK - 1]
    readme = object_at(session, "README.md")
    answers = {
        f"hash recorded with turn {LOOK_BACK}": recorded,
        "hash of the prompt made again": prompt.prompt_hash(),
        "what the model received, byte for byte": "yes" if same else "no",
        "README.md was called": paths(prompt)[readme],
        "and is called here": paths(session.context())[readme],
    }
    chapter = Chapter(
        title=f"Turn {LOOK_BACK}, once more",
        says=f"What exactly did the model see in turn {LOOK_BACK}? The prompt is made again from "
        "the store alone, by the second client, and proves itself.",
        facts=tuple({"asked": asked, "answer": answer} for asked, answer in answers.items()),
    )
    return chapter, same and recorded == prompt.prompt_hash()


async def true_and_believed(client: Client, session: LiveSession, *, at: int) -> Chapter:
    """Ask both questions of tally.conf, of a moment before its change was known."""
    object_id = object_at(session, "tally.conf")
    believed = await client.believed_at(object_id, instant=at)
    true = await client.true_at(object_id, instant=at)
    return Chapter(
        title="What was true, and what was believed",
        says="tally.conf had been changed on another machine during turn 8; we learnt of it only "
        "when the session was resumed. Both questions keep their answer.",
        facts=(
            {"asked": "What did the agent believe then?", "answer": _line(believed)},
            {"asked": "What was true then?", "answer": _line(true)},
        ),
    )


def _line(stored: object) -> str:
    assert isinstance(stored, File)
    return " · ".join((stored.content or "").split())
