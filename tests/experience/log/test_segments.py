"""Segments: two encodings of the same rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctxmgr.bench.experience.steps import batches, concept_names
from ctxmgr.errors import Corrupt
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.segments import (
    COMPACT,
    FAST,
    SessionRun,
    activations_table,
    timesteps_table,
    write_segment,
)

NAMES = dict(enumerate(concept_names(), 1))


def _steps(names: dict[int, str]) -> pa.Table:
    runs = [
        SessionRun(session_id=each.session, ticks=(each.tick0,), batches=(each.columns,))
        for each in batches(4_096)
    ]
    return timesteps_table(runs, names)


def test_a_fold_and_a_merge_store_the_same_rows(tmp_path: Path) -> None:
    """000-R184, 000-R185: the fast encoding and the compact one are read alike; one is smaller."""
    folder = LogFolder(tmp_path)
    folder.create()
    steps = _steps(NAMES)

    fast = write_segment(folder, steps, encoding=FAST)
    compact = write_segment(folder, steps, encoding=COMPACT)

    for path in (folder.timesteps, folder.activations):
        assert pq.read_table(path(fast.name)).equals(pq.read_table(path(compact.name)))
    assert compact.timesteps.bytes < fast.timesteps.bytes
    assert compact.activations.bytes < fast.activations.bytes
    assert (fast.acts, fast.parts) == (compact.acts, compact.parts)


def test_activations_are_those_of_the_steps_by_concept_and_tick() -> None:
    """000-A29: every score of every step, sorted so that a concept is one place in the file."""
    steps = _steps(NAMES)
    expected = sorted(
        (concept, step["session_id"], step["tick"], score)
        for step in steps.to_pylist()
        for concept, score in step["concept_activations"]
    )

    found = activations_table(steps).select(["concept_id", "session_id", "tick", "score"])

    assert [tuple(row.values()) for row in found.to_pylist()] == expected


@pytest.mark.parametrize("known", [range(2, 4_001), range(1, 100), range(0)])
def test_a_concept_that_has_no_name_is_corrupt(known: range) -> None:
    """A damaged tail is reported, and nothing is stored under a wrong name."""
    with pytest.raises(Corrupt, match=r"concept \d+, which is unknown"):
        _steps({code: NAMES[code] for code in known})
