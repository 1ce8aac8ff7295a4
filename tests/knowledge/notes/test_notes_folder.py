"""NotesFolder: safe paths, atomic writes, conflicts."""

import os
from pathlib import Path

import pytest

from ctxmgr.errors import Conflict, Denied, Incorrect, InvalidNote, NotFound
from ctxmgr.knowledge.notes import held_folder
from ctxmgr.knowledge.notes.held_folder import HeldFolder
from ctxmgr.knowledge.notes.layout import Category, Layout
from ctxmgr.knowledge.notes.notes_folder import NOTE_BYTES_MAX, NotesFolder

ADA = "knowledge/people/ada.md"


@pytest.fixture
def notes(tmp_path: Path) -> NotesFolder:
    (tmp_path / "root").mkdir()
    return NotesFolder(Layout(tmp_path / "root", tmp_path / "raw"))


def test_a_note_is_written_and_read(notes: NotesFolder) -> None:
    """002-R037: a note is a file with this text, and nothing is left beside it."""
    notes.write(ADA, "---\ntags: [a]\n---\n# Ada\n", replacing=None)

    note = notes.read(ADA)

    assert (note.title, note.tags) == ("Ada", ("a",))
    assert [each.name for each in notes.layout.people.iterdir()] == ["ada.md"]
    assert notes.modified(ADA) == (notes.layout.root / ADA).stat().st_mtime_ns // 1_000_000


def test_a_writer_that_saw_an_older_text_changes_nothing(notes: NotesFolder) -> None:
    """A person saved while the agent was thinking: the person's text stays (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    (notes.layout.root / ADA).write_text("the person's\n", encoding="utf-8")

    with pytest.raises(Conflict):
        notes.write(ADA, "two\n", replacing="one\n")
    with pytest.raises(Conflict):
        notes.write(ADA, "new\n", replacing=None)
    with pytest.raises(Conflict):
        notes.remove(ADA, replacing="one\n")

    assert notes.read(ADA).text == "the person's\n"


def test_an_editor_that_saves_between_check_and_replace_wins(
    notes: NotesFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors take no lock: the last instant before the replacement counts, too (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    exchange, saved = held_folder._exchange, []

    def save_first(folder: int, one: str, other: str) -> bool:
        if not saved:
            saved.append(True)
            (notes.layout.root / ADA).write_text("the person's\n", encoding="utf-8")
        return exchange(folder, one, other)

    monkeypatch.setattr(held_folder, "_exchange", save_first)

    with pytest.raises(Conflict):
        notes.write(ADA, "two\n", replacing="one\n")

    assert notes.read(ADA).text == "the person's\n"
    assert [each.name for each in notes.layout.people.iterdir()] == ["ada.md"]


def test_an_editor_that_saves_while_the_new_text_is_written_never_sees_it(
    notes: NotesFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that loads a text which is taken back would save it over its own (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    written, exchanged = HeldFolder._written, []

    def save_meanwhile(
        files: HeldFolder, folder: int, name: str, text: str, *, mode: int | None
    ) -> str:
        temporary = written(files, folder, name, text, mode=mode)
        (notes.layout.root / ADA).write_text("the person's\n", encoding="utf-8")
        return temporary

    monkeypatch.setattr(HeldFolder, "_written", save_meanwhile)
    monkeypatch.setattr(held_folder, "_exchange", lambda *names: exchanged.append(names))

    with pytest.raises(Conflict):
        notes.write(ADA, "two\n", replacing="one\n")

    assert exchanged == []
    assert notes.read(ADA).text == "the person's\n"
    assert [each.name for each in notes.layout.people.iterdir()] == ["ada.md"]


def test_an_editor_that_saves_twice_meanwhile_loses_nothing(
    notes: NotesFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saves again while its first version is being put back: both are kept (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    exchange, versions = held_folder._exchange, ["second\n", "first\n"]

    def save_first(folder: int, one: str, other: str) -> bool:
        (notes.layout.root / "new").write_text(versions.pop(), encoding="utf-8")
        (notes.layout.root / "new").replace(notes.layout.root / ADA)
        return exchange(folder, one, other)

    monkeypatch.setattr(held_folder, "_exchange", save_first)

    with pytest.raises(Conflict):
        notes.write(ADA, "two\n", replacing="one\n")

    (kept,) = (notes.layout.scratch / "recovered").iterdir()
    assert {notes.read(ADA).text, kept.read_text(encoding="utf-8")} == {"first\n", "second\n"}
    assert [each.name for each in notes.layout.people.iterdir()] == ["ada.md"]


def test_a_version_that_is_saved_while_a_note_is_removed_stays(
    notes: NotesFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor saves after the check: what is removed is what was compared (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    read = held_folder._read

    def save_after(folder: int, name: str, *, path: str, bytes_max: int) -> str:
        text = read(folder, name, path=path, bytes_max=bytes_max)
        if name == "ada.md":
            (notes.layout.root / "new").write_text("the person's\n", encoding="utf-8")
            (notes.layout.root / "new").replace(notes.layout.root / ADA)
        return text

    with monkeypatch.context() as patch:
        patch.setattr(held_folder, "_read", save_after)
        with pytest.raises(Conflict):
            notes.remove(ADA, replacing="one\n")

    assert notes.read(ADA).text == "the person's\n"
    assert [each.name for each in notes.layout.people.iterdir()] == ["ada.md"]


def test_a_note_is_moved_in_one_step(notes: NotesFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is deleted by its old name: an editor may have saved there meanwhile (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    deleted: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path, **_where: deleted.append(path))
        notes.move(ADA, "archive/people/ada.md")

    assert deleted == []
    assert notes.read("archive/people/ada.md").text == "one\n"
    assert not (notes.layout.root / ADA).exists()

    notes.write(ADA, "new\n", replacing=None)
    with pytest.raises(Conflict):
        notes.move(ADA, "archive/people/ada.md")
    assert notes.read(ADA).text == "new\n"
    assert notes.read("archive/people/ada.md").text == "one\n"


def test_what_a_killed_writer_left_is_kept_aside(notes: NotesFolder) -> None:
    """It may be the version of an editor that was swapped out: it is not deleted (PG-32)."""
    notes.write(ADA, "one\n", replacing=None)
    (notes.layout.people / ".ada.md.ctxmgr.tmp").write_text("the person's\n", encoding="utf-8")

    notes.write(ADA, "two\n", replacing="one\n")

    kept = notes.layout.scratch / "recovered" / "1-ada.md"
    assert kept.read_text(encoding="utf-8") == "the person's\n"
    assert notes.read(ADA).text == "two\n"


def test_permissions_of_a_file_stay(notes: NotesFolder) -> None:
    """A note that only its owner may read does not become public by an edit."""
    notes.write(ADA, "one\n", replacing=None)
    (notes.layout.root / ADA).chmod(0o600)

    notes.write(ADA, "two\n", replacing="one\n")

    assert (notes.layout.root / ADA).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "path",
    [
        "../outside.md",
        "knowledge/../../outside.md",
        "/etc/passwd.md",
        "knowledge//a.md",
        "./a.md",
        "a\0.md",
        "a\n.md",
        "",
        ".git/hooks/a.md",
        "knowledge/.hidden.md",
        "knowledge/a.txt",
        "knowledge\\..\\a.md",
        f"{'a' * 300}.md",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(notes: NotesFolder, path: str) -> None:
    """Paths come from models: none is read, written or moved outside of the folder."""
    notes.write(ADA, "x\n", replacing=None)

    with pytest.raises(Incorrect):
        notes.write(path, "x\n", replacing=None)
    with pytest.raises(Incorrect):
        notes.read(path)
    with pytest.raises(Incorrect):
        notes.move(ADA, path)


def test_links_are_not_followed(notes: NotesFolder, tmp_path: Path) -> None:
    """A link in a foreign repository can lead anywhere, as a file or as a folder."""
    (tmp_path / "secret.md").write_text("secret\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    notes.layout.people.mkdir(parents=True)
    (notes.layout.people / "link.md").symlink_to(tmp_path / "secret.md")
    (notes.layout.knowledge / "linked").symlink_to(tmp_path / "folder")

    with pytest.raises(Denied):
        notes.read("knowledge/people/link.md")
    with pytest.raises(Denied):
        notes.write("knowledge/people/link.md", "x\n", replacing="secret\n")
    with pytest.raises(Denied):
        notes.write("knowledge/linked/a.md", "x\n", replacing=None)

    assert notes.paths() == []
    assert list((tmp_path / "folder").iterdir()) == []


def test_raw_conversations_are_read_and_never_written(notes: NotesFolder) -> None:
    """002-R003: the agent cannot edit what was said."""
    path = "raw/conversations/2026/11/18/1000-ses_0123abcd-x.md"
    file = notes.layout.raw / path
    file.parent.mkdir(parents=True)
    file.write_text("---\nsession_id: ses_0123abcd\n---\n", encoding="utf-8")

    assert notes.paths(Category.CONVERSATION) == [path]
    assert notes.read(path).frontmatter == {"session_id": "ses_0123abcd"}
    with pytest.raises(Denied):
        notes.write(path, "x\n", replacing=notes.read(path).text)
    with pytest.raises(Denied):
        notes.move(ADA, "raw/conversations/x.md")


def test_notes_are_listed_by_category_and_without_the_archive(notes: NotesFolder) -> None:
    """002-R195: the archive is there, and is not loaded by itself."""
    for path in (ADA, "topics/mail.md", "archive/people/bob.md", "scratch/x.md"):
        notes.write(path, "x\n", replacing=None)

    assert notes.paths() == [ADA, "topics/mail.md"]
    assert notes.paths(Category.PERSON, archived=True) == ["archive/people/bob.md", ADA]
    assert [note.path for note in notes.all(Category.TOPIC)] == ["topics/mail.md"]


def test_a_file_that_cannot_be_read_hides_no_others(notes: NotesFolder) -> None:
    """One bad file in a vault of thousands is reported, and the rest is there."""
    notes.write(ADA, "x\n", replacing=None)
    (notes.layout.people / "bad.md").write_bytes(b"---\nx: \xff\n---\n")
    (notes.layout.people / "huge.md").write_bytes(b"x" * (NOTE_BYTES_MAX + 1))
    (notes.layout.people / "pipe.md").mkdir()
    (notes.layout.people / "odd\n.md").write_text("x", encoding="utf-8")
    os.mkfifo(notes.layout.people / "fifo.md")

    scan = notes.scan()

    assert [note.path for note in scan.notes] == [ADA]
    assert [each.path.rpartition("/")[2] for each in scan.unreadable] == [
        "odd\\n.md'",
        "bad.md",
        "fifo.md",
        "huge.md",
    ]


def test_a_note_that_cannot_be_read_again_is_not_written(notes: NotesFolder) -> None:
    """002-R037: no writer leaves a broken frontmatter, nor a file above the bound."""
    for text in ("---\na: [\n---\n", "x" * (NOTE_BYTES_MAX + 1), "\ud800"):
        with pytest.raises(InvalidNote):
            notes.write(ADA, text, replacing=None)

    assert notes.paths() == []
    with pytest.raises(NotFound):
        notes.read(ADA)


def test_a_note_moves_to_the_archive_and_replaces_nothing(notes: NotesFolder) -> None:
    """002-R018, 002-R048: what is stale can be had back."""
    notes.write(ADA, "x\n", replacing=None)
    notes.move(ADA, "archive/people/ada.md")
    notes.write(ADA, "y\n", replacing=None)

    with pytest.raises(Conflict):
        notes.move(ADA, "archive/people/ada.md")

    assert notes.read("archive/people/ada.md").text == "x\n"
    assert notes.read(ADA).text == "y\n"


def test_a_change_on_disk_is_seen(notes: NotesFolder) -> None:
    """The file is the truth; what was read before is only kept while it is the same."""
    notes.write(ADA, "one\n", replacing=None)
    assert notes.read(ADA).text == "one\n"

    other = NotesFolder(notes.layout)
    other.write(ADA, "other\n", replacing="one\n")

    assert notes.read(ADA).text == "other\n"
