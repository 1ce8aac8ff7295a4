"""Why a cached prefix broke: the first changed byte, its object, and the cost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Block,
    Context,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.history.cache_breaks import PrefixBreak, PrefixChange, call_costs, compare
from ctxmgr.core.history.prompt_rows import Prompt, common_length
from ctxmgr.core.objects.answers import AnswerText


def prompt(context: Context) -> Prompt:
    return Prompt.of(context.blocks(), count=len)


def file_entry(name: str, chars: int) -> PoolEntry:
    line = f"id={name} type=file path=/{name}.py file_type=py char_count={chars}\n"
    return PoolEntry(object_id=name, line=line)


CONTEXT = Context(
    session_id="s1",
    system_prompt="Be brief.\nBe kind.",
    pool=Pool([file_entry("a", 10), file_entry("b", 20)]),
    transcript=Transcript([ShownTurn("What is é?", (AnswerText(text="A letter."),))]),
    user="And ß?",
    active=(ActiveBlock("a", "one\ntwo\n"), ActiveBlock("b", "three\n")),
)


def against(changed: Context) -> PrefixBreak:
    return compare(prompt(CONTEXT), prompt(changed), count=len)


def test_a_prompt_that_only_grew_did_not_break() -> None:
    """A question appended at the end keeps everything before it."""
    longer = replace(CONTEXT, active=(*CONTEXT.active, ActiveBlock("c", "four\n")))

    broken = against(longer)

    assert broken.change is PrefixChange.APPENDED
    assert broken.first_byte is None
    assert broken.kept_tokens == prompt(CONTEXT).tokens


def test_a_changed_file_is_named_with_its_field() -> None:
    """The pool line of a changed file comes long before its text."""
    pool = CONTEXT.pool.change({"b": file_entry("b", 21)})

    broken = against(replace(CONTEXT, pool=pool))

    assert (broken.change, broken.section) == (PrefixChange.CHANGED, Section.POOL)
    assert (broken.object_id, broken.field) == ("b", "char_count")


def test_a_new_line_in_the_pool_breaks_everything_after_it() -> None:
    """The plain layout pays this for every tool call (D5)."""
    broken = against(replace(CONTEXT, pool=CONTEXT.pool.add([file_entry("c", 5)])))

    assert (broken.change, broken.object_id) == (PrefixChange.NEW, "c")


def test_changed_content_is_reported_with_its_line() -> None:
    """People look for a line, not for byte 4,711."""
    changed = (ActiveBlock("a", "one\nTWO\n"), CONTEXT.active[1])

    broken = against(replace(CONTEXT, active=changed))

    assert (broken.change, broken.object_id, broken.field) == (
        PrefixChange.CHANGED,
        "a",
        "content, line 2",
    )


def test_folded_content_is_reported_as_gone() -> None:
    """Folding breaks the prefix too, and its price should be known."""
    broken = against(replace(CONTEXT, active=CONTEXT.active[1:]))

    assert (broken.change, broken.object_id) == (PrefixChange.REMOVED, "a")


def test_a_prompt_cut_at_its_end_reports_its_last_piece_as_gone() -> None:
    """A removal at the end is named as well."""
    broken = against(replace(CONTEXT, active=CONTEXT.active[:1]))

    assert (broken.change, broken.object_id) == (PrefixChange.REMOVED, "b")


def test_reordered_content_is_reported_as_moved() -> None:
    """A changed order costs as much as new content."""
    broken = against(replace(CONTEXT, active=CONTEXT.active[::-1]))

    assert broken.change is PrefixChange.MOVED


def test_the_first_byte_is_counted_in_bytes() -> None:
    """Providers see bytes; é is two of them."""
    broken = against(replace(CONTEXT, user="And ss?"))

    before = CONTEXT.text().partition("And ")[0] + "And "
    assert broken.first_byte == len(before.encode())
    assert (broken.section, broken.field) == (Section.CHAT, "user")


def test_a_changed_system_prompt_breaks_at_the_beginning() -> None:
    """The most expensive break: nothing of the prefix remains."""
    broken = against(replace(CONTEXT, system_prompt="At 10:01. Be brief.\nBe kind."))

    assert broken.first_byte == 0
    assert (broken.object_id, broken.field) == ("system_prompt:s1", "content, line 1")


def test_a_break_in_the_conversation_names_the_nearest_object() -> None:
    """A stream holds many outputs in one section; the chat's id would not help."""
    pieces = [
        [Block(section=Section.CHAT, object_id="chat:s1", text=text)]
        for text in (
            "toolcall_ref id=c1 tool=bash status=ok\nalpha\ntoolcall_ref id=c2 tool=ls\nbeta\n",
            "toolcall_ref id=c1 tool=bash status=ok\nfolded\ntoolcall_ref id=c2 tool=ls\nbeta\n",
        )
    ]

    one, two = (Prompt.of(blocks, count=len) for blocks in pieces)

    assert compare(one, two, count=len).object_id == "c1"


def test_a_break_costs_the_tokens_written_again() -> None:
    """Written instead of read: 1.25 instead of 0.1 for each token that was cached before."""
    one, two = prompt(CONTEXT), prompt(replace(CONTEXT, system_prompt="Be long."))

    first, second = call_costs([(1, one), (2, two)], count=len)

    assert (first.change, first.cost) == ("first", 0)
    assert second.cached_tokens == len("Be ")
    assert second.rewritten_tokens == two.tokens - len("Be ")
    assert second.cost == round(1.15 * second.rewritten_tokens)


def test_appended_text_costs_nothing_extra() -> None:
    """New text must be written anyway; only old text is paid for twice."""
    longer = replace(CONTEXT, active=(*CONTEXT.active, ActiveBlock("c", "four\n")))

    _, second = call_costs([(1, prompt(CONTEXT)), (2, prompt(longer))], count=len)

    assert (second.rewritten_tokens, second.cost) == (0, 0)
    assert second.cached_tokens == prompt(CONTEXT).tokens


@given(st.text("ab", max_size=50), st.text("ab", max_size=50))
def test_the_common_prefix_is_the_longest(one: str, two: str) -> None:
    """Bisection must find the same prefix as a linear scan."""
    length = common_length(one, two)

    assert one[:length] == two[:length]
    assert one[length : length + 1] != two[length : length + 1] or length == min(len(one), len(two))


@pytest.mark.parametrize("context", [CONTEXT, Context(session_id="s1", system_prompt="")])
def test_the_rows_cover_the_whole_text(context: Context) -> None:
    """A byte is attributed to the piece that contains it, so the pieces must cover the text."""
    assert prompt(context).text() == context.text()
