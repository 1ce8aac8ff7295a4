"""Build all notes again from the transcripts, on a branch. Reads transcripts; commits to a branch.

    branch extract/NAME ─► memory, journal, projects, people, procedures, reference cleared
                        ─► all transcripts replayed ─► a rollup for every week ─► one commit

Identity, topics and the archive are kept, and in an adopted folder all outside of ``knowledge/``.
The person's files are not touched: the branch is filled without a checkout, and merged only if they
say so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.core.model import Cost, Ledger, Model
from ctxmgr.core.store.contract import Store
from ctxmgr.knowledge.lifecycle.condense import MemoryCondenser, weeks_with_journals
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.extract import EXTRACTORS, KnowledgeExtractor, project_names
from ctxmgr.knowledge.lifecycle.extractors.extractor import Extractor
from ctxmgr.knowledge.notes.layout import Category, Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.branches import Branches

CLEARED: Final = (
    Category.MEMORY,
    Category.JOURNAL,
    Category.PROJECT,
    Category.PERSON,
    Category.PROCEDURE,
    Category.REFERENCE,
)
"""What is built again (002-R197)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Notes that were built again on a branch."""

    branch: str
    commit: str
    transcripts: int
    notes: int
    """Notes that the branch has of the categories that were built again."""
    rejected: tuple[str, ...]
    """Extractors whose model gave an answer that could not be read."""
    statistics: str
    """How the branch differs from the current one, file by file."""
    ledger: Ledger


def extract_branch(branch: str) -> str:
    """Return the full name of a branch for extraction."""
    return f"extract/{branch.removeprefix('extract/')}"


async def reconstruct_knowledge(
    layout: Layout,
    *,
    branches: Branches,
    store: Store,
    branch: str,
    cap: int,
    names: Iterable[str] | None = None,
    model: Model | None = None,
    extractors: Sequence[Extractor] = EXTRACTORS,
    progress: Callable[[str], None] = lambda _: None,
) -> Reconstruction:
    """Build the notes again on the new branch ``extract/BRANCH``, with all or the named extractors.

    ``Conflict`` if there is such a branch. If it fails, the branch is deleted again.
    """
    name = extract_branch(branch)
    await branches.create(name)
    try:
        with TemporaryDirectory(prefix="ctxmgr-extract-") as folder:
            root = Path(folder) / "notes"
            await branches.export(name, root)
            notes = NotesFolder(Layout(root, layout.raw, adopted=layout.adopted))
            draft = NotesDraft(notes)
            projects = project_names(draft)
            for path in filter(draft.is_ours, draft.paths(*CLEARED)):
                draft.remove(path)
            extractor = KnowledgeExtractor(notes, store=store, model=model, extractors=extractors)
            transcripts = extractor.transcripts()
            chosen = None if names is None else tuple(names)
            costs: list[Cost] = []
            rejected: list[str] = []
            for number, (path, _) in enumerate(transcripts, start=1):
                progress(f"replaying {number} of {len(transcripts)}")
                found = await extractor.extract_from_session(
                    path, chosen, draft=draft, projects=projects
                )
                costs += found.ledger.costs
                rejected += [f"{path}: {each}" for each in found.rejected]
            for sunday in weeks_with_journals(draft):
                progress(f"rolling up the week until {sunday}")
                condenser = MemoryCondenser(draft, transcripts, today=sunday, model=model)
                costs += (await condenser.weekly_rollup(cap=cap)).ledger.costs
            commit = await branches.commit(
                name,
                {edit.path: edit.after for edit in draft.edits},
                summary=f"{len(transcripts)} conversations replayed",
            )
            count = sum(map(draft.is_ours, draft.paths(*CLEARED)))
        statistics = await branches.statistics(name)
    except BaseException:
        await branches.delete(name)
        raise
    return Reconstruction(
        branch=name,
        commit=commit,
        transcripts=len(transcripts),
        notes=count,
        rejected=tuple(rejected),
        statistics=statistics,
        ledger=Ledger(tuple(costs)),
    )
