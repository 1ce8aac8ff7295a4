"""Exchanges for tests, in one call."""

from typing import Any

from ctxmgr.memory.extraction.exchange import AnswerPassage, Exchange, ToolRun


def said(user: str, *, answer: str = "", follows_answer: bool = True) -> Exchange:
    """An exchange of words alone."""
    answers = (AnswerPassage(turn=1, text=answer),) if answer else ()
    return Exchange(
        session_id="s",
        first_turn=1,
        last_turn=1,
        user=user,
        answers=answers,
        follows_answer=follows_answer,
    )


def ran(turn: int, command: str, output: str = "", *, ok: bool = True) -> ToolRun:
    return called(turn, "bash", {"command": command}, output, ok=ok)


def edited(turn: int, path: str, old: str, new: str) -> ToolRun:
    return called(turn, "edit", {"path": path, "old_string": old, "new_string": new})


def called(
    turn: int, tool: str, args: dict[str, Any], output: str = "", *, ok: bool = True
) -> ToolRun:
    return ToolRun(
        object_id=f"call-{turn}",
        object_hash="0" * 64,
        turn=turn,
        tool=tool,
        args=args,
        ok=ok,
        output=output,
    )


def worked(
    *runs: ToolRun, user: str = "make the tests pass again", answer: str = "The tests pass again."
) -> Exchange:
    """An exchange with tool calls."""
    last = runs[-1].turn if runs else 1
    return Exchange(
        session_id="s",
        first_turn=1,
        last_turn=last,
        user=user,
        answers=(AnswerPassage(turn=last, text=answer),) if answer else (),
        runs=runs,
    )
