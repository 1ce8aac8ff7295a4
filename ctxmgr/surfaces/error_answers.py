"""The exit code, summary and remedy for each error. Pure.

Exit codes are stable: scripts branch on them.

    0    done                       5    denied
    1    done, check failed         6    unavailable
    2    invalid request            7    outcome unknown
    3    not found                  8    the stored data is damaged
    4    conflict                  70    a bug in ctxmgr
                                  130    interrupted, 143 terminated
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import CtxmgrError

UNSATISFIED: Final = 1
INTERRUPTED: Final = 130
TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    exit_code: int
    fault: str
    """A summary of what went wrong, for programs and for the reference."""
    next: str
    """What to do about it, unless the message says it; empty if there is nothing general to say."""


INTERNAL: Final = ErrorAnswer(70, "a bug in ctxmgr", "run it again with -v and report the output")

ANSWERS: Final = MappingProxyType(
    {
        "error": INTERNAL,
        "incorrect": ErrorAnswer(2, "invalid request", ""),
        "not_content": ErrorAnswer(2, "invalid request", "name a file or a tool call"),
        "extra_missing": ErrorAnswer(2, "a package is missing", ""),
        "newer_format": ErrorAnswer(2, "this ctxmgr is too old", ""),
        "window_exceeded": ErrorAnswer(2, "the prompt does not fit the window", ""),
        "quota_exceeded": ErrorAnswer(2, "the quota is used up", ""),
        "invalid_note": ErrorAnswer(2, "the note is not valid", ""),
        "purged": ErrorAnswer(3, "removed for good", "`ctxmgr store purges` lists purges"),
        "not_found": ErrorAnswer(3, "not found", ""),
        "conflict": ErrorAnswer(4, "another writer was first", ""),
        "denied": ErrorAnswer(5, "not allowed", ""),
        "unavailable": ErrorAnswer(6, "unavailable", "nothing was written; retry later"),
        "model_unavailable": ErrorAnswer(6, "the model is unavailable", "retry later"),
        "answer_lost": ErrorAnswer(
            6, "the model's answer was lost", "none of it was stored; retry"
        ),
        "outcome_unknown": ErrorAnswer(7, "the reply was lost", ""),
        "corrupt": ErrorAnswer(
            8, "the stored data is damaged", "keep the file unchanged and restore a backup"
        ),
        "hash_mismatch": ErrorAnswer(
            8, "the stored data is damaged", "keep the file unchanged and restore a backup"
        ),
        "bundle_damaged": ErrorAnswer(
            8, "the bundle is damaged", "nothing was imported; export it again"
        ),
        "chain_broken": ErrorAnswer(
            8, "the audit log was altered", "keep its folder and run `ctxmgr audit verify`"
        ),
    }
)
"""One entry for every ``code`` in ``ctxmgr.errors``."""


def answer(error: BaseException) -> ErrorAnswer:
    """Look an error up; any other exception is a bug in ctxmgr."""
    return ANSWERS[error.code] if isinstance(error, CtxmgrError) else INTERNAL


def remedy(error: BaseException, other: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what to do about an error; empty if its message says so already.

    ``other`` are the remedies of a surface where they differ from the command line's.
    """
    code = error.code if isinstance(error, CtxmgrError) else "error"
    if isinstance(error, CtxmgrError) and _SAYS_WHAT_TO_DO.search(str(error)):
        return ""
    return other.get(code, answer(error).next)


_SAYS_WHAT_TO_DO: Final = re.compile(
    r"""(?x) ` (?:ctxmgr|sessions|objects|--) | \(one\ of: | \(nearest: | \bpip\ install\b
      | \bmust\ (?:be|have|begin)\b
      | [:;,]\ (?: (?:or|and|then|but|it)\ )?
        (?: ask|begin|bind|call|check|choose|close|copy|correct|create|delete|export|give|install
          | keep|leave|make|mount|name|open|pass|put|read|remove|rename|repeat|restore|retry|run|set
          | shorten|start|stop|upgrade|use|wait|write ) \b"""
)
"""How our messages begin their second half: what is wrong, a colon or semicolon, what to do."""


def line(error: BaseException) -> str:
    """Describe an error in one line: what is wrong, and what to do about it."""
    message = str(error) if isinstance(error, CtxmgrError) else f"{type(error).__name__}: {error}"
    known = isinstance(error, CtxmgrError) and error.code != "error"
    what = "" if known else f"{INTERNAL.fault}: "
    todo = remedy(error)
    return f"ctxmgr: {what}{' '.join(message.split())}{f'; {todo}' if todo else ''}"
