"""Every exception ctxmgr raises on purpose. The class says what the caller can do about it.

CtxmgrError
├── Incorrect            the caller's mistake; trying again will not help
│   ├── NotContent       tried to activate a chat, a session or a system prompt
│   ├── ExtraMissing     needs a package that is not installed; also an ImportError
│   ├── NewerFormat      written by a newer ctxmgr; upgrade this one
│   ├── InvalidNote      a note's text is not what its format says; the line is named
│   ├── WindowExceeded   what must be shown does not fit the window; unpin something
│   └── QuotaExceeded    an agent would retain more experience than it may; release something
├── NotFound             no such object, session, note or memory
│   └── Purged           it was there, and was removed for good
├── Conflict             someone else wrote first; read again, then retry
├── Denied               the credentials or the file's permissions do not allow it
├── Unavailable          the store or the source cannot be reached; nothing was written, retry later
│   ├── OutcomeUnknown   the reply was lost; retry with the same key to learn the outcome
│   └── ModelUnavailable the model's server cannot be reached, or is too busy
│       └── AnswerLost   an answer began and did not end; none of it counts
└── Corrupt              stored data fails its own check; never retried, never hidden
    ├── HashMismatch     a stored hash does not match the data
    ├── BundleDamaged    a bundle was altered or is incomplete; the store is unchanged
    └── ChainBroken      the audit log was altered or cut; nothing more is appended to it
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

DISTRIBUTION: Final = "ctxmgr-agent"
"""The name to install: ``ctxmgr`` on PyPI is another project."""


class CtxmgrError(Exception):
    """The base class of all errors that ctxmgr raises on purpose."""

    code: ClassVar[str] = "error"
    """A stable identifier, which the HTTP API and ``--json`` report."""


class Incorrect(CtxmgrError):
    """The request itself is wrong; the message says what to change."""

    code = "incorrect"


class NotContent(Incorrect):
    """Only files and tool calls can be activated, deactivated or pinned."""

    code = "not_content"

    def __init__(self, object_id: str, kind: str) -> None:
        super().__init__(f"{object_id} is a {kind}, which has a fixed place in the prompt")
        self.object_id = object_id
        self.kind = kind


class ExtraMissing(Incorrect, ImportError):
    """A feature needs packages that are not installed, or other versions of them."""

    code = "extra_missing"

    def __init__(self, *, extra: str) -> None:
        super().__init__(f"this needs the \"{extra}\" extra: pip install '{DISTRIBUTION}[{extra}]'")
        self.extra = extra


@contextmanager
def requires_extra(extra: str, *packages: str) -> Iterator[None]:
    """Guard imports of an extra's packages; ``ExtraMissing`` if one of them is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise ExtraMissing(extra=extra) from error


class NewerFormat(Incorrect):
    """The data was written by a newer version of ctxmgr, and is left alone."""

    code = "newer_format"

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} has format {found}, this ctxmgr reads formats up to {known}: upgrade ctxmgr"
        )
        self.found = found
        self.known = known


class InvalidNote(Incorrect):
    """A note cannot be read or written as it is; nothing was changed."""

    code = "invalid_note"

    def __init__(self, problem: str, *, line: int | None = None, path: str | None = None) -> None:
        where = [path or "the note", *([] if line is None else [str(line)])]
        super().__init__(f"{':'.join(where)}: {problem}")
        self.problem = problem
        self.line = line
        """From 1; None if it is about the whole file."""
        self.path = path


class WindowExceeded(Incorrect):
    """The content that must be shown does not fit the window, even with all else folded."""

    code = "window_exceeded"

    def __init__(self, tokens: int, *, window: int, pinned: Mapping[str, int]) -> None:
        named = ", ".join(f"{object_id} ({size} tokens)" for object_id, size in pinned.items())
        remedy = f"unpin {named}" if named else "nothing is pinned, use a larger window"
        super().__init__(f"{tokens} tokens must be shown, the window holds {window}: {remedy}")
        self.tokens = tokens
        self.window = window
        self.pinned = dict(pinned)
        """Pinned objects and their tokens, largest first."""


class QuotaExceeded(Incorrect):
    """Retaining this would exceed the quota of tokens; nothing was retained."""

    code = "quota_exceeded"

    def __init__(self, *, wanted: int, used: int, quota: int) -> None:
        self.shortfall = used + wanted - quota
        """Tokens that would be above the quota."""
        super().__init__(
            f"retaining {wanted:,} more tokens exceeds the quota of {quota:,} by"
            f" {self.shortfall:,}: release a window first"
        )


class NotFound(CtxmgrError):
    """There is no such object, session or turn."""

    code = "not_found"


class Purged(NotFound):
    """What was asked for was removed for good, and a record of that is left."""

    code = "purged"

    def __init__(self, what: str, purge: int) -> None:
        super().__init__(f"{what} (purge {purge})")
        self.purge = purge


class Conflict(CtxmgrError):
    """A match failed, so no part of the transaction was written."""

    code = "conflict"

    def __init__(self, object_ids: tuple[str, ...]) -> None:
        names = ", ".join(object_ids) or "the transaction"
        super().__init__(
            f"{names}: changed by another writer since it was read; read again and retry"
        )
        self.object_ids = object_ids
        """The ids whose match failed, in the order of the transaction."""


class Denied(CtxmgrError):
    """The credentials or the file permissions do not allow it."""

    code = "denied"


class Unavailable(CtxmgrError):
    """The store or the source cannot be reached now. Nothing was written."""

    code = "unavailable"


class OutcomeUnknown(Unavailable):
    """The reply to a transaction was lost: it may or may not have been written."""

    code = "outcome_unknown"

    def __init__(self, key: str, reason: str, *, expired: bool = False) -> None:
        super().__init__(
            f"the outcome of transaction {key} is unknown ({reason}); "
            "commit it again with the same key: it is written at most once"
        )
        self.key = key
        self.expired = expired
        """The store has waited as long as it may; sending again at once would only wait longer."""


class ModelUnavailable(Unavailable):
    """The model's server did not answer."""

    code = "model_unavailable"


class AnswerLost(ModelUnavailable):
    """The model's answer broke off or could not be read completely. None of it was stored."""

    code = "answer_lost"


class Corrupt(CtxmgrError):
    """Stored data fails its own check."""

    code = "corrupt"


class HashMismatch(Corrupt):
    """A stored hash does not match the data."""

    code = "hash_mismatch"

    def __init__(self, object_id: str, field: str, stored: object, computed: object) -> None:
        super().__init__(
            f"{object_id}: {field} is stored as {stored}, but its content hashes to {computed}"
        )
        self.object_id = object_id
        self.field = field
        self.stored = stored
        self.computed = computed


class BundleDamaged(Corrupt):
    """A bundle was altered or is incomplete. Nothing of it was imported."""

    code = "bundle_damaged"


class ChainBroken(Corrupt):
    """The audit log is not what was written. It is kept as it is."""

    code = "chain_broken"
