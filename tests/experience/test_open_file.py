"""The file of the experience log: its layout, and who may open it."""

from pathlib import Path

import apsw
import pytest

from ctxmgr.errors import Incorrect, NewerFormat, NotFound
from ctxmgr.experience.log.open_file import open_log_file

COLUMNS = {
    "tags": "id name tag_type concept_id entity_type bud_status created_at created_by description",
    "tag_applications": "id tag_id session_id target_type timestep_id event_id range_start"
    " range_end confidence source created_at note",
    "comments": "id session_id target_type timestep_id event_id range_start range_end content"
    " created_at updated_at",
    "compressed_records": "id compression_level start_time end_time summary top_k_activations"
    " significant_tags source_record_ids token_count record_count start_tick end_tick session_id",
    "time_windows": "id session_id start_tick end_tick start_time end_time fidelity"
    " compression_level pinned pinned_reason submission_ids token_count summary"
    " top_k_activations significant_tags source_record_ids",
    "compactions": "id session_id timestamp range_start range_end timesteps_compacted"
    " tokens_before tokens_after summary summary_concept_tags top_k_activations trigger"
    " result_level",
}

INDEXES = {
    *("idx_timesteps_session_tick", "idx_timesteps_fidelity", "idx_timesteps_ts"),
    *("idx_tag_apps_tag", "idx_tag_apps_session", "idx_compressed_level_time"),
    *("idx_windows_fidelity", "idx_windows_session"),
}


@pytest.mark.parametrize("table", COLUMNS)
def test_a_table_has_the_columns_of_the_requirements(table: str, tmp_path: Path) -> None:
    """000-R055, 000-R188, 000-R189, 000-R191, 000-R192, 000-A25: the union of both designs."""
    file = open_log_file(tmp_path)

    with file.reading() as connection:
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}

    assert set(COLUMNS[table].split()) <= found
    file.close()


def test_the_indexes_have_the_names_of_the_requirements(tmp_path: Path) -> None:
    """000-R187, 000-R190, 000-R219: people look for them under these names."""
    file = open_log_file(tmp_path)

    with file.reading() as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}

    assert names >= INDEXES
    file.close()


def test_an_application_of_an_unknown_tag_is_refused(tmp_path: Path) -> None:
    """PG-11, 000-R189: foreign keys hold, also after the file was opened again."""
    open_log_file(tmp_path).close()
    file = open_log_file(tmp_path)

    with pytest.raises(Exception, match="FOREIGN KEY"), file.writing() as connection:
        connection.execute(
            "INSERT INTO tag_applications (id, tag_id, session_id, target_type, confidence,"
            " source, created_at) VALUES ('ta-1', 'nobody', 's', 'range', 1.0, 'manual', 0)"
        )

    file.close()


def test_a_failed_change_leaves_nothing(tmp_path: Path) -> None:
    """What is written together is kept together, or not at all."""
    file = open_log_file(tmp_path)

    def change() -> None:
        with file.writing() as connection:
            connection.execute("INSERT INTO session VALUES ('s', 1, 1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()

    with file.reading() as connection:
        assert connection.execute("SELECT count(*) FROM session").get == 0
    file.close()


def test_a_file_of_another_program_is_not_changed(tmp_path: Path) -> None:
    """A mistyped folder must not add tables to somebody's database."""
    other = apsw.Connection(str(tmp_path / "log.sqlite"))
    other.execute("CREATE TABLE mine (x)")
    other.close()

    with pytest.raises(Incorrect, match=r"log\.sqlite is not a"):
        open_log_file(tmp_path)


def test_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    """An older program would write rows that the newer one cannot read."""
    open_log_file(tmp_path).close()
    connection = apsw.Connection(str(tmp_path / "log.sqlite"))
    connection.execute("PRAGMA user_version = 999")
    connection.close()

    with pytest.raises(NewerFormat):
        open_log_file(tmp_path)


def test_reading_a_log_that_does_not_exist_creates_none(tmp_path: Path) -> None:
    """A mistyped folder is reported, not created."""
    with pytest.raises(NotFound):
        open_log_file(tmp_path / "absent", create=False)

    assert not (tmp_path / "absent").exists()
