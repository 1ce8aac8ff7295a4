"""The four sections, assembled from values. Pure.

    system prompt     as it is                          stable
    metadata pool     one line per object               grows
    chat              messages and references           grows
    active content    heading and content per object    volatile

Sections are joined by one empty line, and an empty one is left out. Contributions of layers, which
only a policy brings, stand in three slots: after the system prompt, before the pool, and last.

A render costs what is new: pool and chat are ropes that grow, an active block is made once per
version, and joining the text is left to whoever needs it in one piece.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Final, Protocol, Self

from ctxmgr.core.canonical import canonical
from ctxmgr.core.contents import File, FileState, ToolCall
from ctxmgr.core.envelopes import chat_id, system_prompt_id
from ctxmgr.core.growing import Growing, Rope
from ctxmgr.core.hashes import sha256
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lines import (
    active_heading,
    answer,
    ended,
    file_content,
    file_line,
    toolcall_line,
    user_message,
)
from ctxmgr.core.parts import CallRef, Shown, shown_parts
from ctxmgr.errors import Incorrect

RENDERER: Final = "plain/1"
"""Names these bytes. Whoever changes one byte of what a value renders to changes this too."""


class Section(StrEnum):
    """Where a block stands, in this order."""

    SYSTEM = "system_prompt"
    STABLE = "stable"
    EPOCH = "epoch"
    POOL = "metadata_pool"
    CHAT = "chat"
    ACTIVE = "active_content"
    VOLATILE = "volatile"


SLOTS: Final = frozenset({Section.STABLE, Section.EPOCH, Section.VOLATILE})
"""Where a layer may contribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a prompt."""

    section: Section
    object_id: str | None
    """Whose text it is; None: what has been asked just now, or a contribution."""
    text: str
    """Ends with a newline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEntry:
    """One object of the pool."""

    object_id: str
    line: str

    @classmethod
    def of_file(cls, file: File, *, display_path: str, state: FileState) -> Self:
        line = file_line(file, display_path=display_path, state=state)
        return cls(object_id=file.object_id, line=line)

    @classmethod
    def of_toolcall(cls, toolcall: ToolCall | CallRef) -> Self:
        return cls(object_id=toolcall.object_id, line=toolcall_line(toolcall))


class Pool:
    """The metadata pool: entries in the order of ``metadata_pool``."""

    __slots__ = ("entries", "rope")

    def __init__(self, entries: Iterable[PoolEntry] = ()) -> None:
        self.entries = Growing(entries)
        self.rope = Rope(entry.line for entry in self.entries)

    def add(self, entries: Iterable[PoolEntry]) -> Self:
        """Return the pool with new objects at its end."""
        new = tuple(entries)
        longer = object.__new__(type(self))
        longer.entries = self.entries.add(new)
        longer.rope = self.rope.append("".join(entry.line for entry in new))
        return longer

    def change(self, entries: Mapping[str, PoolEntry]) -> Self:
        """Return the pool with other lines for some of its objects. Costs the whole pool."""
        return type(self)(entries.get(each.object_id, each) for each in self.entries)


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn as it is shown; made once, when its tool calls are done."""

    user: str
    parts: tuple[Shown, ...]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", user_message(self.user) + answer(self.parts))

    @classmethod
    def of(cls, turn: Turn, *, calls: Mapping[str, CallRef]) -> Self:
        """Show a turn; ``calls`` knows at least its tool calls by id."""
        return cls(turn.user, tuple(shown_parts(turn, calls=calls)))

    def pieces(self, chat: str) -> Iterator[tuple[str, str]]:
        """Give its text in pieces, each with the object that it is of; the chat's own is one."""
        yield chat, self.text


class Transcript:
    """The chat as it is shown: what has been said, with references to tool calls."""

    __slots__ = ("rope", "turns")

    def __init__(self, turns: Iterable[ShownTurn] = ()) -> None:
        self.turns = Growing(turns)
        self.rope = Rope(turn.text for turn in self.turns)

    def append(self, turn: ShownTurn) -> Self:
        """Return the transcript with one turn more. What was there keeps its bytes."""
        longer = object.__new__(type(self))
        longer.turns = self.turns.add((turn,))
        longer.rope = self.rope.append(turn.text)
        return longer


@dataclass(frozen=True, slots=True)
class ActiveBlock:
    """The full text of one object. Made once per version."""

    object_id: str
    content: str = field(repr=False)
    text: str = field(init=False, repr=False)
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        text = ended(active_heading(self.object_id) + self.content)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "hash", sha256(text.encode()))

    @classmethod
    def of_file(cls, file: File, *, state: FileState) -> Self:
        """Show a file; one that has no text any more shows why (003-A03)."""
        return cls(file.object_id, file_content(file, state=state))

    @classmethod
    def of_toolcall(cls, toolcall: ToolCall) -> Self:
        return cls(toolcall.object_id, toolcall.content or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What a layer adds to one prompt."""

    slot: Section
    name: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.slot not in SLOTS:
            raise Incorrect(f"{self.name}: {self.slot} is none of {', '.join(sorted(SLOTS))}")


class Contributor(Protocol):
    """A layer that offers text for the next prompt.

    The plain form asks none. A contributor that fails or is late is left out and reported; it never
    fails the turn.
    """

    name: str
    slot: Section
    """One of ``SLOTS``: stable (after the system prompt; hardly ever changes), epoch (before the
    pool; changes only with an epoch), volatile (last)."""
    budget_tokens: int
    """The most it ever asks for."""

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        """Return the text for this turn within the budget; nothing to say is the empty text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that the model sees in one turn."""

    session_id: str
    system_prompt: str = field(repr=False)
    pool: Pool = field(default_factory=Pool, repr=False)
    transcript: Transcript = field(default_factory=Transcript, repr=False)
    user: str = field(default="", repr=False)
    """What is new and unanswered; the next turn will hold it."""
    active: tuple[ActiveBlock, ...] = field(default=(), repr=False)
    """In the order of ``active_set``."""
    contributions: tuple[Contribution, ...] = ()
    marks: tuple[int, ...] = ()
    """Turns, from 1, after which a policy advises an API to keep the prefix. Not in the text."""

    def contribute(self, contributions: Iterable[Contribution]) -> Self:
        """Return the context with the contributions of layers."""
        return replace(self, contributions=(*self.contributions, *contributions))

    def blocks(self) -> Iterator[Block]:
        """Give every piece, in the order of the prompt, empty ones left out."""
        for section in Section:
            yield from self.section(section)

    def section(self, section: Section) -> Iterator[Block]:
        """Give the pieces of one section, empty ones left out."""
        for object_id, text in self._pieces(section):
            if text:
                yield Block(section=section, object_id=object_id, text=text)

    def text(self) -> str:
        """Return the prompt in one piece."""
        return "".join(self.chunks())

    def chunks(self) -> Iterator[str]:
        """Give the prompt in few pieces, for whoever can send it so."""
        separator = ""
        for section in Section:
            for paragraph in self._paragraphs(section):
                if paragraph and paragraph[0]:
                    yield separator
                    yield from paragraph
                    separator = "\n"

    def section_hashes(self) -> dict[str, list[str]]:
        """Hash every paragraph: SHA-256 of its UTF-8 bytes, by section."""
        hashed = {
            Section.SYSTEM: [sha256(ended(self.system_prompt).encode())],
            Section.POOL: [self.pool.rope.hash],
            Section.CHAT: [self._chat().hash],
            Section.ACTIVE: [block.hash for block in self.active],
        }
        for each in self.contributions:
            hashed.setdefault(each.slot, []).append(sha256(ended(each.text).encode()))
        return {str(section): hashed[section] for section in hashed}

    def prompt_hash(self) -> str:
        """Hash the bytes of the prompt, by way of its paragraphs.

        A hash of the joined text would read the whole chat again for every turn, since the pool
        before it grows. This one is as strong: equal hashes, equal paragraphs, equal text.
        """
        return sha256(canonical(self.section_hashes()))

    def _chat(self) -> Rope:
        return self.transcript.rope.append(user_message(self.user))

    def _paragraphs(self, section: Section) -> Iterator[tuple[str, ...]]:
        match section:
            case Section.POOL:
                yield self.pool.rope.parts
            case Section.CHAT:
                yield self._chat().parts
            case _:
                yield from ((text,) for _, text in self._pieces(section))

    def _pieces(self, section: Section) -> Iterator[tuple[str | None, str]]:
        match section:
            case Section.SYSTEM:
                yield system_prompt_id(self.session_id), ended(self.system_prompt)
            case Section.POOL:
                yield from ((entry.object_id, entry.line) for entry in self.pool.entries)
            case Section.CHAT:
                chat = chat_id(self.session_id)
                yield from chain.from_iterable(turn.pieces(chat) for turn in self.transcript.turns)
                yield None, user_message(self.user)
            case Section.ACTIVE:
                yield from ((block.object_id, block.text) for block in self.active)
            case _:
                given = (each for each in self.contributions if each.slot is section)
                yield from ((None, ended(each.text)) for each in given)
