"""Library: one folder of notes, and all that works on it. Reads and writes notes.

    notes ─► topics ─► compiler ─► contributors (what prompts show)
    notes ◄─ flusher ◄─ turns that are about to be summarised

What ``connect(url, knowledge=DIR)`` opens. The folder's files are data: nothing in them decides
what runs.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import ExtraMissing, NotFound, requires_extra
from ctxmgr.knowledge.compiler.compiled import Compiled, HistoryMessage, KnowledgeFile
from ctxmgr.knowledge.compiler.context_compiler import ContextCompiler
from ctxmgr.knowledge.compiler.contributors import NotesContributor, PromptNotes
from ctxmgr.knowledge.config import KnowledgeConfig
from ctxmgr.knowledge.notes.frontmatter import require_yaml

if TYPE_CHECKING:
    from ctxmgr.core.context.flushes import Flusher
    from ctxmgr.core.model import Model
    from ctxmgr.core.store.contract import Store
    from ctxmgr.knowledge.compiler.active_topics import ActiveTopics
    from ctxmgr.knowledge.compiler.scoring import Relevance
    from ctxmgr.knowledge.notes.note import Note
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder
    from ctxmgr.knowledge.topics.gate import GatedActivator
    from ctxmgr.knowledge.topics.watcher_pipeline import TopicActivation

_UNREADABLE: Final = (-1, -1, -1)
"""The state of a folder that may not be read."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    note: "Note"
    file: KnowledgeFile
    links: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class Library:
    """An open folder of notes. May be used by several sessions at once."""

    notes: "NotesFolder"
    config: KnowledgeConfig
    compiler: ContextCompiler
    main: bool = True
    """Whether the sessions are a person's own; only these see the core memory."""
    mask: Callable[[str], str] = str
    """Returns a text without its secrets."""
    model: "Model | None" = None
    """Answers the gate of topics, writes commit messages, extracts notes, and sorts what is saved
    before a compaction; None: rules do."""
    open_model: "Callable[[str], Model] | None" = None
    """Opens the models that the settings name, ``gate_model`` and ``commit_message_model``, where
    these should not be ``model``. Its caller closes them."""
    now: Callable[[], Instant] = lambda: int(datetime.now(UTC).timestamp() * 1000)
    keep: Callable[[Sequence[Path]], None] = lambda _: None
    """Stores versions of files that changed, as objects of the core."""
    topics: "ActiveTopics" = field(init=False)
    gate: "GatedActivator" = field(init=False)
    """Its ledger says what the questions about topics cost."""
    _parsed: dict[str, _Parsed] = field(default_factory=dict, init=False)
    _state: dict[str, tuple[int, int, int]] = field(default_factory=dict, init=False)
    _prompts: PromptNotes = field(init=False)

    def __post_init__(self) -> None:
        self.use_store(None)
        self._prompts = PromptNotes(
            self._compile_for, budget_tokens=self.config.compiler.token_budget
        )

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        raw: Path | None = None,
        adopted: bool | None = None,
        config: KnowledgeConfig | None = None,
        main: bool = True,
        model: "Model | None" = None,
        open_model: "Callable[[str], Model] | None" = None,
    ) -> Self:
        """Open a folder of notes; ``NotFound`` if there is none.

        ``adopted`` says that any markdown file of the folder is a note; by default that is as it
        was set up, or else so if it has notes outside of our folders and no
        ``knowledge/identity/``.
        ``raw`` is where conversations are, outside of the folder.
        """
        from ctxmgr.knowledge.notes.layout import Layout  # noqa: PLC0415 -- with notes
        from ctxmgr.knowledge.notes.notes_folder import (  # noqa: PLC0415
            NotesFolder,
            has_notes_elsewhere,
        )
        from ctxmgr.knowledge.repository.setup import was_adopted  # noqa: PLC0415

        require_yaml()
        root = root.absolute()
        if not root.is_dir():
            raise NotFound(f"{root} is not a folder; create it, or name the folder of your notes")
        if adopted is None:
            adopted = was_adopted(root)
        if adopted is None:
            adopted = has_notes_elsewhere(root)
        chosen = config or KnowledgeConfig()
        return cls(
            notes=NotesFolder(
                Layout(root, raw or root.parent / f"{root.name}-raw", adopted=adopted)
            ),
            config=chosen,
            compiler=ContextCompiler(chosen, relevance=_relevance()),
            main=main,
            model=model,
            open_model=open_model,
        )

    def use_store(self, store: "Store | None") -> None:
        """Log decisions about topics in a store, and watch the answers that it holds."""
        from ctxmgr.core.model import MaskedModel  # noqa: PLC0415 -- only with notes
        from ctxmgr.knowledge.compiler.active_topics import ActiveTopics  # noqa: PLC0415 -- extra
        from ctxmgr.knowledge.topics.gate import GatedActivator  # noqa: PLC0415 -- extra

        watchers = self.config.watchers
        model = self.named_model(watchers.gate_model)
        if model is not None:  # it reads messages, which prompts show without their secrets
            model = MaskedModel(model, self._masked)
        self.gate = GatedActivator(model, output_tokens_max=watchers.gate_max_tokens)
        self.topics = ActiveTopics(
            store=store, gate=self.gate, threshold=watchers.similarity_threshold
        )
        self._state = {}

    def named_model(self, name: str) -> "Model | None":
        """Return the model of a name in the settings, or that of all purposes; None: rules."""
        return self.model if self.open_model is None else self.open_model(name)

    def _masked(self, text: str) -> str:
        return self.mask(text)  # which may be set after opening

    @property
    def contributors(self) -> tuple[NotesContributor, ...]:
        """What adds notes to the prompts of sessions."""
        return self._prompts.contributors

    @property
    def flushers(self) -> "tuple[Flusher, ...]":
        """What saves to the notes before turns are summarised."""
        from ctxmgr.knowledge.compiler.flush import JournalFlusher  # noqa: PLC0415 -- with notes

        return (
            JournalFlusher(
                self.notes, model=self.model, flushed=self._prompts.begin_epoch, now=self.now
            ),
        )

    async def compile(
        self,
        message: str,
        *,
        history: Sequence[HistoryMessage] = (),
        budget_tokens: int | None = None,
    ) -> Compiled:
        """Compile the context for a message from the notes as they are now; nothing is logged."""
        files = await self.available()
        active = await self.topics.would_activate(message)
        return await self._plan(
            message, active, files, history=history, budget_tokens=budget_tokens
        )

    async def _plan(
        self,
        message: str,
        active: "Sequence[TopicActivation]",
        files: Sequence[KnowledgeFile],
        *,
        history: Sequence[HistoryMessage] = (),
        budget_tokens: int | None = None,
    ) -> Compiled:
        return await asyncio.to_thread(
            self.compiler.plan,
            message,
            [activation.topic for activation in active],
            history,
            files,
            now=self.now(),
            main=self.main,
            remarks={each.topic.name: remark for each in active if (remark := each.remark)},
            budget_tokens=budget_tokens,
        )

    async def available(self) -> list[KnowledgeFile]:
        """Return the notes that may be shown. Files that changed are read and parsed again."""
        changed = await asyncio.to_thread(self._read)
        self.keep([self.notes.layout.root / path for path in changed])
        return [parsed.file for parsed in self._parsed.values()]

    async def prepare(self) -> None:
        """Read the notes, and load what compiling needs: the first prompt need not wait for it."""
        await self._plan("hello", (), await self.available())

    async def _compile_for(self, session_id: str, message: str, is_new: bool) -> Compiled:  # noqa: FBT001 (a callback)
        files = await self.available()
        active = await self.topics.activate(session_id, message, is_new=is_new)
        return await self._plan(message, active, files)

    def _read(self) -> list[str]:
        """Read what changed; return the paths of new and changed notes."""
        state = _folder_state(self.notes.layout.root)
        if state == self._state:
            return []
        self._state = state
        for path, seen in state.items():
            if seen == _UNREADABLE:
                _log.warning("the notes in %s are not shown: its permissions refuse it", path)
        scan = self.notes.scan()
        for unreadable in scan.unreadable:
            _log.warning("%s is not shown: %s", unreadable.path, unreadable.reason)
        known = self._parsed
        changed = [
            note.path
            for note in scan.notes
            if (parsed := known.get(note.path)) is None or parsed.note is not note
        ]
        if not changed and len(known) == len(scan.notes):
            return []
        fresh = {note.path: self._parse(note, known.get(note.path)) for note in scan.notes}
        self.topics.update(
            parsed.note for parsed in fresh.values() if parsed.file.category == "topic"
        )
        counts = _reference_counts(fresh)
        self._parsed = {
            path: _counted(parsed, counts.get(path, 0)) for path, parsed in fresh.items()
        }
        return changed

    def _parse(self, note: "Note", known: _Parsed | None) -> _Parsed:
        if known is not None and known.note is note:
            return known
        from ctxmgr.knowledge.notes.wikilinks import wikilinks  # noqa: PLC0415 -- with notes

        body = note.body
        file = KnowledgeFile(
            path=note.path,
            text=self.mask(body),
            modified=self.notes.modified(note.path),
            category=str(self.notes.layout.category_of(note.path) or ""),
            remark=_doubt([self.mask(each) for each in note.needs_verification]),
        )
        return _Parsed(note=note, file=file, links=tuple(link.target for link in wikilinks(body)))


def _folder_state(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells whether a note changed, without opening one; links are not followed."""
    found: dict[str, tuple[int, int, int]] = {}
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.endswith(".md"):
                        seen = entry.stat(follow_symlinks=False)
                        found[entry.path] = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
        except FileNotFoundError:
            continue  # removed while we looked
        except PermissionError:
            found[folder] = _UNREADABLE
    return found


def _reference_counts(parsed: dict[str, _Parsed]) -> dict[str, int]:
    """Return how many other notes link to each note."""
    names: dict[str, list[str]] = {}
    for path in parsed:
        name = path.removesuffix(".md").casefold()
        names.setdefault(name, []).append(path)
        names.setdefault(name.rpartition("/")[2], []).append(path)
    counts: dict[str, int] = {}
    for source, entry in parsed.items():
        targets = {
            path
            for link in entry.links
            for path in names.get(link.removesuffix(".md").casefold(), ())
        }
        for path in targets - {source}:
            counts[path] = counts.get(path, 0) + 1
    return counts


def _counted(parsed: _Parsed, references: int) -> _Parsed:
    if parsed.file.reference_count == references:
        return parsed
    return replace(parsed, file=replace(parsed.file, reference_count=references))


def _doubt(gone: Sequence[str]) -> str:
    """Return why a note may be outdated; empty if nothing says so."""
    more = f"; {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"needs verification: {gone[0]:.160}{more}" if gone else ""


def _relevance() -> "Relevance | None":
    """Return the ranking by words and vectors, as far as its packages are installed."""
    try:
        with requires_extra("vectors", "numpy", "snowballstemmer"):
            from ctxmgr.knowledge.compiler.note_pool import NotePool  # noqa: PLC0415 -- extra
    except ExtraMissing as error:
        _log.warning("notes are not scored: %s", error)
        return None
    try:
        from ctxmgr.search.static_vectors import StaticEmbedder  # noqa: PLC0415 -- extra

        return NotePool(StaticEmbedder.load())
    except ExtraMissing:
        return NotePool()
