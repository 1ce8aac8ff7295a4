"""The task of the demo: a small project with a bug, and the scripted agent that fixes it.

The script has thirteen turns: the agent explores, runs the tests, reads, pins what it wants to keep
visible, fixes two files, folds what it no longer needs, and activates what was folded. Between
turns, ``demo`` changes files. Works under either policy. Copies the project.
"""

import shutil
from pathlib import Path
from typing import Final

from ctxmgr.core.sandbox import Sandbox
from ctxmgr.harness.scripted_model import (
    ScriptedCall,
    ScriptedModel,
    ScriptedPrompt,
    ScriptedReply,
    Step,
    call,
)

SYSTEM_PROMPT: Final = (
    "You fix shell scripts. Paths are relative to the project. "
    "Run the tests before you say that you are done."
)
TASK: Final = "Some totals are a cent off. Find out why, and fix it."
GO_ON: Final = "We have moved to another machine. Do the tests still pass? Then write a changelog."

BEFORE_THE_EDIT: Final = 4
"""Turns after which the README is edited from outside."""
BEFORE_THE_PAUSE: Final = 8

RULE: Final = "\nThe discount is taken off the whole receipt, once.\n"
"""The text that is added to the README from outside: the rule that the code breaks."""

TESTS_SECONDS: Final = 60.0

_PER_ITEM: Final = 'total=$((total + $(discounted "$price")))'
_PLAIN: Final = "total=$((total + price))"
_UNDISCOUNTED: Final = 'format "$(sum "$1")"'
_CHANGES: Final = "The discount is taken off the whole receipt: no cent is lost.\n"
_DISCOUNTED: Final = 'format "$(discounted "$(sum "$1")")"'


def create_project(folder: Path, *, name: str = "tally", receipts: int = 0) -> Path:
    """Create the project, and a folder of notes next to it; return the project's folder.

    ``receipts`` more than the project comes with make its listings and test runs as long as those
    of a real project. Their totals are right under either reading of the discount.
    """
    folder = folder.resolve()  # the path of a temporary folder may contain a link
    project = folder / name
    shutil.copytree(Path(__file__).parent / "tally", project)
    for number in range(1, receipts + 1):
        _add_receipt(project, number)
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "shop.md").write_text("The shop checks every cent.\n", encoding="utf-8")
    return project


_GOODS: Final = ("apples", "bread", "butter", "candles", "coffee", "flour", "honey", "lentils")


def _add_receipt(project: Path, number: int) -> None:
    """Write a receipt, and its total; prices are multiples of ten, so no discount has a part."""
    bought = [
        (_GOODS[(number + item) % len(_GOODS)], 1 + (number + item) % 4, 10 * (7 + 3 * item))
        for item in range(2 + number % 4)
    ]
    total = sum(quantity * cents for _, quantity, cents in bought) * 9 // 10
    name = f"2026-{1 + number // 28:02}-{1 + number % 28:02}.txt"
    lines = "".join(f"{good} {quantity} {cents}\n" for good, quantity, cents in bought)
    (project / "receipts" / name).write_text(lines, encoding="utf-8")
    written = f"EUR {total // 100}.{total % 100:02}\n"
    (project / "tests" / "expected" / name).write_text(written, encoding="utf-8")


async def tests_pass(sandbox: Sandbox, *, directory: str) -> bool:
    """Return whether the project's own tests pass."""
    ran = await sandbox.run("sh tests/run.sh", cwd=directory, timeout_s=TESTS_SECONDS)
    return ran.exit_code == 0


def agent(*, at: str = "", notes: str = "../notes", verbose: bool = False) -> ScriptedModel:
    """Return a scripted model that does the task.

    ``at`` is the project's path relative to the agent's directory: empty, or ``folder/``.
    ``verbose`` runs of the tests list every item of every receipt.
    """
    return ScriptedModel("scripted", steps(at=at, notes=notes, verbose=verbose))


def steps(*, at: str, notes: str, verbose: bool) -> tuple[Step, ...]:
    """Return the script, turn by turn."""
    here, tests = at or ".", f"sh {at}tests/run.sh{' --verbose' if verbose else ''}"
    return (
        ScriptedReply("First a look around.", (call("find", path=here), _read(at, "README.md"))),
        ScriptedReply(
            "What do the tests say, and what matters here?",
            (call("bash", command=tests), call("read", path=f"{notes}/shop.md")),
        ),
        ScriptedReply(
            "Two totals are short by a cent, so parts of a cent are lost somewhere.",
            (call("grep", pattern="discounted", path=here), _read(at, "lib/discount.sh")),
        ),
        lambda seen: _read_the_sum(seen, at),
        lambda seen: _pin_the_failure(seen, at),
        ScriptedReply(
            "The sum takes it off every item, and drops parts of a cent each time.",
            (call("edit", path=f"{at}lib/sum.sh", old=_PER_ITEM, new=_PLAIN),),
        ),
        ScriptedReply(
            "So the whole is to be discounted, once.",
            (
                call("edit", path=f"{at}bin/tally.sh", old=_UNDISCOUNTED, new=_DISCOUNTED),
                _read(at, "tally.conf"),
            ),
        ),
        lambda seen: _fold_and_test(seen, at, tests),
        lambda seen: _look_again(seen, tests),
        lambda seen: _recall(seen, here),
        ScriptedReply(
            "Now the record of it.",
            (call("write", path=f"{at}CHANGES.md", content=_CHANGES),),
        ),
        ScriptedReply(
            "One last look at a total.",
            (call("bash", command=f"sh {at}bin/tally.sh {at}receipts/monday.txt"),),
        ),
        ScriptedReply(
            "Fixed: the discount was taken off each item, and is now taken off the whole receipt."
        ),
    )


def _read_the_sum(seen: ScriptedPrompt, at: str) -> ScriptedReply:
    return ScriptedReply(
        "The discount is computed here. I have only seen the name of the file that calls it.",
        (
            call("activate", id=seen.file(f"{at}lib/sum.sh")),
            _read(at, "receipts/tuesday.txt"),
        ),
    )


def _pin_the_failure(seen: ScriptedPrompt, at: str) -> ScriptedReply:
    noticed = "once" if "the whole receipt, once" in seen.text else "not said"
    return ScriptedReply(
        f"When is the discount taken off? README.md: {noticed}. "
        "I keep the failing run in sight until it passes.",
        (
            *_on(seen.call("bash", status="fail"), "pin"),
            _read(at, "bin/tally.sh"),
        ),
    )


def _fold_and_test(seen: ScriptedPrompt, at: str, tests: str) -> ScriptedReply:
    return ScriptedReply(
        "Both are fixed. I no longer need discount.sh in full.",
        (
            call("deactivate", id=seen.file(f"{at}lib/discount.sh")),
            call("bash", command=tests),
        ),
    )


def _look_again(seen: ScriptedPrompt, tests: str) -> ScriptedReply:
    deletion = "One receipt is gone. " if "deleted]" in seen.text else ""
    return ScriptedReply(
        f"{deletion}I run the tests again, and no longer need the old failure.",
        (*_on(seen.call("bash", status="fail"), "unpin"), call("bash", command=tests)),
    )


def _recall(seen: ScriptedPrompt, here: str) -> ScriptedReply:
    listing = seen.call("find", status="ok")
    if listing is None or seen.shows(listing):
        return ScriptedReply("The first listing is still in sight.", (call("ls", path=here),))
    return ScriptedReply(
        "I ask for the first listing again, to name every file.",
        (call("activate", id=listing), call("ls", path=here)),
    )


def _on(object_id: str | None, tool: str) -> tuple[ScriptedCall, ...]:
    """Call a context tool on an object that the prompt names."""
    return () if object_id is None else (call(tool, id=object_id),)


def _read(at: str, path: str) -> ScriptedCall:
    return call("read", path=f"{at}{path}")
