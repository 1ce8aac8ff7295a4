"""The append-only stream: what stands where, and when it changes."""

import json
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.notices import entered
from ctxmgr.core.economy.planner import FoldReason
from ctxmgr.core.economy.policy import Economy, Prices, policy_of
from ctxmgr.core.economy.stream_turns import held_turn
from ctxmgr.core.objects.answers import AnswerCall, CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import Turn
from ctxmgr.errors import Incorrect, WindowExceeded
from tests.core.builders.streams import Talk, count, long_output

NEVER: Final = Economy(calls_expected=0)
"""Nothing pays when no call is to come."""


@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=15), tool=st.sampled_from("ab"))
def test_nothing_that_was_sent_changes_without_a_plan(sizes: list[int], tool: str) -> None:
    """Every byte that moves is written to the provider's cache again."""
    talk = Talk()
    before = ""
    for number, size in enumerate(sizes):
        plan = talk.planning.next_plan(fixed=int)
        prompt = talk.turn(long_output(f"run{number}", lines=size), tool=tool)

        assert plan is not None or prompt.startswith(before)
        before = prompt


def test_a_long_output_is_short_on_arrival() -> None:
    """What is short from the first moment breaks no prefix later."""
    talk = Talk(Economy(fidelity=0))

    talk.turn(long_output("build", lines=400))

    prompt = talk.prompt()
    assert "[#1 +" in prompt
    assert count(prompt) < 1000


def test_a_file_is_shown_longer_than_what_a_command_printed() -> None:
    """Of a file that was read ten times more is used again, for what it costs."""
    read, ran = Talk(), Talk()

    read.turn(long_output("x", lines=100), tool="read", args={"path": "a.py"})
    ran.turn(long_output("x", lines=100), args={"command": "make"})

    assert long_output("x", lines=100) in read.prompt()
    assert long_output("x", lines=100) not in ran.prompt()


def test_long_arguments_are_folded_and_stay_legal() -> None:
    """An API refuses a call whose arguments are not what its schema says."""
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


def test_what_an_action_uses_is_not_idle() -> None:
    """An output that is being worked with stays."""
    used, idle = Talk(), Talk()
    for talk, said in ((used, "value_f_1 and value_f_2"), (idle, "nothing")):
        talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
        for _ in range(6):
            talk.turn("ok", said=said)

    used_prompt, idle_prompt = used.prompt(cold=True), idle.prompt(cold=True)

    assert "[#1 +" not in used_prompt
    assert "[#1 +" in idle_prompt


def test_a_cold_call_folds_what_is_idle() -> None:
    """The rewrite costs nothing then."""
    talk = Talk(NEVER)
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    for _ in range(6):
        talk.turn("ok")

    assert "[#1 +" not in talk.prompt()
    talk.turn("ok")
    assert "[#1 +" in talk.prompt(cold=True)


def test_a_pinned_output_is_never_folded() -> None:
    """Whoever pins says that it must be seen."""
    talk = Talk()
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    for _ in range(6):
        talk.turn("ok", pinned={"c1"}, cold=True)

    assert long_output("f") in talk.prompt(pinned={"c1"}, cold=True)


def test_what_was_put_away_becomes_a_stub_with_tool_and_status() -> None:
    """It is out of sight, and can be asked back by its handle."""
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


def test_what_must_stay_and_does_not_fit_is_an_error_that_names_the_pins() -> None:
    """A prompt that silently lost a pin would be worse than none."""
    talk = Talk(replace(NEVER, window_tokens=700))
    pinned = {"c1"}
    talk.turn(long_output("f", lines=150), tool="read", args={"path": "f.py"}, pinned=pinned)
    talk.stream.close("", (), outputs={})

    with pytest.raises(WindowExceeded, match=r"unpin c1 \(\d+ tokens\)") as raised:
        talk.prompt(pinned=pinned)

    assert raised.value.window == 700


def test_a_notice_that_does_not_fit_is_folded_once_it_is_not_pinned() -> None:
    """Whoever unpins what was named must get a prompt."""
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
def test_a_stream_is_made_again_from_what_is_stored_and_its_views(
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
    known = {version: CallRef(object_id=version, tool="read", status="ok") for version in stored}

    handles: set[str] = set()
    again = [
        held_turn(turn, number=n, calls=known, outputs=stored, notices=(), handles=handles)
        for n, turn in enumerate(turns, start=1)
    ]

    assert "".join(turn.shown(views).text for turn in again) == prompt


def test_the_same_file_again_is_a_reference() -> None:
    """A text stands once."""
    talk = Talk()
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})
    talk.turn(long_output("f"), tool="read", args={"path": "f.py"})

    assert "[40 lines as in #1 read f.py]" in talk.prompt()


def test_a_notice_stands_before_what_the_user_says_and_stays_there() -> None:
    """What entered later is appended, never inserted."""
    talk = Talk()
    talk.turn("ok")
    talk.stream.open([entered("#2", "file:a", path="a.py", content="print(1)")])

    asked = talk.stream.user("go on")
    talk.stream.close("go on", (), outputs={})

    assert asked == "[#2 a.py]\nprint(1)\ngo on"
    assert asked in talk.prompt()


def test_kinds_that_are_asked_back_are_shown_longer() -> None:
    """How short is decided by what has been used again so far, too."""
    shy, asked = Talk(), Talk()
    asked.stream.asked_back[OutputKind.RUN] += 2
    for talk in (shy, asked):
        talk.turn(long_output("run", lines=200))

    assert count(asked.prompt()) > 1.5 * count(shy.prompt())


def test_the_dial_goes_from_lean_to_faithful() -> None:
    """One number that a person can set, and every limit follows."""
    sizes = []
    for fidelity in (0, 0.25, 0.5, 0.75, 1):
        talk = Talk(Economy(fidelity=fidelity))
        talk.turn(long_output("run", lines=400))
        sizes.append(count(talk.prompt()))

    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


@pytest.mark.parametrize("wrong", [{"fidelity": 2.0}, {"window_tokens": 0}, {"calls_expected": -1}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    """The caller learns it now and not from a bill."""
    with pytest.raises(Incorrect):
        Economy(**wrong)  # type: ignore[arg-type]


def test_an_unknown_policy_is_refused() -> None:
    """A typing error must not fall back to the plain form."""
    with pytest.raises(Incorrect, match=r"unknown policy .economi. \(one of: economy\)"):
        policy_of("economi")
