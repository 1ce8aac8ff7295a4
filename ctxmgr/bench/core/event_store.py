"""A conversation in the library ``eventsourcing``, the baseline of resuming. Writes a file."""

from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

_NAME = "long"


class EventChat(Aggregate):
    """A conversation whose turns are events."""

    @event("Started")
    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[list[str]] = []

    @staticmethod
    def create_id(name: str) -> UUID:
        return uuid5(NAMESPACE_URL, name)

    @event("TurnEnded")
    def end_turn(self, texts: list[str]) -> None:
        self.turns.append(texts)


def store_turns(path: Path, turns: list[list[str]]) -> None:
    """Store the texts of every turn as one event."""
    chat = EventChat(_NAME)
    for texts in turns:
        chat.end_turn(texts)
    with _opened(str(path)) as application:
        application.save(chat)


def read_turns(path: str) -> list[list[str]]:
    """Read the conversation from its events."""
    with _opened(path) as application:
        chat: EventChat = application.repository.get(EventChat.create_id(_NAME))
        return chat.turns


def _opened(path: str) -> Application[UUID]:
    return Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path})
