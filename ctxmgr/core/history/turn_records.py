"""Turn records: what a prompt was built from, so that it can be rebuilt. Pure.

    turn:{session}:{n}   prompt_hash, section_hashes   what was sent
                         renderer, policy              how it was rendered
                         mounts                        the mounts at that time
                         sequence                      the last transaction known at that time
                         shown                         id, object_hash and display path of each
                                                       version that was shown
                         active                        ids in the order of their content
                         activations                   object → turn in which it was activated
                         contributions                 what layers added
                         masks                         positions of secrets in a compact prompt,
                                                       as far as they differ from the record
                                                       before; absent if there are none

A plain document, not one of the five types. Prompt n shows the turns before n and the user's text
of turn n. Listing everything in every record would take quadratic space, so a record lists only
what differs from the previous one, except every ``RECORDS_PER_SNAPSHOT`` records or when most of it
changed. ``snapshot`` is the number of the last full record; the records from there to n together
list everything (``shown_at``).

``TurnRecorder`` creates the records of a session that is open. It keeps what the previous record
showed; after a resume it knows nothing, so the first record is a full one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import eq
from typing import TYPE_CHECKING, Any, Final, Self

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.context.assembly import RENDERER, Context, Contribution, Section
from ctxmgr.core.context.compact import COMPACT_RENDERER
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.envelope import TURN, Sealed, check_session_id, copy_nested, turn_id
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.objects.hashes import is_hash
from ctxmgr.core.objects.session_record import SystemPrompt
from ctxmgr.core.sessions.collapse import Activations
from ctxmgr.core.store.documents import ID, KIND, Document, check_object_id
from ctxmgr.errors import Corrupt, Incorrect

if TYPE_CHECKING:  # a session without a policy does not load the economy
    from ctxmgr.core.economy.records import EconomyRecord, Masks

RECORDS_PER_SNAPSHOT: Final = 64
"""The maximum number of records that are read for one prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version that a prompt showed, in full or as one line."""

    object_id: str
    object_hash: str
    display_path: str | None = None
    """Files only."""
    state: FileState | None = None
    """Only for a file that was read and has no text: its version does not say whether it was
    deleted or is binary."""

    def __post_init__(self) -> None:
        check_object_id(self.object_id)
        if not is_hash(self.object_hash):
            raise Incorrect(f"{self.object_id}: {self.object_hash!r:.80} is not an object_hash")

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
        """Describe a version; a state that follows from the version is left out."""
        return cls(
            object_id=version.object_id,
            object_hash=version.object_hash,
            display_path=display_path,
            state=state if state in {FileState.DELETED, FileState.NONTEXT} else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What prompt ``n`` of a session was built from."""

    session: str
    n: int
    """From 1."""
    prompt_hash: str
    section_hashes: Mapping[str, list[str]]
    renderer: str = RENDERER
    policy: Mapping[str, Any] | None = None
    """Name, settings and epoch; None for the plain and the compact form."""
    mounts: tuple[Mapping[str, str], ...] = ()
    sequence: int | None = None
    snapshot: int
    shown: tuple[ShownVersion, ...]
    """System prompt, chat, then the pool in its order, so that new objects come last."""
    active: tuple[str, ...]
    activations: Activations = field(default_factory=Activations)
    contributions: tuple[Contribution, ...] = ()
    masks: Mapping[str, "Masks"] = field(default_factory=dict)
    """Of the compact form; see ``context_masks``. An empty value: the text has none any more.
    ``masks_at`` returns those of a prompt. An economy policy records its own."""

    def __post_init__(self) -> None:
        check_session_id(self.session)
        if not 1 <= self.snapshot <= self.n:
            raise Incorrect(f"turn {self.n} cannot continue from turn {self.snapshot}")
        if not is_hash(self.prompt_hash):
            raise Incorrect(f"{self.prompt_hash!r:.80} is not a prompt_hash")

    @property
    def object_id(self) -> str:
        return turn_id(self.session, number=self.n)

    def needed(self) -> tuple[str, ...]:
        """Return the ids of the records that together list what was shown, oldest first."""
        numbers = range(self.snapshot, self.n + 1)
        return tuple(turn_id(self.session, number=number) for number in numbers)

    def to_document(self) -> Document:
        return self._document([version.to_value() for version in self.shown])

    def _document(self, shown: list[Document]) -> Document:
        document: Document = {
            ID: self.object_id,
            KIND: TURN,
            "session": self.session,
            "n": self.n,
            "prompt_hash": self.prompt_hash,
            "section_hashes": copy_nested(dict(self.section_hashes)),
            "renderer": self.renderer,
            "policy": None if self.policy is None else copy_nested(dict(self.policy)),
            "mounts": [dict(mount) for mount in self.mounts],
            "sequence": self.sequence,
            "snapshot": self.snapshot,
            "shown": shown,
            "active": list(self.active),
            "activations": dict(self.activations.turns),
            "contributions": [
                {"slot": str(added.slot), "name": added.name, "text": added.text}
                for added in self.contributions
            ],
        }
        if self.masks:
            document["masks"] = {
                key: [list(mask) for mask in masks] for key, masks in self.masks.items()
            }
        return document

    @classmethod
    def from_document(cls, document: Document, *, shown: "ShownReader | None" = None) -> Self:
        """Read a record; ``Corrupt`` unless it is exactly what ``to_document`` returned.

        Pass the same ``shown`` when reading many records, so that they share equal values.
        """
        reader = shown or ShownReader()
        try:
            values = {item.name: _read(item.name, document, reader) for item in fields(cls)}
            record = cls(**values)
            described = record._document(document["shown"])
        except (KeyError, TypeError, AttributeError, ValueError, Incorrect) as error:
            raise Corrupt(f"{document.get(ID)!r:.80} is not a turn record: {error}") from error
        if described != document:
            raise Corrupt(f"{document.get(ID)!r:.80} differs from the turn record it describes")
        return record


_ALWAYS_SHOWN: Final = ("id", "object_hash")
"""The fields of every shown version; most have no others."""


class ShownReader:
    """Reads the shown versions of many records; equal ones are read once, into one value."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[Document, ShownVersion]] = {}

    def read(self, values: Sequence[Document]) -> tuple[ShownVersion, ...]:
        return tuple(map(self._read, values))

    def _read(self, value: Document) -> ShownVersion:
        cached = self._cached.get(value["id"])
        if cached is not None and cached[0] == value:
            return cached[1]
        version = ShownVersion.from_value(value)
        if len(value) > len(_ALWAYS_SHOWN) and version.to_value() != value:
            raise Incorrect(f"{version.object_id} has unknown fields")
        self._cached[version.object_id] = (value, version)
        return version


def shown_at(records: Iterable[TurnRecord]) -> dict[str, ShownVersion]:
    """Merge the records that ``needed`` names into what the last of them showed, by id."""
    shown: dict[str, ShownVersion] = {}
    chain = tuple(records)
    for number, record in enumerate(chain, start=chain[-1].snapshot if chain else 0):
        if record.n != number or record.snapshot != chain[0].n:
            raise Corrupt(f"{record.object_id} does not continue the record before it")
        shown.update((version.object_id, version) for version in record.shown)
    return shown


def masks_at(
    record: TurnRecord, *, previous: TurnRecord | None, before: "Mapping[str, Masks]"
) -> "Mapping[str, Masks]":
    """Return the masks of a compact prompt; ``before`` are those of the previous record's."""
    if not _lists_changed_masks(record.renderer) or record.snapshot == record.n:
        return record.masks
    if previous is None or not _lists_changed_masks(previous.renderer):
        return record.masks
    masks = {**before, **record.masks}
    return {key: found for key, found in masks.items() if found}


def _changed_masks(
    masks: "Mapping[str, Masks]", before: "Mapping[str, Masks]"
) -> "Mapping[str, Masks]":
    """Return what ``masks_at`` needs besides those of the record before."""
    gone: dict[str, Masks] = {key: () for key in before if key not in masks}
    return {key: found for key, found in masks.items() if before.get(key) != found} | gone


def _lists_changed_masks(renderer: str) -> bool:
    return renderer == COMPACT_RENDERER


def plan_shown(
    shown: Sequence[ShownVersion], *, n: int, before: Mapping[str, ShownVersion], snapshot: int
) -> tuple[int, tuple[ShownVersion, ...]]:
    """Return the ``snapshot`` and the ``shown`` of record ``n``.

    ``before`` is what prompt n - 1 showed, empty for the first, and ``snapshot`` that of its
    record. Everything is listed if the chain is long, if most of it changed, or if what was shown
    before is not the beginning of what is shown now.
    """
    changed = tuple(
        version
        for version in shown
        # Most of a long pool is the same value, and identity is the cheaper comparison.
        if (old := before.get(version.object_id)) is not version and old != version
    )
    ids = (version.object_id for version in shown)
    grown = all(map(eq, before, ids)) and len(before) <= len(shown)
    chained = continues_chain(n, snapshot=snapshot, changed=len(changed), of=len(shown))
    return (snapshot, changed) if before and grown and chained else (n, tuple(shown))


def continues_chain(n: int, *, snapshot: int, changed: int, of: int) -> bool:
    """Whether record ``n`` lists only what changed, if the record before it is the basis."""
    return n - snapshot < RECORDS_PER_SNAPSHOT and 2 * changed <= of


def _read(name: str, document: Document, reader: ShownReader) -> Any:
    if name == "masks":
        return {
            key: tuple((start, end, text) for start, end, text in masks)
            for key, masks in document.get(name, {}).items()
        }
    value = document[name]
    match name:
        case "shown":
            return reader.read(value)
        case "active" | "mounts":
            return tuple(value)
        case "activations":
            return Activations(value)
        case "contributions":
            return tuple(
                Contribution(slot=Section(added["slot"]), name=added["name"], text=added["text"])
                for added in value
            )
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """A prompt as it was returned to the harness."""

    context: Context
    user: str
    """The user's text, without the notices of a policy."""
    renderer: str = RENDERER
    """Of a prompt that no economy policy made."""
    economy: "EconomyRecord | None"
    """What determined the prompt; None for the plain and the compact form."""
    prompt: SystemPrompt
    chat: Chat
    """Without the turn that the prompt is for."""
    pool: Sequence[ShownVersion]
    active: tuple[str, ...]
    activations: Activations
    sequence: int | None
    masks: Mapping[str, "Masks"] = field(default_factory=dict)
    """Of the compact form."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Every version that a prompt shows."""

    head: tuple[ShownVersion, ...] = ()
    """System prompt and chat."""
    pool: Sequence[ShownVersion] = ()

    def all(self) -> tuple[ShownVersion, ...]:
        return (*self.head, *self.pool)

    def since(self, before: Self) -> tuple[ShownVersion, ...] | None:
        """Return what changed, if the pool is known to have only grown; None: it is not."""
        pool, old = self.pool, before.pool
        if not isinstance(pool, AppendOnly) or not isinstance(old, AppendOnly):
            return None
        if not pool.continues(old):
            return None
        pairs = zip(self.head, before.head, strict=True)
        changed = (version for version, previous in pairs if version != previous)
        return (*changed, *pool[len(old) :])


class TurnRecorder:
    """Creates the turn records of one session."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = tuple(
            {
                "agentPrefix": mapping.agent_prefix,
                "canonicalPrefix": mapping.canonical_prefix,
                "filesystemId": mapping.filesystem_id,
            }
            for mapping in mounts.mappings
        )
        self._before = _Shown()
        self._economy: EconomyRecord | None = None
        self._masks: Mapping[str, Masks] | None = None
        """Of the last prompt, if its record lists those that changed."""
        self._snapshot = 1

    def record(self, sent: SentPrompt, *, session_id: str, n: int) -> TurnRecord:
        """Return the record of turn ``n``."""
        if _compacted_since(self._economy, sent.economy):
            self.forget()  # most of what earlier records say of texts is not needed any more
        snapshot, listed = self._plan(_shown_by(sent), n=n)
        economy = sent.economy
        before = None if snapshot == n else self._economy
        masks = sent.masks
        if snapshot != n and self._masks is not None and _lists_changed_masks(sent.renderer):
            masks = _changed_masks(masks, self._masks)
        return TurnRecord(
            renderer=sent.renderer if economy is None else economy.renderer,
            policy=None if economy is None else economy.to_value(before),
            session=session_id,
            n=n,
            prompt_hash=sent.context.prompt_hash(),
            section_hashes=sent.context.section_hashes(),
            mounts=self._mounts,
            sequence=sent.sequence,
            snapshot=snapshot,
            shown=listed,
            active=sent.active,
            activations=sent.activations,
            contributions=sent.context.contributions,
            masks=masks,
        )

    def saved(self, record: TurnRecord, sent: SentPrompt) -> None:
        """Remember what the next record may leave out."""
        self._before = _shown_by(sent)
        self._economy = sent.economy
        self._masks = sent.masks if _lists_changed_masks(record.renderer) else None
        self._snapshot = record.snapshot

    def forget(self) -> None:
        """Make the next record a full one."""
        self._before, self._economy, self._masks, self._snapshot = _Shown(), None, None, 1

    def _plan(self, shown: _Shown, *, n: int) -> tuple[int, tuple[ShownVersion, ...]]:
        """Do what ``plan_shown`` does, without comparing versions that are known to be the same."""
        changed = shown.since(self._before)
        if changed is not None and continues_chain(
            n, snapshot=self._snapshot, changed=len(changed), of=len(shown.head) + len(shown.pool)
        ):
            return self._snapshot, changed
        before = {version.object_id: version for version in self._before.all()}
        return plan_shown(shown.all(), n=n, before=before, snapshot=self._snapshot)


def _compacted_since(before: "EconomyRecord | None", now: "EconomyRecord | None") -> bool:
    return before is not None and now is not None and before.summary != now.summary


def _shown_by(sent: SentPrompt) -> _Shown:
    return _Shown((ShownVersion.of(sent.prompt), ShownVersion.of(sent.chat)), sent.pool)
