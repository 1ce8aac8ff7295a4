"""Tier 1: triggers that match a message."""

from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.knowledge.topics import pattern_matcher
from ctxmgr.knowledge.topics.pattern_matcher import PatternMatcher
from ctxmgr.knowledge.topics.switches import WatcherSwitches
from ctxmgr.knowledge.topics.topic import Direction
from tests.knowledge.topics.topic_notes import make_topic


def matcher(*triggers: dict[str, Any], **switches: bool) -> PatternMatcher:
    """One topic per trigger, named t0, t1, …"""
    topics = [
        make_topic(f"t{number}", triggers=[trigger]) for number, trigger in enumerate(triggers)
    ]
    return PatternMatcher(topics, switches=WatcherSwitches(**switches))


def test_patterns_ignore_case_and_return_names() -> None:
    """Rows: 002-R091, 002-R099, 002-R206, 002-R237."""
    tier1 = matcher(
        {"type": "pattern", "match": r"\bdeploy"}, {"type": "pattern", "match": "größe"}
    )

    assert tier1.match("Please DEPLOY it") == {"t0"}
    assert tier1.match("die GRÖSSE, nein: GRÖßE") == {"t1"}
    assert tier1.match("redeploy") == set()


def test_the_scope_of_a_pattern_is_honoured() -> None:
    """Output triggers do not fire on what a person writes. Rows: 002-R086, 002-R110, 002-A11."""
    tier1 = matcher(
        {"type": "pattern", "match": "x", "scope": "input"},
        {"type": "pattern", "match": "x", "scope": "output"},
        {"type": "pattern", "match": "x", "scope": "both"},
    )

    assert tier1.match("x") == {"t0", "t2"}
    assert tier1.match("x", direction=Direction.OUTPUT) == {"t1", "t2"}


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "src/deep/a.py", True),
        ("*.py", "src/a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "repo/src/deep/a.py", True),
        ("migrations/**", "app/migrations/x/1.sql", True),
        ("Dockerfile*", "build/dockerfile.dev", True),
        ("/etc/*", "home/etc/x", False),
        ("a+b?.md", "a+bc.md", True),
        ("a.md", "aXmd", False),
    ],
)
def test_globs_match_paths_of_tool_calls(glob: str, path: str, fits: bool) -> None:  # noqa: FBT001
    """A topic can follow the files that an agent touches. Rows: 002-R092."""
    tier1 = matcher({"type": "path", "match": [glob]})

    assert tier1.match("", tool_paths=[path]) == ({"t0"} if fits else set())
    assert tier1.match(path) == set()


def test_keywords_match_words_and_phrases_in_any_form() -> None:
    """Rows: 002-R093."""
    tier1 = matcher(
        {"type": "keyword", "words": ["invoice"]}, {"type": "keyword", "words": ["credit note"]}
    )

    assert tier1.match("two Invoices and credit notes") == {"t0", "t1"}
    assert tier1.match("a note about credit; reinvoice") == set()


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("```python\nx = 1\n```", {"t0", "t1"}),
        ("~~~\nplain\n~~~", {"t0"}),
        ("see:\n\n    def f(x):\n        return x\n", {"t0"}),
        ("    indented prose\n    and more of it", set()),
        ("no code", set()),
    ],
)
def test_code_is_detected_by_fences_and_indentation(text: str, hit: set[str]) -> None:
    """Rows: 002-R094."""
    tier1 = matcher({"type": "code"}, {"type": "code", "languages": ["python"]})

    assert tier1.match(text) == hit


def test_the_language_of_a_message_is_detected() -> None:
    """Rows: 002-R095."""
    tier1 = matcher({"type": "language", "languages": ["de"]})

    assert tier1.match("Könnten Sie mir bitte sagen, wann die Rechnung kommt?") == {"t0"}
    assert tier1.match("Could you please tell me when the invoice will arrive?") == set()
    assert tier1.match("ok, ja") == set(), "too short to tell"


def test_mentions_are_an_at_or_a_name() -> None:
    """Rows: 002-R096."""
    tier1 = matcher(
        {"type": "mention"},
        {"type": "mention", "names": ["@ops"]},
        {"type": "mention", "names": ["Anna Berg"]},
    )

    assert tier1.match("@ops, please") == {"t0", "t1"}
    assert tier1.match("ask anna berg") == {"t2"}
    assert tier1.match("mail me@ops.example.com or ops") == set()


def test_urls_match_their_host_or_a_domain_above() -> None:
    """Rows: 002-R097."""
    tier1 = matcher({"type": "url"}, {"type": "url", "hosts": ["github.com"]})

    assert tier1.match("see https://gist.GitHub.com/x.") == {"t0", "t1"}
    assert tier1.match("see http://notgithub.com") == {"t0"}
    assert tier1.match("github.com without a scheme") == set()


def test_a_message_that_turns_agitated_is_a_shift() -> None:
    """Capitals and marks count; a second agitated message is not a shift. Rows: 002-R098."""
    tier1 = matcher({"type": "sentiment"})
    angry = "WHY does this STILL NOT WORK?! FIX IT!!"

    assert tier1.match(angry) == {"t0"}
    assert tier1.match("Why does this still not work?") == set()
    assert tier1.match("The HTTP and JSON APIs") == set()
    assert tier1.match(angry, previous=angry) == set()


@pytest.mark.parametrize(
    ("switch", "trigger", "text"),
    [
        ("patterns", {"type": "pattern", "match": "x"}, "x"),
        ("keywords", {"type": "keyword", "words": ["x"]}, "x"),
        ("code", {"type": "code"}, "```\nx\n```"),
        ("mentions", {"type": "mention"}, "@x"),
        ("urls", {"type": "url"}, "https://x.org"),
        ("sentiment_shift", {"type": "sentiment"}, "STOP THIS NOW!!"),
        ("paths", {"type": "path", "match": "a.py"}, ""),
        ("language", {"type": "language", "languages": ["de"]}, "Wo ist denn nur mein Schlüssel?"),
    ],
)
def test_each_algorithm_has_a_switch(switch: str, trigger: dict[str, Any], text: str) -> None:
    """An algorithm that harms can be turned off by itself. Rows: PG-31, 002-A33."""
    assert matcher(trigger).match(text, tool_paths=["a.py"]) == {"t0"}
    assert matcher(trigger, **{switch: False}).match(text, tool_paths=["a.py"]) == set()


def test_a_hostile_pattern_does_not_hold_up_a_message() -> None:
    """A backtracking engine would need years for this. Rows: 002-R088, 002-R091."""
    tier1 = matcher({"type": "pattern", "match": "^(a+)+$"}, {"type": "pattern", "match": "b$"})

    assert tier1.match("a" * 5_000 + "b") == {"t1"}


PATTERNS = st.lists(
    st.sampled_from([r"\bab", "a.c", "x|yz", "[0-9]+", "é", "q$", "a{2}", "(?:b|c)d", "^x"]),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(PATTERNS, st.text(alphabet="abcdxyzqÉé09 AX", max_size=30))
def test_the_filter_finds_what_each_pattern_finds(patterns: list[str], text: str) -> None:
    """The filter saves time and must not lose a match. Rows: 002-R099."""
    tier1 = matcher(*({"type": "pattern", "match": pattern} for pattern in patterns))

    single = {
        f"t{number}"
        for number, pattern in enumerate(patterns)
        if re2.search(pattern, text.encode(), pattern_matcher._options())
    }
    assert tier1.match(text) == single


def test_without_a_working_filter_patterns_are_tried_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A filter that has run out of memory would find nothing. Rows: 002-R099."""
    monkeypatch.setattr(pattern_matcher, "_combined", lambda _patterns: None)

    tier1 = matcher({"type": "pattern", "match": "deploy"}, {"type": "pattern", "match": "x"})

    assert tier1.match("Deploy it") == {"t0"}
