"""What an agent may do with a folder of notes: search, write, ask for history. Writes notes.

    search     notes, never raw conversations
    note       adds to a note, or replaces a piece of one; what decides later prompts (identity,
               topics) is proposed to a person instead (002-A35)
    history    when did I learn this, where from, what changed, as of then

An agent names notes by their path in the folder and reaches nothing else of it: no other files, not
the archive, and in an adopted folder it writes below ``knowledge/`` only. What it wrote last never
overwrites what somebody else wrote meanwhile. Secrets are masked before they are written.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ctxmgr.core.context.layer_tools import LayerTool
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Conflict, Denied, Incorrect, NotFound
from ctxmgr.knowledge.lifecycle.draft import NoteEdit
from ctxmgr.knowledge.lifecycle.review import ReviewQueue, ReviewState, needs_approval
from ctxmgr.knowledge.notes.frontmatter import Value, set_fields
from ctxmgr.knowledge.notes.layout import Category, day_of, is_archived, journal_path
from ctxmgr.knowledge.notes.note import read_note
from ctxmgr.knowledge.notes.note_types import NoteType, check_note, expected_type, new_note
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.notes.sections import add_bullet, one_line
from ctxmgr.knowledge.repository.introspection import CommitEntry, Introspection, LineOrigin
from ctxmgr.search.documents import SearchResult

NoteQuestion: TypeAlias = Literal["learnt", "origin", "changes", "as_of"]

TEXT_CHARS_MAX: Final = 20_000
"""Of one call; a longer text is a document, not a note."""
QUERY_CHARS_MAX: Final = 1_000
RESULTS_MAX: Final = 20
LOOKED_AT: Final = 3
"""Results that are asked for, as a multiple: conversations among them are dropped."""
HISTORY_CHARS_MAX: Final = 20_000
"""Of one answer about the history."""
COMMITS_SHOWN: Final = 20
ATTEMPTS_MAX: Final = 3
"""If somebody else writes the note at the same moment."""

JOURNAL_SECTION: Final = "Notes"
"""The section of the journal that a note without a path goes to."""

_FILE_DIFF: Final = re.compile(r"^diff --git a/.* b/(.*)$", re.MULTILINE)
_SHORT_COMMIT: Final = 10
_MARK: Final = re.compile(r"^\s*[-*+]\s+")
_SOURCE: Final = re.compile(r"\(session [^()]*\)\s*$")

NoteSearch: TypeAlias = Callable[[str, int, str | None], Awaitable[Sequence[SearchResult]]]
"""Searches the folder for a query: a limit, and a category or None."""


WriteState: TypeAlias = Literal["written", "unchanged", "waiting", "rejected", "accepted"]

_STATES: Final[Mapping[ReviewState, WriteState]] = MappingProxyType(
    {
        ReviewState.WAITING: "waiting",
        ReviewState.REJECTED: "rejected",
        ReviewState.ACCEPTED: "accepted",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNote:
    """What became of a note that an agent wrote."""

    path: str
    state: WriteState
    """``waiting``: a person decides; the other two: a person has decided about the same before."""
    diff: str
    proposal: str | None = None


class AgentNotes:
    """One folder of notes, for agents."""

    def __init__(
        self,
        notes: NotesFolder,
        *,
        review: ReviewQueue,
        history: Introspection | None,
        search: NoteSearch,
        mask: Callable[[str], str],
        now: Callable[[], Instant] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``history`` is None for a folder that is not a repository of ours."""
        self._notes = notes
        self._review = review
        self._history = history
        self._search = search
        self._mask = mask
        self._now = now

    async def search(
        self, query: str, *, limit: int = 5, category: str | None = None
    ) -> list[SearchResult]:
        """Return the notes that match, best first."""
        if not query.strip() or len(query) > QUERY_CHARS_MAX:
            raise Incorrect(f"the query must have 1 to {QUERY_CHARS_MAX} characters")
        if not 1 <= limit <= RESULTS_MAX:
            raise Incorrect(f"the limit must be 1 to {RESULTS_MAX}, not {limit}")
        if category == Category.CONVERSATION:
            raise Denied("raw conversations are not searched; their sessions can be recalled")
        found = await self._search(query, limit * LOOKED_AT, category)
        return [each for each in found if each.category != Category.CONVERSATION][:limit]

    async def note(
        self,
        text: str,
        *,
        path: str | None = None,
        section: str | None = None,
        replaces: str | None = None,
        reason: str = "",
        session: str | None = None,
    ) -> WrittenNote:
        """Add a text to a note, by default to today's journal; ``replaces`` is exchanged for it.

        A text that the note has already is not added again. ``session`` is where it comes from.
        """
        masked = self._mask(text).strip("\n")
        if not masked.strip() or len(masked) > TEXT_CHARS_MAX:
            raise Incorrect(f"a note has 1 to {TEXT_CHARS_MAX:,} characters, not {len(masked):,}")
        moment = datetime.fromtimestamp(self._now() / 1000, UTC)
        if path is None:
            path, section = journal_path(moment.date()), section or JOURNAL_SECTION
        self._require_writable(path)
        if self._mask(path) != path:
            raise Denied("the path holds a secret; choose another name")
        section = None if section is None else self._mask(section)
        change = _Change(
            text=masked, path=path, section=section, replaces=replaces, session=session, at=moment
        )
        if needs_approval(path, self._notes.layout):
            return await self._propose(change, reason)
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await asyncio.to_thread(self._write, change)
            except Conflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("unreachable")

    async def history(self, question: NoteQuestion, about: str, *, at: str | None = None) -> str:
        """Answer a question about the past of the notes, as lines of text.

        ``about`` is a text (learnt), the path of a note (origin, as_of), or a commit, tag or branch
        (changes). ``at`` is the commit, tag or branch to look at; default: the last commit.
        """
        history = self._history
        if history is None:
            raise NotFound("these notes have no history: a person can run `ctxmgr knowledge init`")
        match question:
            case "learnt":
                lines = self._commits(await history.learnt(about, limit=COMMITS_SHOWN))
            case "origin":
                self._require_note(about)
                lines = [_origin_line(each) for each in await history.origins(about)]
            case "changes":
                changes = await history.changes(about, at or "HEAD")
                lines = self._notes_of(changes.diff).splitlines()
            case "as_of":
                self._require_note(about)
                lines = (await history.as_of(about, at or "HEAD")).splitlines()
        return _bounded(lines) or "nothing was found\n"

    async def _propose(self, change: "_Change", reason: str) -> WrittenNote:
        seen = await asyncio.to_thread(self._text, change.path)
        after = change.applied(seen)
        if after == seen:
            return WrittenNote(path=change.path, state="unchanged", diff="")
        origin: dict[str, str | int] = {"by": "agent"}
        if change.session is not None:
            origin["session"] = change.session
        proposal = await self._review.propose(
            change.path,
            after,
            origin=origin,
            reason=one_line(self._mask(reason)) or "an agent wants to change it",
            at=self._now(),
            seen=seen,
        )
        return WrittenNote(
            path=change.path,
            state=_STATES[proposal.state],
            diff=proposal.diff,
            proposal=proposal.id,
        )

    def _write(self, change: "_Change") -> WrittenNote:
        seen = self._text(change.path)
        after = change.applied(seen)
        if after == seen:
            return WrittenNote(path=change.path, state="unchanged", diff="")
        known = set() if seen is None else _errors(change.path, seen)
        new = sorted(_errors(change.path, after) - known)
        if new:
            raise Incorrect(f"{change.path} would not be a valid note: {new[0]}")
        self._notes.write(change.path, after, replacing=seen)
        edit = NoteEdit(path=change.path, before=seen, after=after)
        return WrittenNote(path=change.path, state="written", diff=edit.diff)

    def _text(self, path: str) -> str | None:
        try:
            return self._notes.read(path).text
        except NotFound:
            return None

    def _require_note(self, path: str) -> None:
        category = self._notes.layout.category_of(path)
        if category is None or category is Category.CONVERSATION:
            raise Denied(f"{path!r:.200} is not a note; `search` finds the paths of notes")

    def _require_writable(self, path: str) -> None:
        self._require_note(path)
        if is_archived(path):
            raise Denied(f"{path!r:.200} is archived; write a new note")
        theirs = self._notes.layout.adopted and not path.startswith("knowledge/")
        if theirs and not needs_approval(path, self._notes.layout):
            raise Denied(
                f"{path!r:.200} belongs to the person whose folder this is; write below knowledge/"
            )

    def _commits(self, entries: Sequence[CommitEntry]) -> list[str]:
        lines = []
        for entry in entries:
            paths = [each for each in entry.paths if self._notes.layout.category_of(each)]
            if paths:
                origin = f"  from {entry.session}" if entry.session else ""
                lines.append(f"{entry.time}  {entry.commit[:_SHORT_COMMIT]}  {entry.summary}")
                lines.append(f"    in {', '.join(paths)}{origin}")
        return lines

    def _notes_of(self, diff: str) -> str:
        """Return the part of a diff that is about notes."""
        found = list(_FILE_DIFF.finditer(diff))
        ends = [*(each.start() for each in found[1:]), len(diff)]
        return "".join(
            diff[each.start() : end]
            for each, end in zip(found, ends, strict=True)
            if self._notes.layout.category_of(each[1]) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What an agent wants to change in one note."""

    text: str
    path: str
    section: str | None
    replaces: str | None
    session: str | None
    at: datetime

    def applied(self, seen: str | None) -> str:
        """Return the text of the note after the change; ``seen`` is None if there is none."""
        if self.replaces is not None:
            after = self._replaced(seen)
        elif seen is not None and _says(seen, self.text, as_bullet=self.section is not None):
            return seen
        elif self.section is not None:
            bullet = one_line(self.text) + self._source(" ")
            after = add_bullet(seen or self._new(), self.section, bullet)
        elif seen is None and self.text.startswith("---\n"):
            after = f"{self.text}\n"
        else:
            body = (seen or self._new()).rstrip("\n")
            gap = "\n\n" if "\n" in self.text else " "
            after = "\n\n".join(part for part in (body, self.text + self._source(gap)) if part)
            after += "\n"
        if (
            seen is not None
            and after != seen
            and "updated" in read_note(self.path, after).frontmatter
        ):
            after = set_fields(after, {"updated": self._updated})
        return after

    @property
    def _updated(self) -> str:
        return self.at.replace(microsecond=0).isoformat()

    def _source(self, gap: str) -> str:
        return "" if self.session is None else f"{gap}(session {one_line(self.session)})"

    def _replaced(self, seen: str | None) -> str:
        assert self.replaces is not None
        count = 0 if seen is None or not self.replaces else seen.count(self.replaces)
        if count != 1 or seen is None:
            raise Incorrect(
                f"{self.path} has the text to replace {count} times, and it has to be there once"
            )
        return seen.replace(self.replaces, self.text)

    def _new(self) -> str:
        """Return the text of a new note, with the frontmatter that its place asks for."""
        title = self.path.rpartition("/")[2].removesuffix(".md").replace("-", " ")
        kind = expected_type(self.path)
        fields: dict[str, Value] = {"updated": self._updated}
        match kind:
            case None:
                return f"# {title}\n"
            case NoteType.IDENTITY | NoteType.TOPIC:
                return ""  # a person reads it before it counts
            case NoteType.JOURNAL:
                title = self._journal_day().isoformat()
                fields = {"date": title, "sessions": []}
            case NoteType.PROJECT_CONTEXT:
                title = self.path.split("/")[-2]
                fields["project"] = title
            case NoteType.PERSON:
                fields["name"] = title
            case _:
                pass
        return new_note(kind, title=title, fields=fields)

    def _journal_day(self) -> date:
        day = day_of(self.path)
        if day is None:
            raise Incorrect(f"{self.path!r:.200}: a journal is named by its day, as 2026-11-18.md")
        return day


class SearchNotesArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1, max_length=QUERY_CHARS_MAX, description="Words to look for.")
    limit: int = Field(default=5, ge=1, le=RESULTS_MAX, description="How many notes at most.")


class NoteArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX, description="Markdown.")
    path: str | None = Field(
        default=None,
        description="Such as knowledge/reference/ports.md. Left out: today's journal.",
    )
    section: str | None = Field(default=None, description="Add it as a bullet of this section.")
    replaces: str | None = Field(
        default=None, description="Text that is in the note exactly once, to be replaced."
    )


class NoteHistoryArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    question: NoteQuestion = Field(
        description="learnt: when a text came. origin: where the lines of a note came from. "
        "changes: what changed since a commit or tag. as_of: a note as it was."
    )
    about: str = Field(
        min_length=1, max_length=QUERY_CHARS_MAX, description="A text, a path, or a commit or tag."
    )
    at: str | None = Field(default=None, description="A commit or tag; default: the last commit.")


def notes_tools(notes: AgentNotes) -> tuple[LayerTool, ...]:
    """Return the tools that an agent of ours gets for a folder of notes."""

    async def search(_session: str, args: SearchNotesArguments) -> str:
        found = await notes.search(args.query, limit=args.limit)
        lines = [f"{each.path} ({each.category})\n    {one_line(each.snippet)}" for each in found]
        return "\n".join(lines) + "\n" if lines else "no note matches\n"

    async def note(session: str, args: NoteArguments) -> str:
        written = await notes.note(
            args.text,
            path=args.path,
            section=args.section,
            replaces=args.replaces,
            session=session,
        )
        return written_text(written)

    async def history(_session: str, args: NoteHistoryArguments) -> str:
        return await notes.history(args.question, args.about, at=args.at)

    return (
        LayerTool(
            name="search",
            description="Search the notes that are kept beyond this session.",
            arguments=SearchNotesArguments,
            run=search,
        ),
        LayerTool(
            name="note",
            description="Keep something for later sessions: add to a note, or correct one. "
            "Changes of identity and topics wait for a person.",
            arguments=NoteArguments,
            run=note,
        ),
        LayerTool(
            name="note_history",
            description="Ask when something was noted, where it came from, and what changed.",
            arguments=NoteHistoryArguments,
            run=history,
        ),
    )


def written_text(written: WrittenNote) -> str:
    """Return what an agent is told about a note that it wrote."""
    match written.state:
        case "written":
            return f"{written.path} was written:\n{written.diff}"
        case "unchanged":
            return f"{written.path} says so already; nothing was changed\n"
        case "waiting":
            return f"{written.path} is unchanged: proposal {written.proposal} waits for a person\n"
        case _:
            decided = f"a person {written.state} the same change before"
            return f"{written.path} is unchanged: {decided} (proposal {written.proposal})\n"


def _says(note: str, text: str, *, as_bullet: bool) -> bool:
    """Whether a note has a text as lines of its own; a part of a line may say the opposite.

    Marks of bullets and the session that a line came from make no difference.
    """
    wanted = _said(one_line(text) if as_bullet else text)
    found = _said(note)
    starts = range(len(found) - len(wanted) + 1)
    return any(found[start : start + len(wanted)] == wanted for start in starts)


def _said(text: str) -> list[str]:
    lines = (_SOURCE.sub("", _MARK.sub("", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _errors(path: str, text: str) -> set[str]:
    findings = check_note(read_note(path, text))
    return {each.message for each in findings if each.severity == "error"}


def _origin_line(origin: LineOrigin) -> str:
    source = f" ({origin.session})" if origin.session else ""
    when = f"{origin.time[:10]} {origin.commit[:_SHORT_COMMIT]} {origin.summary}{source}"
    return f"{origin.line}: {origin.text}\n    {when}"


def _bounded(lines: Sequence[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    if len(text) <= HISTORY_CHARS_MAX:
        return text
    return f"{text[:HISTORY_CHARS_MAX]}\n[… {len(text) - HISTORY_CHARS_MAX:,} characters more …]\n"
