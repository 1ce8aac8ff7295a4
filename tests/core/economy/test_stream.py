"""The append-only stream: where texts appear, and when they change."""

import json
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.bench.economy.references import dangling
from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.notices import entered
from ctxmgr.core.economy.planner import FoldReason
from ctxmgr.core.economy.policy import Economy, Prices
from ctxmgr.core.economy.stream_turns import held_turn
from ctxmgr.core.history.session_policy import read_policy
from ctxmgr.core.objects.answers import AnswerCall, CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import Turn
from ctxmgr.errors import Incorrect, WindowExceeded
from tests.core.builders.streams import Talk, count, long_output

NEVER: Final = Economy(calls_expected=0)
"""Folding never pays if no further call is expected."""


@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=15), tool=st.sampled_from("ab"))
def test_sent_bytes_never_change_without_a_plan(sizes: list[int], tool: str) -> None:
    """Every byte that moves must be written to the provider's cache again."""
    talk = Talk()
    before = ""
    for number, size in enumerate(sizes):
        plan = talk.planning.next_plan(fixed=int)
        prompt = talk.turn(long_output(f"run{number}", lines=size), tool=tool)

        assert plan is not None or prompt.startswith(before)
        before = prompt


def test_a_long_output_is_folded_on_arrival() -> None:
    """A text that is short from the start breaks no prefix later."""
    talk = Talk(Economy(fidelity=0))

    talk.turn(long_output("build", lines=400))

    prompt = talk.prompt()
    assert "[#1 +" in prompt
    assert count(prompt) < 1000


def test_more_of_a_file_is_shown_than_of_a_commands_output() -> None:
    """For the same cost, ten times more of a file's text is used again."""
    read, ran = Talk(), Talk()

    read.turn(long_output("x", lines=200), tool="read", args={"path": "a.py"})
    ran.turn(long_output("x", lines=200), args={"command": "make"})

    assert long_output("x", lines=200) in read.prompt()
    assert long_output("x", lines=200) not in ran.prompt()


def test_long_arguments_are_folded_and_stay_valid() -> None:
    """APIs refuse a call whose arguments do not match the schema."""
    talk = Talk()

    talk.turn("done", tool="write", args={"path": "a.py", "text": long_output("f")})

    (turn,) = talk.stream.transcript.turns
    call = turn.parts[-1]
    assert isinstance(call, AnswerCall)
    assert call.args["path"] == "a.py"
    assert "[#1 +" in json.loads(json.dumps(call.args))["text"]


def test_idle_outputs_are_folded_in_one_batch_when_that_pays() -> None:
    """One break for many folds; the plan says why."""
    talk = Talk(Economy(prices=Prices(read=0.5, write=0.6)))
    for number in range(12):
        talk.turn(long_output(f"f{number}"), tool="read", args={"path": f"{number}.py"})

    plan = talk.planning.next_plan(fixed=int)

    reasons = plan is not None and (plan.reason, plan.saved_tokens > 0, len(plan.folds) > 1)
    assert reasons == (FoldReason.PAYS, True, True) or "[#1 +" in talk.prompt()


def test_an_output_used_by_an_action_is_not_idle() -> None:
    """The agent is still working with it."""
    used, idle = Talk(), Talk()
    for talk, text in ((used, "value_f_1, value_f_2, value_f_3, value_f_4"), (idle, "nothing")):
        talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
        for _ in range(10):
            talk.turn("ok", text=text)

    used_prompt, idle_prompt = used.prompt(cold=True), idle.prompt(cold=True)

    assert "[#1 +" not in used_prompt
    assert "[#1 +" in idle_prompt


def test_a_call_with_a_cold_cache_folds_idle_outputs() -> None:
    """The whole prompt is written anyway, so folding costs nothing."""
    talk = Talk(NEVER)
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    for _ in range(10):
        talk.turn("ok")

    assert "[#1 +" not in talk.prompt()
    talk.turn("ok")
    assert "[#1 +" in talk.prompt(cold=True)


def test_a_pinned_output_is_never_folded() -> None:
    """A pin means that the output must stay visible."""
    talk = Talk()
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    for _ in range(6):
        talk.turn("ok", pinned={"c1"}, cold=True)

    assert long_output("f") in talk.prompt(pinned={"c1"}, cold=True)


def test_a_deactivated_output_becomes_a_stub_with_tool_and_status() -> None:
    """It is hidden and can be restored by its handle."""
    talk = Talk()
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})

    prompt = talk.prompt(put_away={"c1"}, cold=True)

    assert "[#1 read ok +" in prompt
    assert "value_f_39" not in prompt.partition("tok: ")[0]


def test_a_prompt_that_does_not_fit_is_folded_until_it_does() -> None:
    """The window is never exceeded."""
    talk = Talk(replace(NEVER, window_tokens=1200))
    for number in range(6):
        talk.turn(long_output(f"f{number}", lines=30), tool="read", args={"path": f"{number}.py"})

        assert count(talk.prompt()) <= 1200


def test_pins_that_do_not_fit_are_named_in_the_error() -> None:
    """A prompt that silently dropped a pin would be worse than an error."""
    talk = Talk(replace(NEVER, window_tokens=700))
    pinned = {"c1"}
    talk.turn(long_output("f", lines=150), tool="read", args={"path": "f.py"}, pinned=pinned)
    talk.stream.close("", (), outputs={})

    with pytest.raises(WindowExceeded, match=r"unpin c1 \(\d+ tokens\)") as raised:
        talk.prompt(pinned=pinned)

    assert raised.value.window == 700


def test_a_notice_that_does_not_fit_is_folded_once_unpinned() -> None:
    """Unpinning the object named in the error must resolve it."""
    talk = Talk(replace(NEVER, window_tokens=500))
    talk.turn("ok")
    text = long_output("f", lines=150)
    talk.stream.open([entered("#2", "file:a", path="a.py", content=text)])

    def fixed() -> int:
        return count(talk.stream.user(""))

    with pytest.raises(WindowExceeded, match="unpin file:a"):
        talk.planning.next_plan(fixed=fixed, pinned={"file:a"})
    talk.planning.next_plan(fixed=fixed)

    assert "[#2 +" in talk.stream.user("")
    assert fixed() + talk.stream.tokens() <= 500


@given(
    outputs=st.lists(st.integers(0, 120), min_size=1, max_size=12),
    fidelity=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_a_stream_is_rebuilt_from_stored_objects_and_its_views(
    outputs: list[int], fidelity: float
) -> None:
    """A record of the views is all that a prompt needs besides the stored objects."""
    talk = Talk(Economy(fidelity=fidelity, prices=Prices(read=0.5, write=0.6)))
    turns, stored = [], {}
    for number, lines in enumerate(outputs, start=1):
        stored[f"c{number}"] = long_output(f"f{number % 3}", lines=lines)
        args = {"path": f"{number % 3}.py", "text": long_output("arg", lines=lines % 7)}
        talk.turn(stored[f"c{number}"], tool="read", args=args)
        part = toolcall_part(f"c{number}", call_id=f"c{number}", tool="read", args=args)
        turns.append(Turn(user="", assistant=(text_part("so"), part), toolcall_ids=(f"c{number}",)))
    prompt, views = talk.prompt(), dict(talk.stream.slots.views)
    calls = {version: CallRef(object_id=version, tool="read", status="ok") for version in stored}

    handles: set[str] = set()
    again = [
        held_turn(turn, number=n, calls=calls, outputs=stored, notices=(), handles=handles)
        for n, turn in enumerate(turns, start=1)
    ]

    assert "".join(turn.shown(views).text for turn in again) == prompt


def test_a_file_read_twice_is_shown_where_it_was_read_last() -> None:
    """What was asked for is whole in the next prompt; then it appears only once."""
    talk = Talk(Economy(prices=Prices(read=0.5, write=0.6)))
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})

    assert talk.prompt().count(long_output("f")) == 1
    assert "[#1 read ok +" in talk.prompt()


def test_lines_that_are_visible_elsewhere_become_a_reference() -> None:
    """A command that prints a file again adds only what is new."""
    talk = Talk(NEVER)
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    talk.turn("$ cat f.py\n" + long_output("f"), args={"command": "make show"})

    assert "$ cat f.py\n[40 lines as in #1 read f.py]\n[#2]" in talk.prompt()


def test_a_text_is_folded_with_what_refers_to_it() -> None:
    """An old text would otherwise stay whole as long as the session, for a few tokens."""
    talk = Talk()
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    talk.turn("$ cat f.py\n" + long_output("f"), args={"command": "make show"})
    for _ in range(10):
        talk.turn("ok")
    assert "as in #1" in talk.turn("ok")

    folded = talk.prompt(cold=True)

    assert "as in #1" not in folded
    assert "[#1 +" in folded
    assert "[#2 bash ok +" in folded
    assert dangling(talk.stream) == []


@given(
    reads=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(5, 60)),
        min_size=2,
        max_size=40,
    )
)
def test_references_resolve_and_reads_are_first_shown_whole(
    reads: list[tuple[int, int, int]],
) -> None:
    """In every prompt, the lines of a reference stand in a text with its handle."""
    talk = Talk(Economy(prices=Prices(read=0.5, write=0.6), window_tokens=100_000))
    last = ""
    for file, first, number in reads:
        talk.turn(last, tool="read", args={"path": f"{file}.py"})
        assert last in talk.prompt()
        assert dangling(talk.stream) == []
        lines = [f"the value_{file}_{row} of a file that is read" for row in range(100)]
        last = "\n".join(lines[first : first + number])
    talk.turn(last, tool="read", args={"path": "last.py"})

    assert last in talk.prompt()
    assert dangling(talk.stream) == []


def test_a_notice_precedes_the_users_message_and_stays_there() -> None:
    """Later text is appended, never inserted."""
    talk = Talk()
    talk.turn("ok")
    talk.stream.open([entered("#2", "file:a", path="a.py", content="print(1)")])

    asked = talk.stream.user("go on")
    talk.stream.close("go on", (), outputs={})

    assert asked == "[#2 a.py]\nprint(1)\ngo on"
    assert asked in talk.prompt()


def test_kinds_of_output_that_are_restored_often_are_shown_longer() -> None:
    """The length also depends on how often that kind was used again."""
    shy, asked = Talk(), Talk()
    asked.stream.asked_back[OutputKind.RUN] += 2
    for talk in (shy, asked):
        talk.turn(long_output("run", lines=800))

    assert count(asked.prompt()) > 1.5 * count(shy.prompt())


def test_the_dial_goes_from_lean_to_faithful() -> None:
    """One user setting determines every limit."""
    sizes = []
    for fidelity in (0, 0.25, 0.5, 0.75, 1):
        talk = Talk(Economy(fidelity=fidelity))
        talk.turn(long_output("run", lines=400))
        sizes.append(count(talk.prompt()))

    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


@pytest.mark.parametrize("wrong", [{"fidelity": 2.0}, {"window_tokens": 0}, {"calls_expected": -1}])
def test_invalid_settings_are_refused(wrong: dict[str, float]) -> None:
    """The caller learns of the mistake before paying for it."""
    with pytest.raises(Incorrect):
        Economy(**wrong)  # type: ignore[arg-type]


def test_an_unknown_policy_is_refused() -> None:
    """A typing error must not silently select the plain form."""
    with pytest.raises(
        Incorrect, match=r"unknown policy .economi. \(one of: plain, compact, economy\)"
    ):
        read_policy("economi")
