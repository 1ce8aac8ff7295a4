"""What a run was asked to do, kept beside its session. Touches nothing.

    run:{session}     a plain document: the task, the turn that will hold it, where and with what

A chat holds what was answered. A task that was given and not answered yet is here, so that a run
that was killed in its first turn goes on like any other. No key is in it.
"""

from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from typing import Any, Final, Self

from ctxmgr import Chat, Corrupt, Incorrect

KIND: Final = "run"

PLAIN: Final = "plain"
"""No policy: the four sections."""

_ASKING: Final = frozenset({"toolcall", "contextcall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One session's orders."""

    session: str
    task: str
    turn: int
    """The number of the turn that holds the task, or will."""
    workspace: str
    """The folder on the host."""
    sandbox: str | None
    """None: the best there is."""
    network: bool
    model: str
    api: str
    base_url: str | None
    started_here: bool
    """The session was made by a run: its system prompt is the run's."""
    policy: str = PLAIN
    """How prompts are rendered; orders of earlier versions have none."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        try:
            needed = [each for each in fields(cls) if each.name in document or not _may_lack(each)]
            return cls(**{each.name: document[each.name] for each in needed})
        except KeyError as error:
            raise Corrupt(f"{document['xt/id']}: the field {error} is missing") from error

    def to_document(self) -> dict[str, Any]:
        return {"xt/id": document_id(self.session), "type": KIND, **asdict(self)}

    def ordered(self, task: str, *, chat: Chat) -> Self:
        """Return it with another task, for the turn that comes next."""
        return replace(self, task=task, turn=chat.turn_count + 1)

    def words(self, chat: Chat) -> str:
        """Return what is new for the model: the task if no turn holds it, else nothing.

        ``Incorrect`` if the task is held and the model's last answer asked for nothing more.
        """
        if chat.turn_count < self.turn:
            return self.task
        if _ASKING.isdisjoint(part["type"] for part in chat.turns[-1].assistant):
            raise Incorrect(f"session {self.session} has nothing left to do: give it a new task")
        return ""


def _may_lack(field: Field[Any]) -> bool:
    return field.default is not MISSING


def document_id(session_id: str) -> str:
    return f"{KIND}:{session_id}"
