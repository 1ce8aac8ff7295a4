"""Documents that are searched as a whole, where they come from, and what a search returns. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ctxmgr.core.store.contract import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """A note, a topic or a transcript."""

    path: str
    """Relative to the repository, with slashes; unique in an index."""
    text: str = field(repr=False)
    category: str
    modified: "Instant"
    """When the file changed or was committed, not when it was indexed."""
    tags: tuple[str, ...] = ()


class DocumentSource(Protocol):
    """The files that an index is derived from. Called from other threads."""

    def paths(self) -> Iterable[str]:
        """Return the paths of all documents."""

    def read(self, path: str) -> SearchDocument | None:
        """Read a document; None if the file does not exist or is not to be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found: a document, or a source by its best piece."""

    path: str
    snippet: str
    score: float
    """Higher is better; comparable only within one result."""
    category: str
