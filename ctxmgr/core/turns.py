"""Turn records: what one prompt was made of, so that it can be made again. Pure.

    turn:{session}:{n}   prompt_hash, section_hashes   what was sent
                         renderer, policy              how it was made
                         mounts                        what paths meant then
                         sequence                      the last transaction known when it was made
                         shown                         id, object_hash and display path of each
                                                       version that was shown
                         active                        ids in the order of their content
                         activations                   object → turn of the choice
                         contributions                 what layers added

A plain document, none of the five types. Prompt n shows the turns before n and the user's text of
turn n. ``shown`` of a long session would cost its square, so a record lists only what differs from
the record before, except every ``RECORDS_PER_SNAPSHOT`` or when little stayed: ``snapshot`` is the
number of the last full one, and the records from there to n together say all (``shown_at``).

Versions are read back as of ``sequence``; in another store, where sequences mean nothing, they are
found in their object's history by ``object_hash``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import eq
from typing import Any, Final, Self

from ctxmgr.core.assembly import RENDERER, Contribution, Section
from ctxmgr.core.collapse import Activations
from ctxmgr.core.contents import FileState
from ctxmgr.core.documents import ID, KIND, Document, check_object_id
from ctxmgr.core.envelopes import TURN, Sealed, check_session_id, copied, turn_id
from ctxmgr.core.hashes import is_hash
from ctxmgr.errors import Corrupt, Incorrect

RECORDS_PER_SNAPSHOT: Final = 64
"""At most so many records are read to learn what one prompt showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version that a prompt showed, in full or as a line."""

    object_id: str
    object_hash: str
    display_path: str | None = None
    """Files only."""
    state: FileState | None = None
    """Only of a file without text that was read: the version alone does not tell deleted from
    binary."""

    def __post_init__(self) -> None:
        check_object_id(self.object_id)
        if not is_hash(self.object_hash):
            raise Incorrect(f"{self.object_id}: {self.object_hash!r:.80} is no object_hash")

    def to_value(self) -> Document:
        value = {"id": self.object_id, "object_hash": self.object_hash}
        if self.display_path is not None:
            value["display_path"] = self.display_path
        if self.state is not None:
            value["state"] = str(self.state)
        return value

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            object_id=value["id"],
            object_hash=value["object_hash"],
            display_path=value.get("display_path"),
            state=FileState(value["state"]) if "state" in value else None,
        )

    @classmethod
    def of(
        cls,
        version: Sealed,
        *,
        display_path: str | None = None,
        state: FileState | None = None,
    ) -> Self:
        """Note a version; what it tells itself of its state is not noted again."""
        told = state if state in {FileState.DELETED, FileState.NONTEXT} else None
        return cls(
            object_id=version.object_id,
            object_hash=version.object_hash,
            display_path=display_path,
            state=told,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What prompt ``n`` of a session was made of."""

    session: str
    n: int
    """From 1."""
    prompt_hash: str
    section_hashes: Mapping[str, list[str]]
    renderer: str = RENDERER
    policy: Mapping[str, Any] | None = None
    """Name, settings and epoch; None: the plain form."""
    mounts: tuple[Mapping[str, str], ...] = ()
    sequence: int | None = None
    snapshot: int
    shown: tuple[ShownVersion, ...]
    """System prompt, chat, then the pool in its order: so that what is new comes last."""
    active: tuple[str, ...]
    activations: Activations = field(default_factory=Activations)
    contributions: tuple[Contribution, ...] = ()

    def __post_init__(self) -> None:
        check_session_id(self.session)
        if not 1 <= self.snapshot <= self.n:
            raise Incorrect(f"turn {self.n} cannot continue from turn {self.snapshot}")
        if not is_hash(self.prompt_hash):
            raise Incorrect(f"{self.prompt_hash!r:.80} is no prompt_hash")

    @property
    def object_id(self) -> str:
        return turn_id(self.session, number=self.n)

    def needed(self) -> tuple[str, ...]:
        """Name the records that together say what this prompt showed, oldest first."""
        numbers = range(self.snapshot, self.n + 1)
        return tuple(turn_id(self.session, number=number) for number in numbers)

    def to_document(self) -> Document:
        return self._document([version.to_value() for version in self.shown])

    def _document(self, shown: list[Document]) -> Document:
        return {
            ID: self.object_id,
            KIND: TURN,
            "session": self.session,
            "n": self.n,
            "prompt_hash": self.prompt_hash,
            "section_hashes": copied(dict(self.section_hashes)),
            "renderer": self.renderer,
            "policy": None if self.policy is None else copied(dict(self.policy)),
            "mounts": [dict(mount) for mount in self.mounts],
            "sequence": self.sequence,
            "snapshot": self.snapshot,
            "shown": shown,
            "active": list(self.active),
            "activations": dict(self.activations.turns),
            "contributions": [_contribution_value(each) for each in self.contributions],
        }

    @classmethod
    def from_document(cls, document: Document, *, shown: "ShownReader | None" = None) -> Self:
        """Read a record back; ``Corrupt`` unless it is exactly what ``to_document`` gave.

        Whoever reads many gives all of them the same ``shown``.
        """
        reader = shown or ShownReader()
        try:
            values = {each.name: _read(each.name, document, reader) for each in fields(cls)}
            record = cls(**values)
        except (KeyError, TypeError, AttributeError, ValueError, Incorrect) as error:
            raise Corrupt(f"{document.get(ID)!r:.80}: no turn record: {error}") from error
        if record._document(document["shown"]) != document:
            raise Corrupt(f"{document.get(ID)!r:.80}: not as a turn record is written")
        return record


class ShownReader:
    """Reads what records show. What one shows as another did is the same value, and read once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Document, ShownVersion]] = {}

    def read(self, values: Sequence[Document]) -> tuple[ShownVersion, ...]:
        return tuple(map(self._read, values))

    def _read(self, value: Document) -> ShownVersion:
        known = self._known.get(value["id"])
        if known is not None and known[0] == value:
            return known[1]
        version = ShownVersion.from_value(value)
        if version.to_value() != value:
            raise Incorrect(f"{version.object_id}: not as a shown version is written")
        self._known[version.object_id] = (value, version)
        return version


def shown_at(records: Iterable[TurnRecord]) -> dict[str, ShownVersion]:
    """Join the records that ``needed`` names into what the last of them showed, by id."""
    shown: dict[str, ShownVersion] = {}
    chain = tuple(records)
    for number, record in enumerate(chain, start=chain[-1].snapshot if chain else 0):
        if record.n != number or record.snapshot != chain[0].n:
            raise Corrupt(f"{record.object_id}: the records before it do not join up")
        shown.update((version.object_id, version) for version in record.shown)
    return shown


def plan_shown(
    shown: Sequence[ShownVersion], *, n: int, before: Mapping[str, ShownVersion], snapshot: int
) -> tuple[int, tuple[ShownVersion, ...]]:
    """Say what record ``n`` lists: its ``snapshot`` and its ``shown``.

    ``before`` is what prompt n - 1 showed, and ``snapshot`` that record's; for the first: nothing,
    and any number. All is listed when the chain is long, when most is new anyway, and when what
    was shown before is not the beginning of what is shown now.
    """
    changed = tuple(each for each in shown if _differs(each, before.get(each.object_id)))
    grown = all(map(eq, before, (each.object_id for each in shown))) and len(before) <= len(shown)
    is_long = n - snapshot >= RECORDS_PER_SNAPSHOT
    if not before or not grown or is_long or 2 * len(changed) > len(shown):
        return n, tuple(shown)
    return snapshot, changed


def _differs(now: ShownVersion, before: ShownVersion | None) -> bool:
    return now is not before and now != before  # most of a long pool is the same value


def _read(name: str, document: Document, reader: ShownReader) -> Any:
    value = document[name]
    match name:
        case "shown":
            return reader.read(value)
        case "active" | "mounts":
            return tuple(value)
        case "activations":
            return Activations(value)
        case "contributions":
            return tuple(map(_read_contribution, value))
        case _:
            return value


def _contribution_value(contribution: Contribution) -> Document:
    return {
        "slot": str(contribution.slot),
        "name": contribution.name,
        "text": contribution.text,
    }


def _read_contribution(value: Mapping[str, str]) -> Contribution:
    return Contribution(slot=Section(value["slot"]), name=value["name"], text=value["text"])
