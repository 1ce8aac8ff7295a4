"""opencode's own database: the rows are those that version 1.18.33 has written."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from ctxmgr import Incorrect, connect
from ctxmgr.recordings import folders
from ctxmgr.recordings.folders import (
    import_file,
    import_folder,
    is_one_recording,
    read_file,
    recordings_below,
)
from ctxmgr.recordings.formats import read_recording
from ctxmgr.recordings.recorder import RecordedCall
from ctxmgr.stores import opencode_database
from ctxmgr.stores.opencode_database import session_ids

RECORDED = json.loads(
    (Path(__file__).parent / "databases" / "opencode-1.18.33.json").read_text(encoding="utf-8")
)
SESSION = RECORDED["export"]["info"]["id"]

MANY_PARTS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
INSERT INTO part SELECT 'p' || i, message_id, session_id, 0, 0, '{}'
FROM n, (SELECT * FROM part LIMIT 1)
"""


def _write(path: Path, tables: dict[str, Any]) -> Path:
    connection = apsw.Connection(str(path))
    for name in ("session", "message", "part"):
        connection.execute(tables[name]["sql"])
        for row in tables[name]["rows"]:
            places = ", ".join("?" * len(row))
            columns = ", ".join(f'"{column}"' for column in row)
            connection.execute(
                f"INSERT INTO {name} ({columns}) VALUES ({places})", tuple(row.values())
            )
    connection.close()
    return path


def _execute(path: Path, statement: str, *values: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement, values)
    connection.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "share" / "opencode"
    folder.mkdir(parents=True)
    return _write(folder / "opencode.db", RECORDED["tables"])


def test_the_database_says_what_the_export_says(database: Path) -> None:
    """Round trip: every message and part of the client's own export, in its order."""
    (source,) = recordings_below(database)

    read = json.loads(read_file(source).data)

    assert read["messages"] == RECORDED["export"]["messages"]
    assert read["info"].items() <= RECORDED["export"]["info"].items()
    assert read_recording(orjson.dumps(read)) == read_recording(orjson.dumps(RECORDED["export"]))


def test_what_opencode_did_is_a_recording(database: Path) -> None:
    """A read, a command that failed, an answer, and a second prompt of `opencode run -c`."""
    recording = read_recording(read_file(recordings_below(database)[0]).data)

    assert (recording.format, recording.recorded_id) == ("opencode", SESSION)
    assert [turn.user for turn in recording.turns] == ['"Which port?"', "", "", '"And the host?"']
    first, second, third, last = recording.turns
    assert first.parts[0] == "I look."
    assert isinstance(first.parts[1], RecordedCall)
    assert "the port is 8080" in (first.parts[1].output or "")
    assert [call.failed for call in (*first.calls, *second.calls)] == [False, True]
    assert (third.parts, last.parts) == (("It is 8080.",), ("On localhost.",))
    assert (first.model, first.usage and first.usage.output_tokens) == ("scripted-1", 9)
    assert first.timestamp == RECORDED["export"]["messages"][1]["info"]["time"]["completed"]


async def test_a_database_is_imported_like_a_folder(database: Path, tmp_path: Path) -> None:
    """As a file, below its folder, and again when a session has continued."""
    assert not is_one_recording(database)
    async with connect("sqlite://:memory:", tracking=False) as client:
        first = await import_folder(client, database)
        again = await import_folder(client, tmp_path)
        assert (first.imported, first.turns, first.tool_calls) == (1, 4, 2)
        assert (again.files, again.unchanged, again.not_imported) == (1, 1, ())

        message, part = (RECORDED["tables"][name]["rows"][-1] for name in ("message", "part"))
        connection = apsw.Connection(str(database))
        new = {**message, "id": "msg_2", "time_created": message["time_created"] + 1}
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", tuple(new.values()))
        text = {**part, "id": "prt_2", "message_id": "msg_2"}
        text["data"] = json.dumps({"type": "text", "text": "One more."})
        connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", tuple(text.values()))
        connection.close()
        more = await import_folder(client, database)
        assert (more.continued, more.turns) == (1, 1)


def test_a_database_in_use_is_read(database: Path) -> None:
    """What opencode has committed while it runs is in the write-ahead log."""
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE session SET parent_id = 'ses_parent'")
    try:
        recording = read_recording(read_file(recordings_below(database)[0]).data)
    finally:
        connection.close()

    assert recording.parent == "ses_parent"


@pytest.mark.parametrize("kind", ["text", "other tables", "a view"])
async def test_another_file_of_that_name_is_listed(tmp_path: Path, kind: str) -> None:
    """Nothing in a foreign file runs: a view may compute for ever."""
    path = tmp_path / "opencode.db"
    if kind == "text":
        path.write_text("not a database" * 100, encoding="utf-8")
    else:
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE message (id)")
        if kind == "a view":
            connection.execute("CREATE TABLE part (id)")
            connection.execute("CREATE VIEW session AS SELECT 'ses' AS id")
        connection.close()
    async with connect("sqlite://:memory:", tracking=False) as client:
        result = await import_folder(client, tmp_path)

    (refused,) = result.not_imported
    assert "database of opencode" in refused.reason


async def test_a_damaged_or_huge_session_is_refused(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE part SET data = '[1]' WHERE rowid = 3")
    connection.close()
    (source,) = recordings_below(database)
    async with connect("sqlite://:memory:", tracking=False) as client:
        with pytest.raises(Incorrect, match="an object is expected"):
            await import_file(client, source)
        monkeypatch.setattr(folders, "RECORDING_BYTES_MAX", 100)
        with pytest.raises(Incorrect, match="more than 100 bytes"):
            await import_file(client, source)


def test_half_an_emoji_is_read(database: Path) -> None:
    """JavaScript cuts texts between surrogates, and JSON has them as escapes."""
    half = json.dumps({"type": "text", "text": "cut \ud83d"})
    _execute(database, "UPDATE part SET data = ? WHERE json_extract(data, '$.type') = 'text'", half)

    recording = read_recording(read_file(recordings_below(database)[0]).data)

    assert recording.turns[-1].parts == ("cut \ud83d",)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE part SET id = x'00ff' WHERE rowid = 2", "the id of a part: a text is expected"),
        ("UPDATE message SET id = x'00' WHERE rowid = 1", "the id of a message: a text"),
        ("UPDATE session SET parent_id = x'07'", "the parent: a text is expected"),
        ("UPDATE part SET data = CAST(x'ff' AS TEXT) WHERE rowid = 2", "cannot be read"),
        ("UPDATE session SET id = CAST(x'ff' AS TEXT)", "has no session"),
        ("UPDATE part SET data = '[' || data || ']' WHERE rowid = 2", "an object is expected"),
        ("UPDATE part SET data = char(0) || hex(zeroblob(400000)) WHERE rowid = 2", "bytes"),
        (MANY_PARTS, "more than 50 parts"),
    ],
)
async def test_rows_that_opencode_does_not_write_are_listed(
    database: Path, monkeypatch: pytest.MonkeyPatch, statement: str, reason: str
) -> None:
    """A hostile or damaged row neither ends the import nor takes all the memory."""
    monkeypatch.setattr(folders, "RECORDING_BYTES_MAX", 500_000)
    monkeypatch.setattr(opencode_database, "ROWS_MAX", 50)
    _execute(database, statement)
    async with connect("sqlite://:memory:", tracking=False) as client:
        result = await import_folder(client, database)

    (refused,) = result.not_imported
    assert reason in refused.reason


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE part (id, message_id, session_id, data AS (printf('%.9c', id)))",
        "CREATE VIRTUAL TABLE part USING fts5(id, message_id, session_id, data)",
    ],
)
def test_tables_that_compute_are_not_read(database: Path, table: str) -> None:
    _execute(database, "DROP TABLE part")
    _execute(database, table)

    with pytest.raises(Incorrect, match="it has no table part"):
        session_ids(database, limit=1)


def test_only_files_are_opened(tmp_path: Path) -> None:
    """Opening a named pipe would wait for ever."""
    os.mkfifo(tmp_path / "opencode.db")

    assert recordings_below(tmp_path) == []


def test_links_are_not_followed(database: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "opencode.db").symlink_to(database)

    assert recordings_below(elsewhere) == []
    shutil.rmtree(elsewhere)
