"""Every exception ctxmgr raises on purpose. The class says what the caller can do about it.

CtxmgrError
├── Incorrect            the caller's mistake; trying again will not help
│   ├── NotContent       tried to activate a chat, a session or a system prompt
│   ├── ExtraMissing     needs a package that is not installed; also an ImportError
│   ├── NewerFormat      written by a newer ctxmgr; upgrade this one
│   └── WindowExceeded   what must be shown does not fit; unpin something
├── NotFound             no such object, session, note or memory
├── Conflict             someone else wrote first; read again, then retry
├── Denied               the credentials or the file's permissions do not allow it
├── Unavailable          the store or the source cannot be reached; nothing was written, retry later
│   ├── OutcomeUnknown   the reply was lost; retry with the same key to learn the outcome
│   └── ModelUnavailable the model's server cannot be reached, or is too busy
│       └── AnswerLost   an answer began and did not end; none of it counts
└── Corrupt              stored data fails its own check; never retried, never hidden
    ├── HashMismatch     a stored hash is not the hash of what it stands for
    └── BundleDamaged    a bundle is not as it was exported; the store is untouched
"""

from collections.abc import Mapping
from typing import ClassVar


class CtxmgrError(Exception):
    """The root of the tree. ``code`` is stable; surfaces turn it into statuses and exit codes."""

    code: ClassVar[str] = "error"


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
    """A shim was imported and its framework is not installed."""

    code = "extra_missing"

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(
            f"{package} is not installed, or is another version than this ctxmgr knows: "
            f"pip install 'ctxmgr[{extra}]'"
        )
        self.extra = extra


class NewerFormat(Incorrect):
    """Stored by a newer version than this one, which therefore does not touch it."""

    code = "newer_format"

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} has format {found}, this ctxmgr knows up to {known}: upgrade ctxmgr"
        )
        self.found = found
        self.known = known


class WindowExceeded(Incorrect):
    """System prompt, pins, what was said and the current turn are more than the window."""

    code = "window_exceeded"

    def __init__(self, tokens: int, *, window: int, pinned: Mapping[str, int]) -> None:
        named = ", ".join(f"{each} ({size} tokens)" for each, size in pinned.items())
        todo = f"unpin {named}" if named else "nothing is pinned: take a larger window"
        super().__init__(f"{tokens} tokens must be shown, and the window holds {window}: {todo}")
        self.tokens = tokens
        self.window = window
        self.pinned = dict(pinned)
        """What is pinned, with its tokens, the largest first."""


class NotFound(CtxmgrError):
    """There is no such thing here."""

    code = "not_found"


class Conflict(CtxmgrError):
    """A match failed, so nothing of the transaction was written."""

    code = "conflict"

    def __init__(self, object_ids: tuple[str, ...]) -> None:
        names = ", ".join(object_ids) or "the transaction"
        super().__init__(
            f"{names}: written by someone else since it was read; read again and retry"
        )
        self.object_ids = object_ids
        """The ids whose match failed, in the order of the transaction."""


class Denied(CtxmgrError):
    """The store knows what was asked and does not allow it."""

    code = "denied"


class Unavailable(CtxmgrError):
    """The store or the source cannot be reached now. Nothing was written."""

    code = "unavailable"


class OutcomeUnknown(Unavailable):
    """The transaction was sent and its reply was lost: it may or may not have been written."""

    code = "outcome_unknown"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(
            f"the outcome of transaction {key} is unknown ({reason}); "
            "commit it again with the same key: it is written once at most"
        )
        self.key = key


class ModelUnavailable(Unavailable):
    """No answer came from the model's server."""

    code = "model_unavailable"


class AnswerLost(ModelUnavailable):
    """The model's answer broke off or could not be read to its end. None of it was stored."""

    code = "answer_lost"


class Corrupt(CtxmgrError):
    """Stored data fails its own check."""

    code = "corrupt"


class HashMismatch(Corrupt):
    """A stored hash is not the hash of what it stands for."""

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
    """A bundle fails its own check. Nothing of it was imported."""

    code = "bundle_damaged"
