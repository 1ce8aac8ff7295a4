"""What the command line answers to each error: exit code, who is at fault, what next. Pure.

Exit codes are stable: scripts branch on them.

    0    done                       5    denied
    1    done, and found wanting    6    unavailable
    2    the request is wrong       7    outcome unknown
    3    not found                  8    the stored data is damaged
    4    conflict                  70    a fault in ctxmgr itself
                                  130    interrupted, 143 terminated
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import CtxmgrError

UNSATISFIED: Final = 1
INTERRUPTED: Final = 130
TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class Answer:
    exit_code: int
    fault: str
    """Who or what is at fault, for the start of the line."""
    next: str
    """What to do about it, for its end; empty where the message says it."""


INTERNAL: Final = Answer(70, "a fault in ctxmgr", "run it again with -v and report what it prints")

ANSWERS: Final = MappingProxyType(
    {
        "error": INTERNAL,
        "incorrect": Answer(2, "the request is wrong", "correct it; `--help` shows an example"),
        "not_content": Answer(2, "the request is wrong", "name a file or a tool call"),
        "extra_missing": Answer(2, "a package is missing", "install it and try again"),
        "newer_format": Answer(2, "this ctxmgr is too old", "upgrade ctxmgr"),
        "window_exceeded": Answer(
            2, "it does not fit the window", "unpin something, or take a larger window"
        ),
        "not_found": Answer(3, "not found", "check the id and the times asked for"),
        "conflict": Answer(4, "someone else wrote first", "read again, then retry"),
        "denied": Answer(5, "not allowed", "check the credentials and the file's permissions"),
        "unavailable": Answer(
            6, "it cannot be reached now", "nothing was written; check that it runs and retry"
        ),
        "model_unavailable": Answer(
            6, "the model cannot be used now", "check its URL and that it runs, and retry"
        ),
        "answer_lost": Answer(6, "the model's answer was lost", "none of it was stored; retry"),
        "outcome_unknown": Answer(7, "the reply was lost", "retry with the same key"),
        "corrupt": Answer(
            8, "the stored data is damaged", "keep the file as it is and restore a backup"
        ),
        "hash_mismatch": Answer(
            8, "the stored data is damaged", "keep the file as it is and restore a backup"
        ),
        "bundle_damaged": Answer(
            8, "the bundle is damaged", "nothing was imported; copy it again, or export it again"
        ),
    }
)
"""One entry for every ``code`` in ``ctxmgr.errors``."""


def answer(error: BaseException) -> Answer:
    """Look the error up; whatever is not ours is our fault."""
    return ANSWERS[error.code] if isinstance(error, CtxmgrError) else INTERNAL


def line(error: BaseException) -> str:
    """Say it in one line."""
    found = answer(error)
    what = str(error) if isinstance(error, CtxmgrError) else f"{type(error).__name__}: {error}"
    return f"ctxmgr: {found.fault}: {' '.join(what.split())} ({found.next})"
