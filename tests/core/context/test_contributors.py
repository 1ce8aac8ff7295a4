"""Contributions of layers: texts within a budget that is counted in tokens."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import Section
from ctxmgr.core.context.contributors import contributions
from ctxmgr.core.context.tokens import TokenCounter
from tests.core.builders.values import texts

COUNT = TokenCounter().count


@dataclass
class Layer:
    """A contributor that always returns the same text."""

    text: str
    budget_tokens: int
    name: str = "layer"
    slot: Section = Section.STABLE

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        return self.text


def _contributed(*layers: Layer) -> list[str]:
    added = asyncio.run(contributions(layers, session_id="s1", turn=1, count=COUNT))
    return [contribution.text for contribution in added]


@given(st.lists(st.tuples(texts, st.integers(0, 20)), max_size=4))
def test_no_text_exceeds_its_budget_in_tokens(layers: list[tuple[str, int]]) -> None:
    """A text that fits its budget is added as it is, and no other is."""
    added = _contributed(*(Layer(text, budget) for text, budget in layers))

    assert added == [text for text, budget in layers if text and COUNT(text) <= budget]


@pytest.mark.parametrize("text", ["龘" * 30, "{}[]()" * 20, "\u200d" * 39])
def test_a_dense_text_is_refused_however_few_its_characters(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Four characters a token would have admitted it: budgets are spent in tokens (PG-07)."""
    budget = len(text) // 4 + 1
    assert COUNT(text) > budget

    assert _contributed(Layer(text, budget)) == []
    assert f"{COUNT(text)} tokens exceed its budget of {budget}" in caplog.text


def test_long_words_may_use_the_whole_budget() -> None:
    """Text of more than four characters a token is not refused by an estimate."""
    text = "internationalization " * 20

    assert len(text) > 4 * COUNT(text)
    assert _contributed(Layer(text, COUNT(text))) == [text]
    assert _contributed(Layer(text, COUNT(text) - 1)) == []
