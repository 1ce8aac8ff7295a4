"""Turn records: the parts of a prompt, stored so that it can be rebuilt."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import Contribution, Section
from ctxmgr.core.history.turn_records import (
    RECORDS_PER_SNAPSHOT,
    ShownVersion,
    TurnRecord,
    plan_shown,
    shown_at,
)
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.sessions.collapse import Activations
from ctxmgr.core.store.documents import check_document
from ctxmgr.errors import Corrupt, Incorrect
from tests.core.builders.values import id_tuples, maps, texts

hashes: Final = st.sampled_from([sha256(b"1"), sha256(b"2"), sha256(b"3")])
versions: Final = st.builds(
    ShownVersion,
    object_id=st.sampled_from(["a", "b", "c", "d", "e"]),
    object_hash=hashes,
    display_path=st.none() | st.just("/x"),
    state=st.none() | st.sampled_from([FileState.DELETED, FileState.NONTEXT]),
)
prompts: Final = st.lists(versions, unique_by=lambda version: version.object_id, max_size=5)


def _record(**changes: Any) -> TurnRecord:
    given = {
        "session": "s1",
        "n": 3,
        "prompt_hash": sha256(b"prompt"),
        "section_hashes": {"chat": [sha256(b"chat")]},
        "snapshot": 1,
        "shown": (ShownVersion(object_id="a", object_hash=sha256(b"a"), display_path="/a"),),
        "active": ("a",),
    }
    return TurnRecord(**{**given, **changes})


@st.composite
def records(draw: st.DrawFn) -> TurnRecord:
    n = draw(st.integers(1, 1_000))
    slot = st.sampled_from([Section.STABLE, Section.EPOCH, Section.VOLATILE])
    contribution = st.builds(Contribution, slot=slot, name=st.just("memory"), text=texts)
    return _record(
        n=n,
        snapshot=draw(st.integers(1, n)),
        policy=draw(st.none() | maps),
        mounts=draw(st.just(()) | st.just(({"agentPrefix": "/w", "canonicalPrefix": "/h"},))),
        sequence=draw(st.none() | st.integers(0)),
        shown=tuple(draw(prompts)),
        active=draw(id_tuples),
        activations=Activations(draw(st.dictionaries(st.just("a"), st.integers(1, 9)))),
        contributions=tuple(draw(st.lists(contribution, max_size=2))),
    )


@given(records())
def test_a_record_is_read_as_it_was_written(record: TurnRecord) -> None:
    """003-R005: a prompt is rebuilt from its record."""
    document = record.to_document()

    check_document(document)
    assert TurnRecord.from_document(document) == record


def test_a_record_is_found_by_session_and_number() -> None:
    """It is a plain document of a separate kind, with the declared fields."""
    document = _record().to_document()

    assert (document["xt/id"], document["type"]) == ("turn:s1:3", "turn")
    assert {name: document[name] for name in KINDS["turn"].indexed} == {"session": "s1", "n": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 4},
        {"snapshot": 9},
        {"shown": [{"id": "a", "object_hash": "none"}]},
        {"shown": 5},
        {"prompt_hash": None},
        {"activations": {"a": "1"}},
        {"more": 1},
    ],
)
def test_an_invalid_record_is_refused(changes: dict[str, Any]) -> None:
    """003-R005: a prompt rebuilt from a broken record would be trusted."""
    with pytest.raises(Corrupt):
        TurnRecord.from_document({**_record().to_document(), **changes})


def test_the_error_for_a_missing_field_names_it() -> None:
    """003-R005: the message says what to look for."""
    document = _record().to_document()
    del document["mounts"]

    with pytest.raises(Corrupt, match="mounts"):
        TurnRecord.from_document(document)


def test_a_record_cannot_continue_from_the_future() -> None:
    """003-R005: the chain of records ends at a full one."""
    with pytest.raises(Incorrect):
        _record(n=3, snapshot=4)


@given(st.lists(prompts, min_size=1, max_size=12))
def test_records_give_every_version_of_each_prompt(prompts_shown: list[list[ShownVersion]]) -> None:
    """003-R005: each record lists few versions; together they give all, in order."""
    written: dict[str, TurnRecord] = {}
    before: dict[str, ShownVersion] = {}
    snapshot = 0
    for n, prompt in enumerate(prompts_shown, start=1):
        snapshot, listed = plan_shown(prompt, n=n, before=before, snapshot=snapshot)
        record = _record(n=n, snapshot=snapshot, shown=listed)
        written[record.object_id] = record

        before = shown_at(written[ref] for ref in record.needed())

        assert list(before.values()) == prompt


def test_the_size_of_all_records_is_not_quadratic() -> None:
    """003-R005: with one more object per turn, most records list only that object."""
    pool: list[ShownVersion] = []
    before: dict[str, ShownVersion] = {}
    listed_in_all, snapshot = 0, 0
    for n in range(1, 301):
        pool.append(ShownVersion(object_id=f"id-{n}", object_hash=sha256(b"1")))
        snapshot, listed = plan_shown(pool, n=n, before=before, snapshot=snapshot)
        before = {entry.object_id: entry for entry in pool}
        listed_in_all += len(listed)
        assert n - snapshot < RECORDS_PER_SNAPSHOT

    assert listed_in_all < 300 + 300 * 300 / RECORDS_PER_SNAPSHOT


@pytest.mark.parametrize(
    "chain",
    [
        [_record(n=1), _record(n=3)],
        [_record(n=2), _record(n=3)],
        [_record(n=1), _record(n=2, snapshot=2), _record(n=3)],
        [_record(n=1), _record(n=2, snapshot=2)],
    ],
    ids=["gap", "no beginning", "two chains", "too many"],
)
def test_a_gap_in_the_chain_of_records_is_detected(chain: list[TurnRecord]) -> None:
    """003-R005: every record is needed to know what was shown."""
    with pytest.raises(Corrupt, match="does not continue the record before it"):
        shown_at(chain)
