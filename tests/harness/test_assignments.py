"""What a run was asked to do, and what of it is still new for the model."""

from dataclasses import replace
from typing import Any

import pytest

from ctxmgr import Chat, Corrupt, Incorrect, Turn
from ctxmgr.harness.assignments import Assignment

ORDERS = Assignment(
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


@pytest.mark.parametrize(("chat", "words"), [(EMPTY, "Find it."), (ASKED, "")])
def test_a_task_is_said_once(chat: Chat, words: str) -> None:
    """Until a turn holds it, it is new; afterwards the model only goes on."""
    assert ORDERS.words(chat) == words


def test_where_nothing_is_left_to_do_a_task_is_needed() -> None:
    """Asking a model with nothing new would pay for chatter."""
    with pytest.raises(Incorrect, match="run-1 has nothing left to do: give it a new task"):
        ORDERS.words(ANSWERED)


def test_a_new_task_belongs_to_the_turn_that_comes() -> None:
    """Also where an older one was never answered: then it takes its place."""
    later = ORDERS.ordered("Remove it.", chat=ANSWERED)

    assert (later.turn, later.words(ANSWERED)) == (3, "Remove it.")
    assert ORDERS.ordered("Look.", chat=EMPTY) == replace(ORDERS, task="Look.")


def test_orders_are_read_back_as_they_were() -> None:
    """They are a plain document beside the session."""
    document = ORDERS.to_document()

    assert Assignment.from_document(document) == ORDERS
    assert (document["xt/id"], document["type"]) == ("run:run-1", "run")


def test_orders_that_lack_something_are_damaged() -> None:
    """A default would let an agent work in the wrong folder."""
    document: dict[str, Any] = ORDERS.to_document()
    del document["workspace"]

    with pytest.raises(Corrupt, match="run:run-1: the field 'workspace' is missing"):
        Assignment.from_document(document)


def test_orders_of_an_earlier_version_are_plain() -> None:
    """They were given before there were policies, and a run must be able to go on."""
    document: dict[str, Any] = ORDERS.to_document()
    del document["policy"]

    assert Assignment.from_document(document) == ORDERS
