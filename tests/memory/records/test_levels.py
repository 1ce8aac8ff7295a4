"""One memory at four lengths."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.core.context.tokens import named_vocabulary
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.memory.records.levels import INDEX_CHARS_MAX, levels_by_rule

LINE = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1).map(
    lambda text: text[:100]
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: bool(text.strip())
)
BODIES: st.SearchStrategy[Body] = st.one_of(
    st.builds(Fact, key=LINE, value=TEXT, reason=st.none() | TEXT),
    st.builds(Episode, title=LINE, full_narrative=TEXT, problem=st.none() | TEXT),
    st.builds(
        Pattern,
        name=LINE,
        trigger=LINE,
        hint=LINE,
        template=st.dictionaries(LINE, TEXT, min_size=1, max_size=3),
    ),
    st.builds(
        Workflow, name=LINE, trigger=LINE, hint=LINE, steps=st.lists(LINE, min_size=1, max_size=3)
    ).map(lambda each: each),
)


@pytest.fixture(scope="module")
def count() -> Callable[[str], int]:
    return named_vocabulary("cl100k_base").count


def test_a_fact_becomes_shorter_from_level_to_level(count: Callable[[str], int]) -> None:
    """001-R087, 001-R025, 001-R027: a phrase with reasons, a terse form, a minimal key."""
    said = (
        "From now on please always indent Python code in this repository with four spaces and never"
        " with tabs, because the linter of the continuous integration refuses tabs."
    )
    fact = Fact(key="indentation", value="4 spaces", scope="python", reason="the linter wants it")

    levels = levels_by_rule(fact, count, original=said)

    assert levels.full == said
    assert levels.summary == "indentation: 4 spaces (python), because the linter wants it"
    assert levels.compressed == "indentation: 4 spaces"
    assert levels.index == "indentation"
    assert count(levels.compressed) * 3 < count(said)


def test_an_episode_is_summarised_by_problem_fix_and_outcome(count: Callable[[str], int]) -> None:
    """001-R088, 001-R034: the narrative is long, its summary a line, its index a slug."""
    narrative = "We looked at the failing login test for an hour. " * 40
    episode = Episode(
        title="Login test failed after midnight",
        full_narrative=narrative,
        problem="The login test failed after midnight.",
        fix="Compare instants in UTC.",
        outcome="The tests pass.",
    )

    levels = levels_by_rule(episode, count)

    assert levels.summary == (
        "The login test failed after midnight; Compare instants in UTC; The tests pass"
    )
    assert levels.compressed == "Login test failed after midnight"
    assert levels.index == "login-test-failed"
    assert count(narrative) > 10 * count(levels.summary)


def test_patterns_and_workflows_have_their_hint_as_level_2(count: Callable[[str], int]) -> None:
    """001-R089, 001-R038, 001-R041."""
    pattern = Pattern(
        name="endpoint",
        trigger="new HTTP endpoint",
        template={"route": "@router.post(path)", "validation": "body: Model"},
        hint="route, validate",
    )
    workflow = Workflow(
        name="release", trigger="release", steps=("bump", "tag", "push"), hint="bump, tag, push"
    )

    assert levels_by_rule(pattern, count).compressed == pattern.hint
    assert levels_by_rule(pattern, count).index == "endpoint"
    assert levels_by_rule(workflow, count).summary == "bump → tag → push"
    assert levels_by_rule(workflow, count).compressed == workflow.hint


@given(body=BODIES, original=st.none() | TEXT)
@settings(max_examples=60, deadline=None)
def test_no_level_is_longer_than_the_one_before(body: Body, original: str | None) -> None:
    """001-A14, 001-R090, 001-R096: whatever the memory says."""
    count = named_vocabulary("cl100k_base").count

    levels = levels_by_rule(body, count, original=original)

    texts = [levels.at(level) for level in range(4)]
    tokens = [count(text) for text in texts]
    assert tokens == sorted(tokens, reverse=True)
    assert len(levels.index) <= INDEX_CHARS_MAX


def test_a_sentence_is_shown_whole_and_without_its_key(count: Callable[[str], int]) -> None:
    """001-R089: a rule that is cut in the middle is another rule."""
    said = "The deploy runs on port 8443"
    levels = levels_by_rule(Fact(key="deploy runs on port", value=said), count, original=said)

    assert (levels.summary, levels.compressed) == (said, said)
