"""A little project with a fault in it, and how a careful agent finds and mends it. Copies files.

The agent is a script of thirteen turns: it looks around, runs the tests, reads, pins what it wants
to keep in sight, mends two files, folds what it is done with, and asks back for what was folded.
Between its turns somebody else may change files; see ``demo``.
"""

import shutil
from pathlib import Path
from typing import Final

from ctxmgr.core.sandbox import Sandbox
from ctxmgr.harness.scripted import Call, Reply, ScriptedModel, Seen, Step, call

SYSTEM_PROMPT: Final = (
    "You mend shell scripts. Each line that begins with id= is an object you know: activate shows "
    "it in full, deactivate folds it, pin keeps it from being folded. Paths are relative to the "
    "project. Run the tests before you say that you are done."
)
TASK: Final = "Some totals are a cent off. Find out why and mend it."
GO_ON: Final = "We have moved to another machine. Is all still well? Then write down what you did."

BEFORE_THE_EDIT: Final = 4
"""Turns after which somebody edits the README."""
BEFORE_THE_PAUSE: Final = 8

RULE: Final = "\nThe discount is taken off the whole receipt, once.\n"
"""What is added to the README from outside: the rule that the code breaks."""

TESTS_SECONDS: Final = 60.0

_PER_ITEM: Final = 'total=$((total + $(discounted "$price")))'
_PLAIN: Final = "total=$((total + price))"
_UNDISCOUNTED: Final = 'format "$(sum "$1")"'
_CHANGES: Final = "The discount is taken off the whole receipt: no cent is lost.\n"
_DISCOUNTED: Final = 'format "$(discounted "$(sum "$1")")"'


def lay_out(folder: Path, *, name: str = "tally") -> Path:
    """Put the project there, and a folder of notes beside it; return the project."""
    folder = folder.resolve()  # a temporary folder may lie behind a link
    project = folder / name
    shutil.copytree(Path(__file__).parent / "tally", project)
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "shop.md").write_text("The shop checks every cent.\n", encoding="utf-8")
    return project


async def succeeded(sandbox: Sandbox, *, directory: str) -> bool:
    """Tell whether the project's own tests pass."""
    ran = await sandbox.run("sh tests/run.sh", cwd=directory, timeout_s=TESTS_SECONDS)
    return ran.exit_code == 0


def agent(*, at: str = "", notes: str = "../notes") -> ScriptedModel:
    """Return a model that does the errand, from its first turn on.

    ``at`` is where the project is, seen from where the agent works: nothing, or ``folder/``.
    """
    return ScriptedModel("scripted", steps(at=at, notes=notes))


def steps(*, at: str, notes: str) -> tuple[Step, ...]:
    """Return the script, turn by turn."""
    here, tests = at or ".", f"sh {at}tests/run.sh"
    return (
        Reply("First a look around.", (call("find", path=here), _read(at, "README.md"))),
        Reply(
            "What do the tests say, and what matters here?",
            (call("bash", command=tests), call("read", path=f"{notes}/shop.md")),
        ),
        Reply(
            "Two totals are short by a cent, so parts of a cent are lost somewhere.",
            (call("grep", pattern="discounted", path=here), _read(at, "lib/discount.sh")),
        ),
        lambda seen: _read_the_sum(seen, at),
        lambda seen: _pin_the_failure(seen, at),
        Reply(
            "The sum takes it off every item, and drops parts of a cent each time.",
            (call("edit", path=f"{at}lib/sum.sh", old=_PER_ITEM, new=_PLAIN),),
        ),
        Reply(
            "So the whole is to be discounted, once.",
            (
                call("edit", path=f"{at}bin/tally.sh", old=_UNDISCOUNTED, new=_DISCOUNTED),
                _read(at, "tally.conf"),
            ),
        ),
        lambda seen: _fold_and_test(seen, at, tests),
        lambda seen: _look_again(seen, tests),
        lambda seen: _recall(seen, here),
        Reply(
            "Now the record of it.",
            (call("write", path=f"{at}CHANGES.md", content=_CHANGES),),
        ),
        Reply(
            "One last look at a total.",
            (call("bash", command=f"sh {at}bin/tally.sh {at}receipts/monday.txt"),),
        ),
        Reply("Mended: the discount was taken off each item and is now taken off the whole."),
    )


def _read_the_sum(seen: Seen, at: str) -> Reply:
    return Reply(
        "The discount is computed here. I have only seen the name of the file that calls it.",
        (
            call("activate", id=seen.file(f"/{at}lib/sum.sh")),
            _read(at, "receipts/tuesday.txt"),
        ),
    )


def _pin_the_failure(seen: Seen, at: str) -> Reply:
    noticed = "once" if "the whole receipt, once" in seen.text else "not said"
    return Reply(
        f"When is the discount taken off? README.md: {noticed}. "
        "I keep the failing run in sight until it passes.",
        (call("pin", id=seen.call("bash", status="fail")), _read(at, "bin/tally.sh")),
    )


def _fold_and_test(seen: Seen, at: str, tests: str) -> Reply:
    return Reply(
        "Both are mended. I no longer need discount.sh in full.",
        (
            call("deactivate", id=seen.file(f"/{at}lib/discount.sh")),
            call("bash", command=tests),
        ),
    )


def _look_again(seen: Seen, tests: str) -> Reply:
    told = "One receipt is gone. " if "[deleted]" in seen.text else ""
    return Reply(
        f"{told}I run the tests again, and let go of the old failure.",
        (call("unpin", id=seen.call("bash", status="fail")), call("bash", command=tests)),
    )


def _recall(seen: Seen, here: str) -> Reply:
    listing = seen.call("find", status="ok")
    if seen.shows(listing):
        return Reply("The first listing is still in sight.", (call("ls", path=here),))
    return Reply(
        "I ask back for the first listing, to name every file.",
        (call("activate", id=listing), call("ls", path=here)),
    )


def _read(at: str, path: str) -> Call:
    return call("read", path=f"{at}{path}")
