"""A namespace for each test in a shared database, and instants to write at. Pure.

Every contract test writes only ids and a kind with its own mark, so that all can use one server.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.contract import LATEST, AsOf, Commit, FieldType, Instant, Kind, Put, Store
from ctxmgr.core.store.documents import Document

FIRST_DAY: Final[Instant] = 1_577_836_800_000
"""2020-01-01, long before any test runs."""

FUTURE: Final[Instant] = 4_102_444_800_000
"""2100-01-01, long after."""

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Namespace:
    """Ids and a kind that no other test uses."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def kind(self) -> Kind:
        """Notes with a title (text), a rank (integer) and a done flag (boolean)."""
        declared = {
            "title": FieldType.TEXT,
            "rank": FieldType.INTEGER,
            "done": FieldType.BOOLEAN,
        }
        return Kind(f"note-{self.mark}", declared)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds that a store must be opened with."""
        return {**KINDS, self.kind.name: self.kind}

    def id(self, name: str = "a") -> str:
        return f"{self.mark}:{name}"

    def note(self, name: str = "a", **fields: Any) -> Document:
        return {"xt/id": self.id(name), "type": self.kind.name, **fields}


def day(number: int) -> Instant:
    """The midnight of a past day, counted from the first."""
    return FIRST_DAY + number * _DAY_MS


async def put(
    store: Store,
    document: Document,
    *,
    valid_from: Instant | None = None,
    valid_to: Instant | None = None,
) -> Commit:
    return await store.commit([Put(document, valid_from, valid_to)])


async def title(store: Store, object_id: str, *, as_of: AsOf = LATEST) -> Any:
    """The title of the note at that point; None if nothing is visible there."""
    version = await store.get(object_id, as_of=as_of)
    return None if version is None else version.document["title"]


async def title_on(store: Store, object_id: str, *days: int) -> list[Any]:
    """The title of the note on each of the days, with everything known now."""
    points = [AsOf(valid_time=day(number)) for number in days]
    return [await title(store, object_id, as_of=point) for point in points]


async def last_sequence(store: Store) -> int | None:
    return (await store.status()).sequence
