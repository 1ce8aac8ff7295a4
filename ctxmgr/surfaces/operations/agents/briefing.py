"""What a coding agent is told where a conversation begins: the last work. Reads the store.

    what its last sessions were asked and answered, newest first
    calls of the newest one that failed, and did not succeed later
    files of it that have changed on disk since
    memories of the project

Nothing is said on ``resume``, where the model has its conversation. After a compaction it is about
the session itself. Secrets are masked, and the whole is limited: it costs tokens in every session.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import BATCH_MAX, Store
from ctxmgr.integrations.agents.capture import COMPACT
from ctxmgr.surfaces.local_state import project_sessions
from ctxmgr.surfaces.views.recalled import describe_args, one_line
from ctxmgr.surfaces.views.sessions import pick_sessions

if TYPE_CHECKING:
    from ctxmgr.app import App

CHARACTERS_MAX: Final = 6_000
"""Some 1,500 tokens. Claude Code accepts 10,000 characters of a hook."""

MEMORY_TOKENS_MAX: Final = 600
"""Of memories, within that."""

SESSIONS_MAX: Final = 3
CALLS_MAX: Final = 400
"""Of the newest session, from its end."""
FAILURES_MAX: Final = 5
FILES_MAX: Final = 10
PROMPT_CHARACTERS: Final = 300
ANSWER_CHARACTERS: Final = 500
ERROR_CHARACTERS: Final = 200

_PATH_ARGUMENTS: Final = ("file_path", "path", "filePath", "notebook_path", "absolute_path")
"""Of the tools of Claude Code, Gemini CLI and opencode."""

SILENT: Final = frozenset({"resume"})
"""Sources of a SessionStart at which the model has its conversation anyway."""

OPENING: Final = (
    "From ctxmgr, which keeps the sessions of this project. Its MCP tools recall and show give "
    "more: recall searches all of them, show prints what has an id."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """An earlier session of the project."""

    session_id: str
    chat: Chat


async def briefing(app: "App", session_id: str, *, source: str, project: Path) -> str:
    """Return the text for the model; empty if there is nothing to say."""
    if source in SILENT:
        return ""
    store = await app.store()
    past = await _past_sessions(app, store, session_id, project=project, own=source == COMPACT)
    sections = []
    if past:
        calls = await _last_calls(store, past[0])
        sections = [_work(past), _failures(calls), _changed_files(calls, past[0], project)]
    memory = await app.memory(project)
    sections.append((await memory.assemble_context(MEMORY_TOKENS_MAX)).context.strip())
    said = [section for section in sections if section]
    return app.masker.shown(_limited([OPENING, *said])) if said else ""


async def _past_sessions(
    app: "App", store: Store, session_id: str, *, project: Path, own: bool
) -> list[PastSession]:
    if own:
        names = [session_id]
    else:
        known = project_sessions(app, project)
        # What a subagent did, its session's own call tells.
        others = [name for name in known if name != session_id and "/" not in name]
        page = await pick_sessions(store, others, limit=SESSIONS_MAX, cursor=None)
        names = [line.session_id for line in page.sessions]
    found = await store.get_many([chat_id(name) for name in names])
    chats = ((name, found.get(chat_id(name))) for name in names)
    read = [(name, from_document(chat.document)) for name, chat in chats if chat is not None]
    return [
        PastSession(session_id=name, chat=chat)
        for name, chat in read
        if isinstance(chat, Chat) and chat.turns
    ]


async def _last_calls(store: Store, past: PastSession) -> list[ToolCall]:
    ids = list(past.chat.toolcall_refs)[-min(CALLS_MAX, BATCH_MAX) :]
    found = await store.get_many(ids) if ids else {}
    read = (from_document(found[name].document) for name in ids if name in found)
    return [call for call in read if isinstance(call, ToolCall)]


def _work(past: Sequence[PastSession]) -> str:
    lines = ["Last work here:"]
    for session in past:
        turn = session.chat.turns[-1]
        calls = len(session.chat.toolcall_refs)
        lines.append(
            f"- session {session.session_id}: {session.chat.turn_count} turns, {calls} tool calls"
        )
        if turn.user:
            lines.append(f"  asked: {one_line(turn.user, PROMPT_CHARACTERS)}")
        answer = _answer(turn)
        if answer:
            lines.append(f"  answered: {one_line(answer, ANSWER_CHARACTERS)}")
    return "\n".join(lines)


def _failures(calls: Sequence[ToolCall]) -> str:
    """Return the calls that failed and were not repeated with success, newest first."""
    succeeded: set[str] = set()
    lines: list[str] = []
    for call in reversed(calls):
        key = json.dumps([call.tool, call.args], sort_keys=True, default=str)
        if call.status == "ok":
            succeeded.add(key)
        elif key not in succeeded and len(lines) < FAILURES_MAX:
            succeeded.add(key)
            last = (call.content or "").strip().rpartition("\n")[2]
            error = f": {one_line(last, ERROR_CHARACTERS)}" if last else ""
            lines.append(f"- {call.tool} {describe_args(call.args)} (id {call.object_id}){error}")
    return "\n".join(["Failed there, and not repeated with success:", *lines]) if lines else ""


def _changed_files(calls: Sequence[ToolCall], past: PastSession, project: Path) -> str:
    """Return the files that those calls named and that are newer than the session's last turn."""
    ended = past.chat.turns[-1].assistant_meta.timestamp
    if ended is None:
        return ""
    names = dict.fromkeys(path for call in calls for path in _paths(call.args))
    changed = [name for name in names if _is_newer(project, name, ended)]
    lines = [f"- {name}" for name in changed[:FILES_MAX]]
    more = len(changed) - len(lines)
    lines += [f"- and {more} more"] if more > 0 else []
    return "\n".join(["Changed since, of the files that it used:", *lines]) if lines else ""


def _paths(args: Any) -> Iterable[str]:
    for name in _PATH_ARGUMENTS:
        if isinstance(args.get(name), str):
            yield args[name]


def _is_newer(project: Path, name: str, ended: int) -> bool:
    """Return whether a file of the project was changed after a time in milliseconds."""
    try:
        path = (project / name).resolve()
        return path.is_relative_to(project.resolve()) and path.stat().st_mtime * 1000 > ended
    except (OSError, ValueError, RuntimeError):  # the last one: a link to itself
        return False


def _answer(turn: Turn) -> str:
    texts = [part.get("text") for part in turn.assistant if part.get("type") == "text"]
    return str(texts[-1]) if texts else ""


def _limited(sections: Sequence[str]) -> str:
    """Join as many sections as fit; of the one that does not, its first lines."""
    kept: list[str] = []
    left = CHARACTERS_MAX
    for line in "\n\n".join(sections).split("\n"):
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join(kept).rstrip() + "\n"
