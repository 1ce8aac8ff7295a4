"""Streams that are longer than their window: the oldest turns become a summary."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctxmgr
from ctxmgr.bench.economy.references import dangling
from ctxmgr.core.context.pressure import Pressure, PressureStep, oldest_half, tokens_after
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.records import EconomyRecord
from ctxmgr.core.economy.summary import Summary
from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.compaction import CompactionRecord, CompactionTrigger, compaction_id
from ctxmgr.errors import Corrupt, Incorrect
from tests.core.builders.streams import Talk, count, long_output


def test_a_session_of_thousands_of_turns_always_fits_its_window() -> None:
    """000-R148: ``WindowExceeded`` is never raised because of a session's length."""
    talk = Talk(Economy(window_tokens=2_000))

    for number in range(3_000):
        prompt = talk.turn(f"value_{number} is ready", text=f"I'll do step {number}.")
        assert count(prompt) <= 2_000

    assert talk.stream.compacted > 2_900
    assert len(talk.planning.compactions) < 300


@given(
    turns=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 90), st.sampled_from("abc")),
        min_size=1,
        max_size=60,
    ),
    window=st.integers(1_500, 20_000),
)
@settings(max_examples=25, deadline=None)
def test_any_history_fits_and_every_reference_resolves(
    turns: list[tuple[int, int, str]], window: int
) -> None:
    """D6: whatever was said and read, from a window of 1,500 tokens on."""
    talk = Talk(Economy(window_tokens=window))
    for said, lines, name in turns:
        output = long_output(name, lines=lines)
        prompt = talk.turn(output, text="word " * said, tool="read", args={"path": f"{name}.py"})
        assert count(prompt) <= window
        assert dangling(talk.stream) == []


@given(
    steps=st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=8, max_size=20),
    window=st.integers(2_000, 6_000),
)
@settings(max_examples=6, deadline=None)
async def test_any_compacted_prompt_is_rebuilt_from_its_record(
    steps: list[tuple[int, bool]], window: int
) -> None:
    """D4: for any history and window, each prompt hashes to what was sent."""
    policy = Economy(window_tokens=window)
    async with ctxmgr.connect("sqlite://:memory:", tracking=False, policy=policy) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        for number, (lines, speaks) in enumerate(steps, start=1):
            sent = await session.render(f"question_{number}\n" if speaks else "")
            call, args = f"c{number}", {"command": "make"}
            output = long_output(f"run{number % 3}", lines=lines)
            await session.record(call, tool="bash", args=args, output=output)
            part = toolcall_part(call, call_id=call, tool="bash", args=args)
            await session.end_turn([text_part("It works.\n"), part])
            assert (await client.prompt_as_of("s1", turn=number)).text() == sent


def test_a_summary_is_stored_by_its_parts() -> None:
    """A record must give the same text again, on any machine."""
    talk = Talk(Economy(window_tokens=2_000))
    for number in range(40):
        talk.turn(long_output(f"f{number}"), tool="bash", args={"command": f"make {number}"})
    summary = talk.stream.summary
    assert summary is not None

    again = Summary.from_value(summary.to_value())

    assert again == summary
    assert again.text == summary.text


def test_a_failure_and_what_came_of_it_stay_in_the_summary() -> None:
    """000-R146: an agent that forgets what failed tries it again."""
    talk = Talk(Economy(window_tokens=2_000))
    talk.turn("exit code 1\nValueError: no port given", args={"command": "serve"})
    talk.turn("listening", args={"command": "serve"})
    talk.turn("ok", tool="edit", args={"path": "src/server.py"})
    for number in range(40):
        talk.turn(long_output(f"f{number}", lines=10), args={"command": f"make {number}"})

    summary = talk.stream.summary

    assert summary is not None
    assert "src/server.py #3" in summary.text
    assert "ValueError: no port given; then ok in #2" in summary.text


def test_the_record_of_a_summary_names_another_renderer() -> None:
    """An earlier version refuses such a prompt instead of rebuilding another one."""
    plain = EconomyRecord(policy=Economy(), epoch=1, pool=(), views={}, notices={}, files={})
    compacted = replace(plain, summary=Summary(turns=3, number=1))

    assert compacted.renderer == plain.renderer + "+compaction"
    assert "compaction" not in plain.to_value()
    assert compacted.to_value(compacted)["compaction"] is None
    values = [compacted.to_value(), compacted.to_value(compacted)]
    assert EconomyRecord.joined(values).summary == compacted.summary


def test_a_full_window_is_folded_then_flushed_once_then_compacted() -> None:
    """X-C06: one order of measures for every window."""
    pressure = Pressure(full_at=80, relieved_at=64)
    assert pressure.step(79) is PressureStep.NONE
    steps = []
    for _ in range(4):
        steps.append(pressure.step(80))
        pressure = pressure.done(steps[-1])

    assert steps == [
        PressureStep.FOLD,
        PressureStep.FLUSH,
        PressureStep.COMPACT,
        PressureStep.FLUSH,
    ]
    assert pressure.step(63) is PressureStep.NONE


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 100))
def test_the_oldest_half_holds_half_of_the_tokens_and_never_the_newest(
    sizes: list[int], other: int
) -> None:
    """000-R145, 000-A16: the shortest range with at least half; the count follows from it."""
    tokens = sum(sizes) + other

    spans = oldest_half(sizes, tokens=tokens)

    assert 0 <= spans <= max(0, len(sizes) - 1)
    held = sum(sizes[:spans])
    assert 2 * held >= tokens or spans == max(0, len(sizes) - 1)
    assert spans == 0 or 2 * sum(sizes[: spans - 1]) < tokens
    assert tokens_after(tokens, removed=held, summary=3) == tokens - held + 3


def _record(**other: Any) -> CompactionRecord:
    values: dict[str, Any] = {
        "id": compaction_id("s1", number=1),
        "session_id": "s1",
        "timestamp": 5,
        "range_start": 1,
        "range_end": 2,
        "timesteps_compacted": 2,
        "tokens_before": 90,
        "tokens_after": 50,
        "summary": "short",
        "summary_concept_tags": ("name",),
        "top_k_activations": {"wn/a::b.c": 0.5},
        "trigger": CompactionTrigger.MANUAL,
    }
    return CompactionRecord(**values | other)


def test_a_record_is_stored_and_read_back() -> None:
    """000-R020, 000-R055, 000-R056: with every field of the rows."""
    record = _record()
    document = record.to_document(number=1)

    assert CompactionRecord.from_document(document) == record
    check_record(document)
    assert [str(trigger) for trigger in CompactionTrigger] == [
        "context_full",
        "manual",
        "scheduled",
        "storage_pressure",
    ]
    with pytest.raises(Incorrect, match="from 3 to 2"):
        _record(range_start=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 2},
        {"n": True},
        {"trigger": "whim"},
        {"range_end": -1},
        {"summary": 1},
        {"parts": {"turns": 1}},
        {"usage": {"input_tokens": -1}},
        {"top_k_activations": {"a": "high"}},
        {"summary_concept_tags": [1]},
        {"more": 1},
        {"parts": Summary(turns=2, number=1, notes=("Another text.",)).to_value()},
    ],
)
def test_a_wrong_record_of_a_bundle_is_refused(wrong: dict[str, Any]) -> None:
    """What comes from elsewhere is checked where it enters."""
    with pytest.raises(Corrupt, match="compaction:s1:1"):
        check_record(_record().to_document(number=1) | wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("views", {"x": {"spans": [], "names": [], "hidden_tokens": 0}}),
        ("masks", {"turn:x:user": []}),
        ("stream", None),
        *(("stream", {name: ["zz"]}) for name in ("settled", "newest")),
        *(("stream", {name: {"zz": 1}}) for name in ("used", "repeated", "alone")),
    ],
)
async def test_a_wrong_turn_record_of_a_bundle_is_refused(name: str, wrong: Any) -> None:
    """A key that names no turn, and a summary without its stream, would fail on resume."""
    async with ctxmgr.connect(
        "sqlite://:memory:", tracking=False, policy=Economy(window_tokens=2_000)
    ) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        for number in range(12):
            await session.render("go")
            call, output = f"c{number}", long_output(f"f{number}", lines=20)
            await session.record(call, tool="bash", args={}, output=output)
            await session.end_turn([toolcall_part(call, call_id=call, tool="bash", args={})])
        version = await client.store.get("turn:s1:12")
    assert version is not None
    document = dict(version.document)
    assert "compaction" in document["policy"]
    check_record(document)
    policy = dict(document["policy"])
    policy[name] = {**policy[name], **wrong} if isinstance(wrong, dict) else wrong

    with pytest.raises(Corrupt, match="turn:s1:12 is not a turn record"):
        check_record(document | {"policy": policy})
