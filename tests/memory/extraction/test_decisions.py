"""Decisions are learnt when somebody says that they decide."""

import pytest

from ctxmgr.memory.extraction.decisions import extract_decisions
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Author
from tests.memory.extraction.exchanges import said


@pytest.mark.parametrize(
    ("message", "key", "value", "reason"),
    [
        (
            "let's use SQLite for the cache, because nothing has to be installed",
            "cache",
            "SQLite",
            "nothing has to be installed",
        ),
        ("We decided to drop Python 3.10.", "Python 3.10", "drop Python 3.10", None),
        ("ok, let's switch from npm to pnpm", "npm", "pnpm", None),
        ("we'll go with argon2 for password hashes", "password hashes", "argon2", None),
    ],
)
def test_a_decision_becomes_a_fact(message: str, key: str, value: str, reason: str | None) -> None:
    (item,) = extract_decisions(said(message)).learnt
    assert isinstance(item.body, Fact)
    assert (item.body.key, item.body.value, item.body.reason) == (key, value, reason)


@pytest.mark.parametrize(
    "message",
    [
        "let's use this",
        "should we use SQLite for the cache?",
        "let's keep going",
        "maybe we'll use SQLite for the cache",
        "let's see what happens",
    ],
)
def test_what_is_not_decided_is_not_learnt(message: str) -> None:
    assert extract_decisions(said(message)).learnt == ()


def test_an_agent_decides_only_with_a_reason() -> None:
    """What an agent does next is a plan."""
    chose = "I chose to keep the old parser for headers, because clients depend on its errors."
    (item,) = extract_decisions(said("", answer=chose)).learnt
    assert isinstance(item.body, Fact)
    assert item.body.reason == "clients depend on its errors"
    assert extract_decisions(said("", answer="I chose to keep the old parser.")).learnt == ()
    plan = "I decided to look at the parser first, because the error names it."
    assert extract_decisions(said("", answer=plan)).learnt == ()


def test_what_an_agent_decided_is_marked_as_its_own() -> None:
    """A user's word counts for more than an agent's: prompts and people see whose it was."""
    chose = "Decision: keep the old parser for headers, because clients depend on its errors."

    (own,) = extract_decisions(said("", answer=chose)).learnt
    (users,) = extract_decisions(said("let's use SQLite for the cache")).learnt

    assert (own.author, users.author) == (Author.AGENT, Author.RULE)
