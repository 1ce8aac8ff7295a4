"""Folders of notes and transcripts for the tests of the lifecycle."""

from pathlib import Path

from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.transcripts.transcript import (
    Block,
    Role,
    SessionTranscript,
    TranscriptHead,
    TranscriptTurn,
    render_transcript,
    session_name,
    slug_of,
    transcript_path,
)

DAY_MS = 86_400_000
AT = 1_779_287_520_000
"""Wednesday, 2026-05-20T14:32:00Z."""


def folder(root: Path) -> NotesFolder:
    """An empty folder of notes."""
    layout = Layout(root / "notes", root / "raw")
    layout.root.mkdir()
    layout.raw.mkdir()
    return NotesFolder(layout)


def conversation(
    *said: tuple[str, str | list[Block]], session: str = "s1", at: int = AT
) -> SessionTranscript:
    """A transcript of what was said, as pairs of role and text."""
    turns = tuple(
        TranscriptTurn.of(at, Role(role), [text] if isinstance(text, str) else text)
        for role, text in said
    )
    head = TranscriptHead(
        session_id=session_name(session), session=session, started=at, ended=at + 60_000
    )
    title = turns[0].text.split("\n")[0] if turns else "Untitled session"
    return SessionTranscript(head, title, turns)


def keep(notes: NotesFolder, transcript: SessionTranscript) -> str:
    """Write a closed transcript; return its path."""
    path = transcript_path(transcript.head, slug=slug_of(each.text for each in transcript.turns))
    file = notes.layout.raw / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render_transcript(transcript))
    return path


def texts(notes: NotesFolder) -> dict[str, str]:
    """All notes, archived ones included, by path."""
    root = notes.layout.root
    return {
        file.relative_to(root).as_posix(): file.read_text() for file in sorted(root.rglob("*.md"))
    }
