"""Assemble the four sections of a prompt from values. Pure.

    system prompt     as it is                          stable
    metadata pool     one line per object               grows
    chat              messages and references           grows
    active content    heading and content per object    volatile

Sections are separated by one empty line, and empty ones are left out. Contributions of layers go
into three slots: after the system prompt, before the pool, and last.

A render costs what is new: pool and chat are ropes that grow, an active block is created once per
version, and the text is joined only for callers that need one string.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Final, Self

from ctxmgr.core.append_only import AppendOnly, Rope
from ctxmgr.core.context.lines import (
    active_heading,
    answer,
    ended,
    file_content,
    file_line,
    toolcall_line,
    user_message,
)
from ctxmgr.core.objects.answers import AnswerPart, CallRef, answer_parts
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.envelope import chat_id, system_prompt_id
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.canonical import canonical
from ctxmgr.errors import Incorrect

RENDERER: Final = "plain/2"
"""Identifies the rendered bytes: any change of what a value renders to changes it."""

RENDERERS: Final = ("plain/1", RENDERER)
"""Whose prompts can be rebuilt. The first showed no reasons of failed calls, and the answers that
it rendered do not ask for them."""


class Section(StrEnum):
    """The sections of a prompt, in their order."""

    SYSTEM = "system_prompt"
    STABLE = "stable"
    EPOCH = "epoch"
    POOL = "metadata_pool"
    CHAT = "chat"
    ACTIVE = "active_content"
    VOLATILE = "volatile"


SLOTS: Final = frozenset({Section.STABLE, Section.EPOCH, Section.VOLATILE})
"""Where a layer may contribute."""


class PieceKind(StrEnum):
    """What a block of a prompt shows."""

    SYSTEM = "system"
    LAYER = "layer"
    """The contribution of a layer."""
    LISTED = "listed"
    """One line for an object."""
    USER = "user"
    ASSISTANT = "assistant"
    NOTICE = "notice"
    """Something that entered, changed or left."""
    FILE = "file"
    """The whole text of a file, or the whole output of a call that read one."""
    OUTPUT = "output"
    """A tool call with its whole output."""
    FOLDED = "folded"
    """One of the last three, of which some text is hidden."""
    DIGEST = "digest"
    """An old call in one line, with the few lines of it that are kept."""
    SUMMARY = "summary"
    """What is shown instead of turns that were compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a prompt that belongs to one object."""

    section: Section
    object_id: str | None
    """The object it shows; None for the new user message and for contributions."""
    text: str
    """The text, which ends with a newline."""


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
        self.entries = AppendOnly(entries)
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
        return type(self)(entries.get(entry.object_id, entry) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn as it is shown; created once, when its tool calls are done."""

    user: str
    parts: tuple[AnswerPart, ...]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", user_message(self.user) + answer(self.parts))

    @classmethod
    def of(cls, turn: Turn, *, calls: Mapping[str, CallRef]) -> Self:
        """Show a turn; ``calls`` holds at least its tool calls by id."""
        return cls(turn.user, tuple(answer_parts(turn, calls=calls)))

    def pieces(self, chat: str) -> Iterator[tuple[str, str]]:
        """Yield its text in pieces, each with the object it belongs to; here all is the chat's."""
        yield chat, self.text


class Transcript:
    """The chat as it is shown: messages, with references to tool calls."""

    __slots__ = ("rope", "turns")

    def __init__(self, turns: Iterable[ShownTurn] = ()) -> None:
        self.turns = AppendOnly(turns)
        self.rope = Rope(turn.text for turn in self.turns)

    def append(self, turn: ShownTurn) -> Self:
        """Return the transcript with one more turn. The bytes before it do not change."""
        longer = object.__new__(type(self))
        longer.turns = self.turns.add((turn,))
        longer.rope = self.rope.append(turn.text)
        return longer


@dataclass(frozen=True, slots=True)
class ActiveBlock:
    """The full text of one object. Created once per version."""

    object_id: str
    content: str = field(repr=False)
    heading: str = ""
    """Empty: that of the plain form."""
    text: str = field(init=False, repr=False)
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        text = ended((self.heading or active_heading(self.object_id)) + self.content)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "hash", sha256(text.encode()))

    @classmethod
    def of_file(cls, file: File, *, state: FileState) -> Self:
        """Show a file; one without text shows why (003-A03)."""
        return cls(file.object_id, file_content(file, state=state))

    @classmethod
    def of_toolcall(cls, toolcall: ToolCall) -> Self:
        return cls(toolcall.object_id, toolcall.content or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The text that a contributor adds to one prompt."""

    slot: Section
    name: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.slot not in SLOTS:
            slots = ", ".join(sorted(SLOTS))
            raise Incorrect(f"{self.name}: unknown slot {self.slot} (one of: {slots})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that the model sees in one turn."""

    session_id: str
    system_prompt: str = field(repr=False)
    pool: Pool = field(default_factory=Pool, repr=False)
    transcript: Transcript = field(default_factory=Transcript, repr=False)
    user: str = field(default="", repr=False)
    """The new message of the user, which is not answered yet."""
    active: tuple[ActiveBlock, ...] = field(default=(), repr=False)
    """The objects that are shown in full, in the order of ``active_set``."""
    contributions: tuple[Contribution, ...] = ()
    marks: tuple[int, ...] = ()
    """Turns after which a policy advises the API to cache the prefix. Not part of the text."""

    def contribute(self, contributions: Iterable[Contribution]) -> Self:
        """Return the context with more contributions."""
        return replace(self, contributions=(*self.contributions, *contributions))

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the prompt in their order, without empty ones."""
        for section in Section:
            yield from self.section(section)

    def section(self, section: Section) -> Iterator[Block]:
        """Yield the blocks of one section, without empty ones."""
        for object_id, text in self._pieces(section):
            if text:
                yield Block(section=section, object_id=object_id, text=text)

    def text(self) -> str:
        """Return the prompt as one string."""
        return "".join(self.chunks())

    def chunks(self) -> Iterator[str]:
        """Yield the prompt in a few strings, for callers that need not join them."""
        separator = ""
        for section in Section:
            for paragraph in self._paragraphs(section):
                if paragraph and paragraph[0]:
                    yield separator
                    yield from paragraph
                    separator = "\n"

    def section_hashes(self) -> dict[str, list[str]]:
        """Return the SHA-256 of every paragraph's UTF-8 bytes, by section."""
        return {str(section): hashes for section, hashes in self._hashes().items()}

    def prompt_hash(self) -> str:
        """Return the hash of the prompt, computed from the hashes of its paragraphs."""
        return hash_sections(self._hashes())

    def _hashes(self) -> dict[Section, list[str]]:
        hashes = {
            Section.SYSTEM: [sha256(ended(self.system_prompt).encode())],
            Section.POOL: [self.pool.rope.hash],
            Section.CHAT: [self._chat().hash],
            Section.ACTIVE: [block.hash for block in self.active],
        }
        for contribution in self.contributions:
            hashed = sha256(ended(contribution.text).encode())
            hashes.setdefault(contribution.slot, []).append(hashed)
        return hashes

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
                in_slot = (added for added in self.contributions if added.slot is section)
                yield from ((None, ended(added.text)) for added in in_slot)


def hash_sections(hashes: Mapping[Section, list[str]]) -> str:
    """Return the hash of a prompt from the SHA-256 of its paragraphs, by section.

    Equal hashes mean equal texts. Hashing the joined text instead would read the whole chat again
    in every turn.
    """
    return sha256(canonical({str(section): hashes[section] for section in hashes}))
