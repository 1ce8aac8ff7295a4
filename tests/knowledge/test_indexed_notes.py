"""Notes and conversations as documents of the search index."""

from pathlib import Path

from ctxmgr.knowledge.indexed_notes import NoteDocuments
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.search.search_index import SearchIndex


async def test_every_category_is_indexed(tmp_path: Path) -> None:
    """002-R155, 002-R159, 002-A25: topics and conversations, too; what is unreadable is not."""
    root, raw = tmp_path / "root", tmp_path / "raw"
    files = {
        "knowledge/people/ann.md": (root, "---\ntags: [friend]\n---\nAnn likes tea.\n"),
        "topics/tea.md": (root, "Tea topic.\n"),
        "raw/conversations/2026/01/02/tea.md": (raw, "# Session\nWe spoke of tea.\n"),
        "archive/journal/2026-01-01.md": (root, "Old tea.\n"),
        "knowledge/reference/broken.md": (root, "---\ntags: [unclosed\n---\ntea\n"),
        "scripts/tea.md": (root, "tea\n"),
    }
    for path, (folder, text) in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    notes = NotesFolder(Layout(root, raw))
    index = await SearchIndex.open(root / "memory.db", source=NoteDocuments(notes))

    found = {result.path: result.category for result in await index.search("tea")}
    assert found == {
        "knowledge/people/ann.md": "person",
        "topics/tea.md": "topic",
        "raw/conversations/2026/01/02/tea.md": "conversation",
    }
    assert [r.path for r in await index.search("tea", category="topic")] == ["topics/tea.md"]
    notes.write("knowledge/people/bob.md", "Bob likes tea.\n", replacing=None)
    await index.update(["knowledge/people/bob.md", "knowledge/people/missing.md"])
    assert len(await index.search("tea")) == 4
    document = NoteDocuments(notes).read("knowledge/people/ann.md")
    assert document is not None
    assert document.tags == ("friend",)
    assert document.modified == (root / "knowledge/people/ann.md").stat().st_mtime_ns // 1_000_000
    await index.close()
