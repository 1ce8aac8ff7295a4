"""The stored assignment of a run, and the next user message."""

from dataclasses import replace
from typing import Any

import pytest

from ctxmgr import Chat, Corrupt, Incorrect, Turn
from ctxmgr.harness.run import Assignment

ASSIGNMENT = Assignment(
    session="run-1",
    task="Find it.",
    turn=1,
    workspace="/srv/project",
    sandbox=None,
    network=False,
    model="m",
    api="anthropic",
    base_url=None,
    started_here=True,
)
EMPTY = Chat(session_id="run-1")
ASKED = EMPTY.append(Turn(user="Find it.", assistant=({"type": "toolcall"},)))
ANSWERED = ASKED.append(Turn(user="", assistant=({"type": "text", "text": "Here."},)))


@pytest.mark.parametrize(("chat", "message"), [(EMPTY, "Find it."), (ASKED, "")])
def test_a_task_is_sent_once(chat: Chat, message: str) -> None:
    """It is the next message until a turn contains it; afterwards the model only continues."""
    assert ASSIGNMENT.user_message(chat) == message


def test_a_finished_session_needs_a_new_task() -> None:
    """Calling a model with nothing new would cost money for nothing."""
    with pytest.raises(Incorrect, match="run-1 has nothing left to do; give it a new task"):
        ASSIGNMENT.user_message(ANSWERED)


def test_a_new_task_belongs_to_the_next_turn() -> None:
    """It replaces an older task that was never answered."""
    later = ASSIGNMENT.with_task("Remove it.", chat=ANSWERED)

    assert (later.turn, later.user_message(ANSWERED)) == (3, "Remove it.")
    assert ASSIGNMENT.with_task("Look.", chat=EMPTY) == replace(ASSIGNMENT, task="Look.")


def test_an_assignment_is_read_back_unchanged() -> None:
    """It is a plain document next to the session."""
    document = ASSIGNMENT.to_document()

    assert Assignment.from_document(document) == ASSIGNMENT
    assert (document["xt/id"], document["type"]) == ("run:run-1", "run")


def test_an_assignment_without_a_required_field_is_corrupt() -> None:
    """A default would let an agent work in the wrong folder."""
    document: dict[str, Any] = ASSIGNMENT.to_document()
    del document["workspace"]

    with pytest.raises(Corrupt, match="run:run-1: the field 'workspace' is missing"):
        Assignment.from_document(document)


def test_an_assignment_of_an_earlier_version_is_plain() -> None:
    """It was stored before there were policies, and the run must be resumable."""
    document: dict[str, Any] = ASSIGNMENT.to_document()
    del document["policy"]

    assert Assignment.from_document(document) == ASSIGNMENT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session", None),
        ("task", 5),
        ("turn", "1"),
        ("turn", True),
        ("turn", 0),
        ("workspace", None),
        ("workspace", ["/"]),
        ("sandbox", 5),
        ("sandbox", {"a": 1}),
        ("network", "yes"),
        ("network", 1),
        ("model", None),
        ("api", 1.5),
        ("base_url", ["x"]),
        ("started_here", None),
        ("policy", 7),
    ],
)
def test_an_assignment_of_wrong_types_is_corrupt(field: str, value: object) -> None:
    """Whoever wrote the store may have put anything there; it is refused by name."""
    with pytest.raises(Corrupt, match=f"run:run-1: the field '{field}' is "):
        Assignment.from_document({**ASSIGNMENT.to_document(), field: value})
