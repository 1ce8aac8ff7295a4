"""Counting tokens: exact where the tokenizer is known, once per text, within a bound."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import ActiveBlock, Context, Section
from ctxmgr.core.context.tokens import (
    CL100K,
    EXACT,
    KEY_CHARS_MAX,
    O200K,
    UNKNOWN,
    TokenCounter,
    Vocabulary,
    declared_bound,
    vocabulary,
)

PUBLISHED = (
    ("tiktoken is great!", CL100K, 6),
    ("antidisestablishmentarianism", CL100K, 6),
    ("2 + 2 = 4", CL100K, 7),
    ("お誕生日おめでとう", CL100K, 9),
    ("お誕生日おめでとう", O200K, 8),
    ("antidisestablishmentarianism", O200K, 6),
)
"""Counts from the guide of the vocabularies' publisher."""

_LOAD_WITHOUT_NETWORK = """
import socket, sys
def refuse(event, arguments):
    if event.startswith("socket."):
        raise SystemExit(f"{event}{arguments}")
sys.addaudithook(refuse)
from ctxmgr.core.context.tokens import TokenCounter
print(TokenCounter().count("hello world"))
"""


class Tally:
    """A vocabulary that records the texts it counted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text)

    def counter(self, *, counts_max: int = 100) -> TokenCounter:
        return TokenCounter(Vocabulary("tally", self.count), counts_max=counts_max)


@pytest.mark.parametrize(("text", "name", "tokens"), PUBLISHED)
def test_counts_equal_the_published_ones(text: str, name: str, tokens: int) -> None:
    """A count is only useful if it equals the provider's."""
    model = {CL100K: "gpt-4", O200K: "gpt-4o"}[name]

    assert TokenCounter(vocabulary(model)).count(text) == tokens


def test_counting_needs_no_network() -> None:
    """Agents may run offline, where a vocabulary cannot be downloaded."""
    run = [sys.executable, "-c", _LOAD_WITHOUT_NETWORK]

    answer = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)

    assert (answer.stdout.strip(), answer.returncode) == ("2", 0), answer.stderr


@given(st.text(max_size=400))
def test_any_text_has_a_count(text: str) -> None:
    """Tool output may be any text; counting it must never fail a turn."""
    counter = TokenCounter()

    tokens = counter.count(text)

    assert (tokens == 0) == (text == "")
    assert tokens <= len(text.encode(errors="surrogatepass"))


def test_a_lone_surrogate_counts_as_its_replacement() -> None:
    """It cannot be sent to a provider, but counting must not fail."""
    assert TokenCounter().count("a\ud800b") == TokenCounter().count("a?b")


def test_control_tokens_in_text_count_as_ordinary_text() -> None:
    """Tool output is text, even if it looks like a control token."""
    assert TokenCounter().count("<|endoftext|>") > 1


@pytest.mark.parametrize("text", ["short", "long " * KEY_CHARS_MAX])
def test_a_text_is_counted_once(text: str) -> None:
    """Most of a prompt is unchanged; recounting it each turn would cost quadratic time."""
    tally = Tally()
    counter = tally.counter()

    assert counter.count(text) == counter.count(text) == len(text)

    assert tally.asked == [text]


def test_the_cache_of_counts_is_bounded() -> None:
    """A session that lasts a week must not keep a count of every text."""
    tally = Tally()
    counter = tally.counter(counts_max=3)

    for number in range(100):
        counter.count(f"text {number}")

    assert len(counter._counts) <= 6


def test_recently_used_counts_stay_cached() -> None:
    """The system prompt is counted every turn, and newer texts must not evict it."""
    tally = Tally()
    counter = tally.counter(counts_max=3)

    for number in range(50):
        counter.count("system prompt")
        counter.count(f"text {number}")

    assert tally.asked.count("system prompt") == 1


def test_sections_are_counted_separately() -> None:
    """Users want to know which section fills the window."""
    counter = TokenCounter()
    block = ActiveBlock("call-1", "output of the tool\n" * 10)
    context = Context(session_id="s1", system_prompt="Be brief.", user="Why?", active=(block,))

    sections = counter.count_sections(context.blocks())

    assert list(sections) == [Section.SYSTEM, Section.CHAT, Section.ACTIVE]
    assert sections[Section.ACTIVE] == counter.count(block.text)


@pytest.mark.parametrize(
    ("model", "name", "bound"),
    [
        ("gpt-5-codex", O200K, EXACT),
        ("openai/gpt-4o-mini", O200K, EXACT),
        ("o3", O200K, EXACT),
        ("gpt-4-0613", CL100K, EXACT),
        ("claude-opus-4-5", CL100K, UNKNOWN),
        ("gemini-3-pro-preview", CL100K, UNKNOWN),
    ],
)
def test_an_unknown_tokenizer_declares_its_bound(model: str, name: str, bound: object) -> None:
    """Code that fills a window must know how far the count may be off."""
    chosen = vocabulary(model)

    assert (chosen.name, chosen.bound) == (name, bound)
    assert declared_bound(model) == bound
