"""How documents are stored in XTDB. Pure.

    {:xt/id "session:1" :type "session"                     one entity per object,
     :session_index ["f98" "f99"]                           every field under its own name
     :ctxmgr/older.session_index ["ctxmgr/piece/…" …]       the older part of a long list
     :ctxmgr/cut true                                       some fields are in pieces
     :ctxmgr/tx "KEY"                                       the version's token
     :ctxmgr/origin "KEY"                                   the token that it had before a rewrite,
                                                            if it has pieces
     :ctxmgr/format 1}

    {:xt/id "ctxmgr/guard/session:1" :ctxmgr/token "KEY"}   the same timeline, without content

Attributes and ids that begin with ``ctxmgr/`` are internal; only objects have a ``:type``. A
document without ``:ctxmgr/format`` was written by another program: it is returned unchanged and has
no token.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.store.contract import Instant
from ctxmgr.core.store.documents import ID, Document
from ctxmgr.errors import Corrupt, NewerFormat
from ctxmgr.stores.edn.values import EdnError, Inst, dumps, edn_to_document
from ctxmgr.stores.xtdb.pieces import (
    Cut,
    cut_grown,
    cut_list,
    cut_text,
    joined_items,
    joined_text,
    size_of,
)

FORMAT: Final = 1
"""The format that this version writes, and the newest one it reads."""

TX: Final = "ctxmgr/tx"
TOKEN: Final = "ctxmgr/token"  # noqa: S105 -- an attribute
ORIGIN: Final = "ctxmgr/origin"
_FORMAT: Final = "ctxmgr/format"
_CUT: Final = "ctxmgr/cut"
_OURS: Final = "ctxmgr/"
_OLDER: Final = "ctxmgr/older."
_TEXT: Final = "ctxmgr/text."

Pieces = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Entity:
    """A document as EDN, with the pieces it refers to."""

    text: str
    pieces: tuple[Mapping[str, str], ...]
    """Of each field that is cut: EDN of the pieces by their ids."""
    size: int
    """Bytes of the whole document, pieces included."""


class Stored(NamedTuple):
    """An entity as XTDB returned it, without its pieces."""

    fields: Document

    @property
    def object_id(self) -> str:
        """The id. Raises ``Corrupt`` if another program wrote one that is not a text."""
        object_id = self.fields.get(ID)
        if not isinstance(object_id, str):
            raise Corrupt(f"an entity has the id {object_id!r:.80}, which is not a text")
        return object_id

    @property
    def token(self) -> str | None:
        token = self.fields.get(TX)
        return token if isinstance(token, str) else None

    @property
    def origin(self) -> str | None:
        """The key of the transaction that first put the version, if it has pieces."""
        origin = self.fields.get(ORIGIN)
        return origin if isinstance(origin, str) else self.token

    @property
    def is_cut(self) -> bool:
        """Whether some of its fields are in pieces."""
        return _CUT in self.fields

    def without(self, names: frozenset[str]) -> Self:
        """Return it without some fields, so that their pieces are not fetched."""
        references = {f"{prefix}{name}" for name in names for prefix in (_OLDER, _TEXT)}
        left_out = names | references
        return type(self)(
            {name: value for name, value in self.fields.items() if name not in left_out}
        )

    def roots(self) -> Iterable[str]:
        """Yield the ids of the pieces that the document refers to directly."""
        if self.is_cut:
            for name, value in self.fields.items():
                if name.startswith((_OLDER, _TEXT)):
                    if not isinstance(value, list) or {*map(type, value)} - {str}:
                        raise Corrupt(f"{self.object_id}: :{name} is not a list of ids")
                    yield from value

    def document(self, pieces: Pieces) -> Document:
        """Return the document as it was put. Raises ``Corrupt`` if the entity is malformed."""
        try:
            return self._document(pieces)
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{self.object_id}: the entity is malformed ({error!r:.80})") from error

    def _document(self, pieces: Pieces) -> Document:
        fields = self.fields
        if _FORMAT not in fields:
            return fields
        stored_format = fields[_FORMAT]
        if not isinstance(stored_format, int) or stored_format > FORMAT:
            raise NewerFormat(self.object_id, stored_format, FORMAT)
        if _CUT not in fields:
            document = fields.copy()
            del document[TX], document[_FORMAT]
            return document
        document = {name: item for name, item in fields.items() if not name.startswith(_OURS)}
        self._join(document, pieces)
        return document

    def _join(self, document: Document, pieces: Pieces) -> None:
        for name, roots in self.fields.items():
            if name.startswith(_OLDER):
                field = name.removeprefix(_OLDER)
                document[field] = [*joined_items(roots, pieces), *document[field]]
            elif name.startswith(_TEXT):
                document[name.removeprefix(_TEXT)] = joined_text(roots, pieces)


def entity_of(
    document: Document,
    *,
    token: str,
    grown: Mapping[str, AppendOnly[Any]] | None = None,
    origin: str | None = None,
) -> Entity:
    """Write a document as an entity; of the lists in ``grown``, only what is new is read.

    ``origin`` is the token of the version that it replaces.
    """
    cuts: list[Cut] = []
    parts: list[str] = []
    for name, value in document.items():
        parts += _attributes(name, grown[name] if grown and name in grown else value, cuts)
    pieces = tuple(cut.pieces for cut in cuts if cut.pieces)
    if pieces:
        parts.append(f":{_CUT} true")
        if origin is not None:
            parts.append(f":{ORIGIN} {dumps(origin)}")
    parts += [f":{TX} {dumps(token)}", f":{_FORMAT} {FORMAT}"]
    text = f"{{{', '.join(parts)}}}"
    return Entity(text, pieces, size_of(text) + sum(cut.spilled_bytes for cut in cuts))


def stored_from(entity: dict[Any, Any]) -> Stored:
    """Wrap a decoded entity. Raises ``Corrupt`` if it is not a valid document."""
    try:
        return Stored(edn_to_document(entity))
    except EdnError as error:
        raise Corrupt(f"an entity cannot be read: {error}") from error


def guard_id(object_id: str) -> str:
    """Return the id of the small document with the same timeline as the object."""
    return f"ctxmgr/guard/{object_id}"


def guard_of(object_id: str, *, token: str) -> str:
    """Write the guard of one version as EDN."""
    return f"{{:xt/id {dumps(guard_id(object_id))}, :{TOKEN} {dumps(token)}}}"


def instant_edn(instant: Instant) -> str:
    """Write an instant as an EDN literal."""
    return dumps(Inst(instant))


def _attributes(name: str, value: Any, cuts: list[Cut]) -> list[str]:
    if isinstance(value, list | AppendOnly):
        cut = cut_list(value) if isinstance(value, list) else cut_grown(value)
        attributes, reference = [f":{name} {cut.inline}"], _OLDER
    elif isinstance(value, str) and (text_cut := cut_text(value)) is not None:
        cut = text_cut
        attributes, reference = [], _TEXT
    else:
        return [f":{name} {dumps(value)}"]
    if cut.roots:
        attributes.append(f":{reference}{name} {dumps(list(cut.roots))}")
    cuts.append(cut)
    return attributes
