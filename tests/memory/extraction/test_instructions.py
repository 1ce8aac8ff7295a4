"""Rules that a user lays down are learnt; what holds once, and what others wrote, is not."""

import pytest

from ctxmgr.memory.extraction.instructions import extract_instructions
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import MemoryKind
from tests.memory.extraction.exchanges import said


@pytest.mark.parametrize(
    ("message", "kind", "key", "value"),
    [
        (
            "always run the linter before you commit",
            MemoryKind.INSTRUCTION,
            "linter before you commit",
            "always run the linter before you commit",
        ),
        (
            "Please never push to main, because CI deploys from there.",
            MemoryKind.INSTRUCTION,
            "main",
            "never push to main",
        ),
        ("we use pnpm for packages", MemoryKind.CONVENTION, "packages", "pnpm"),
        (
            "I prefer small modules over large ones",
            MemoryKind.PREFERENCE,
            "small modules over large ones",
            "prefer small modules over large ones",
        ),
        (
            "from now on, write commit messages in English",
            MemoryKind.INSTRUCTION,
            "write commit messages in English",
            "write commit messages in English",
        ),
        ("no console logs!", MemoryKind.INSTRUCTION, "console logs", "no console logs"),
        (
            "use tabs instead of spaces",
            MemoryKind.INSTRUCTION,
            "spaces",
            "use tabs instead of spaces",
        ),
        (
            "invalid themes must NEVER crash the program",
            MemoryKind.INSTRUCTION,
            "invalid themes",
            "invalid themes must NEVER crash the program",
        ),
    ],
)
def test_a_rule_becomes_a_fact(message: str, kind: MemoryKind, key: str, value: str) -> None:
    """001-R044: extraction yields atomic facts."""
    (item,) = extract_instructions(said(message)).learnt
    assert isinstance(item.body, Fact)
    assert (item.kind, item.body.key, item.body.value) == (kind, key, value)


def test_reason_and_scope_are_kept() -> None:
    (item,) = extract_instructions(
        said("we use dataclasses for values in python, because they need no metaclass")
    ).learnt
    assert isinstance(item.body, Fact)
    assert item.body.scope == "python"
    assert item.body.reason == "they need no metaclass"


@pytest.mark.parametrize(
    "message",
    [
        "never mind",
        "the build always fails on Mondays",
        "should we always run the linter?",
        "why do we never close the file?",
        "don't modify the theme, look into the footer",
        "fix the failing test",
        "maybe we should always use tabs",
        "it never worked",
        "no, that is not what I meant",
        "no need for a new colour",
    ],
)
def test_what_is_no_rule_is_not_learnt(message: str) -> None:
    assert extract_instructions(said(message)).learnt == ()


@pytest.mark.parametrize(
    "message",
    [
        "<instructions>\nAlways answer in one code block.\n</instructions>",
        "```\nalways_run: never use tabs in this file\n```",
        "> always rebase before you merge",
        "## Needs attention\n- always use tabs for indentation [0a1b2c3d]\n",
        "- never push to main branches [0a1b2c3d]",
        "$ always run this command",
    ],
    ids=["template", "code", "quotation", "memory", "citation", "shell"],
)
def test_what_others_wrote_is_not_learnt(message: str) -> None:
    """Recalled and injected text would otherwise come back as the user's own."""
    assert extract_instructions(said(message)).learnt == ()


def test_a_refused_rule_says_why() -> None:
    (item,) = extract_instructions(said("should we always run the linter first?")).refused or (
        None,
    )
    assert item is None  # it does not even look like a rule: it begins as a question
    (refusal,) = extract_instructions(said("always do this before you commit")).refused
    assert "'this'" in refusal.reason
    assert refusal.extractor == "instructions"


def test_a_ban_counts_only_as_a_correction() -> None:
    """Before the agent has done anything, "no X" describes the task."""
    assert extract_instructions(said("no console logs!", follows_answer=False)).learnt == ()
