"""An event of a coding agent's hook, checked, and the same for every client. No I/O.

client                 names that differ
Claude Code, Codex     UserPromptSubmit  PostToolUse  Stop        PreCompact
Gemini CLI             BeforeAgent       AfterTool    AfterAgent  PreCompress
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from ctxmgr.core.store.documents import storable
from ctxmgr.errors import Incorrect
from ctxmgr.integrations.agents.spool import EVENT_BYTES_MAX, SpooledEvent

_SAME: Final[Mapping[str, str]] = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "StopFailure": "Stop",
}

_ANSWERS: Final = ("last_assistant_message", "prompt_response")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """One event of a session."""

    name: str
    session: str
    """The client's session; for an event of a subagent, followed by the subagent."""
    directory: str
    """Where the agent works at the moment."""
    at: int
    """When it happened, in UTC milliseconds."""
    project: str
    """The project's folder as the client's process has it; empty: unknown."""
    client_folder: str
    """Where Claude Code keeps its own files."""
    codex_folder: str
    fields: Mapping[str, Any]
    key: str
    """Identifies the event when it is read again after a crash."""

    @classmethod
    def read(cls, spooled: SpooledEvent) -> Self:
        """Check an event; ``Incorrect`` says what is wrong with it."""
        fields = parse_event(spooled.data)
        name, session = text_field(fields, "hook_event_name"), text_field(fields, "session_id")
        agent = fields.get("agent_id")
        if isinstance(agent, str) and agent:
            session = f"{session}/{agent}"
        digest = hashlib.sha256(b"%d %s" % (spooled.at, spooled.data)).hexdigest()
        return cls(
            name=_SAME.get(name, name),
            session=session,
            directory=_folder(fields, "cwd"),
            at=spooled.at,
            project=spooled.project,
            client_folder=spooled.client_folder,
            codex_folder=spooled.codex_folder,
            fields=fields,
            key=digest[:24],
        )

    @property
    def client_session(self) -> str:
        """The client's session, also for an event of a subagent."""
        return text_field(self.fields, "session_id")

    @property
    def prompt(self) -> str:
        """What the user asked; empty if the event does not say."""
        value = self.fields.get("prompt")
        return storable(value) if isinstance(value, str) else ""

    @property
    def answer(self) -> str:
        """The agent's last message; empty if the event does not say."""
        found = (self.fields.get(name) for name in _ANSWERS)
        return next((storable(text) for text in found if isinstance(text, str)), "")

    @property
    def model(self) -> str | None:
        value = self.fields.get("model")
        return storable(value) if isinstance(value, str) and value else None

    @property
    def tool(self) -> str:
        return text_field(self.fields, "tool_name")

    @property
    def call_id(self) -> str:
        """The id of the tool call; made from the event if the client gives none."""
        value = self.fields.get("tool_use_id")
        return value if isinstance(value, str) and value else f"{self.session}:{self.key}"

    @property
    def args(self) -> dict[str, Any]:
        value = self.fields.get("tool_input")
        return storable(value) if isinstance(value, dict) else {"raw": storable(str(value))}


def parse_event(data: bytes) -> dict[str, Any]:
    """Read an event; ``Incorrect`` if it is too large, or not a JSON object."""
    if len(data) > EVENT_BYTES_MAX:
        raise Incorrect(f"the event has more than {EVENT_BYTES_MAX} bytes")
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"standard input is not valid JSON: {error}") from error
    if not isinstance(event, dict):
        raise Incorrect(f"an event must be a JSON object, not {event!r:.80}")
    return event


def text_field(event: Mapping[str, Any], name: str) -> str:
    """Return a field of an event; ``Incorrect`` unless it is text."""
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise Incorrect(f"the field {name!r} of a hook's event is text, not {value!r:.80}")
    return value


def _folder(event: Mapping[str, Any], name: str) -> str:
    value = text_field(event, name)
    try:
        value.encode()
    except UnicodeError as error:
        raise Incorrect(f"the folder {value!r:.200} is not valid UTF-8") from error
    if not value.startswith("/") or "\0" in value:
        raise Incorrect(f"the folder of an event must be an absolute path, not {value!r:.200}")
    return value
