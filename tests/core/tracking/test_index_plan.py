"""Properties of index plans, for any observation and any stored version."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.files.outcomes import MissingFile, Refusal, RefusedFile, Unreachable, Unread
from ctxmgr.core.objects.codec import from_document, to_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Match, Put, Version
from ctxmgr.core.tracking.index_plan import (
    IndexPlan,
    IndexResult,
    Observation,
    ObservationTime,
    plan,
)

SOURCE: Final = FilesystemSource(filesystem_id="host", path="/project/a.py")
MOMENT: Final = ObservationTime(now=100, last_transaction=90)
OBJECT_ID: Final = File.stub(SOURCE).object_id
BINARY: Final = File.read(SOURCE, data=b"\xff")

bytes_read = st.sampled_from([b"one", b"two", b"", b"\xff"])
unread: st.SearchStrategy[Unread | None] = st.sampled_from(
    [None, MissingFile("gone"), RefusedFile(Refusal.TOO_LARGE, "large"), Unreachable("who knows")]
)
mtimes = st.none() | st.integers(0, 120).map(lambda instant: instant * 1_000_000)
observations = st.builds(
    lambda data, mtime: observed(file=File.read(SOURCE, data=data), mtime_ns=mtime),
    bytes_read,
    mtimes,
) | st.builds(lambda reason, mtime: observed(unread=reason, mtime_ns=mtime), unread, mtimes)
files = (
    st.just(File.stub(SOURCE))
    | bytes_read.map(lambda data: File.read(SOURCE, data=data))
    | bytes_read.map(lambda data: File.read(SOURCE, data=data).deleted())
)


def observed(
    *, file: File | None = None, unread: Unread | None = None, mtime_ns: int | None = None
) -> Observation:
    return Observation(
        source=SOURCE, object_id=OBJECT_ID, file=file, mtime_ns=mtime_ns, unread=unread
    )


def version(file: File, valid_time: int, *, token: str | None = "t") -> Version:
    document = to_document(file)
    return Version(object_id=OBJECT_ID, document=document, valid_time=valid_time, token=token)


versions = st.none() | st.builds(version, files, st.integers(0, 95))


def planned(observation: Observation, before: Version | None) -> IndexPlan:
    stored = {} if before is None else {OBJECT_ID: before}
    binary = before is not None and before.document["file_hash"] == BINARY.file_hash
    states = {OBJECT_ID: FileState.NONTEXT if binary else FileState.DELETED}
    return plan([observation], stored=stored, moment=MOMENT, states=states)


@given(observations, versions)
def test_only_unchanged_files_write_nothing(
    observation: Observation, before: Version | None
) -> None:
    """003-R169 to 003-R172, 003-R178: the result says whether there is a new version."""
    made = planned(observation, before)

    (outcome,) = made.outcomes
    assert (outcome.result is IndexResult.UNCHANGED) == (made.operations == ())
    assert (outcome.result is IndexResult.CREATED) == (before is None and made.operations != ())


@given(observations, versions)
def test_repeating_an_observation_changes_nothing(
    observation: Observation, before: Version | None
) -> None:
    """003-R171, 003-A02: an applied plan leaves nothing to do."""
    first = planned(observation, before)
    file = first.outcomes[0].file
    after = None if file is None else version(file, 97)

    assert planned(observation, after).operations == ()


@given(observations, versions)
def test_every_put_is_guarded_and_after_the_version_it_replaces(
    observation: Observation, before: Version | None
) -> None:
    """003-A34: no version hides behind an older one or overwrites a newer one."""
    made = planned(observation, before)

    if made.operations:
        guard, put = made.operations
        assert isinstance(put, Put)
        assert guard == Match(OBJECT_ID, before and before.token)
        if before is not None and put.valid_from is not None:
            assert before.valid_time < put.valid_from <= MOMENT.now
        if before is not None and put.valid_from is None:
            assert made.not_before == before.valid_time


@given(observations, versions)
def test_every_planned_document_is_a_valid_object(
    observation: Observation, before: Version | None
) -> None:
    """003-R165: discovery and indexing give the same identity, and every hash is correct."""
    made = planned(observation, before)

    puts = [operation for operation in made.operations if isinstance(operation, Put)]
    assert [from_document(put.document) for put in puts] == [source.file for source in made.written]
    assert all(outcome.object_id == OBJECT_ID for outcome in made.outcomes)


@given(observations, versions)
def test_only_a_deletion_or_unread_bytes_take_a_text_away(
    observation: Observation, before: Version | None
) -> None:
    """003-A12, 003-R117, 003-R118: after any other failure the latest version stays."""
    made = planned(observation, before)

    (outcome,) = made.outcomes
    file = outcome.file
    had_text = before is not None and before.document["content"] is not None
    if had_text and file is not None and file.content is None and observation.file is None:
        assert before is not None
        if observation.is_too_large:
            assert (outcome.state, file) == (FileState.STUB, File.stub(SOURCE))
        else:
            assert isinstance(observation.unread, MissingFile)
            assert outcome.state is FileState.DELETED
            assert file.file_hash == before.document["file_hash"]


@given(versions)
def test_whatever_is_missing_is_stored_as_deleted(before: Version | None) -> None:
    """003-R118, 003-R189: text, binary or never read, a file that is gone is shown as deleted."""
    (outcome,) = planned(observed(unread=MissingFile("gone")), before).outcomes

    assert outcome.state is (None if before is None else FileState.DELETED)
    if outcome.file is not None:
        assert outcome.file.content is None
        assert outcome.file.file_hash is not None, "only a stub has none (003-A01)"


@given(versions)
def test_a_file_that_is_too_large_is_never_shown_as_it_was(before: Version | None) -> None:
    """003-R172, 003-A40: its bytes have changed, and nobody has read them."""
    large = observed(unread=RefusedFile(Refusal.TOO_LARGE, "large"))

    (outcome,) = planned(large, before).outcomes

    assert (outcome.file, outcome.state) == (File.stub(SOURCE), FileState.STUB)


def test_a_text_that_another_client_masked_is_not_written_again() -> None:
    """003-R171: two clients that store secrets differently must not rewrite a file in turns."""
    masked = File.read(SOURCE, data=b"key=abc", kept=lambda text: text.replace("abc", "***"))
    plain = File.read(SOURCE, data=b"key=abc")

    def result(file: File, before: File, mask: str) -> IndexResult:
        made = plan(
            [observed(file=file)],
            stored={OBJECT_ID: version(before, 5)},
            moment=MOMENT,
            kept=lambda text: text.replace(mask, "***"),
        )
        assert made.outcomes[0].file == (before if made.operations == () else file)
        return made.outcomes[0].result

    assert result(plain, masked, "nothing") is IndexResult.UNCHANGED
    assert result(masked, plain, "abc") is IndexResult.UPDATED, "a secret does not stay"
    assert result(masked, masked, "abc") is IndexResult.UNCHANGED


def test_a_version_without_a_token_is_followed_without_a_match() -> None:
    """Another program wrote it without a token, so the store's time is used."""
    before = version(File.stub(SOURCE), 5, token=None)

    made = planned(observed(file=File.read(SOURCE, data=b"x"), mtime_ns=10_000_000), before)

    (put,) = made.operations
    assert isinstance(put, Put)
    assert put.valid_from is None


def test_the_later_of_two_observations_of_a_file_counts() -> None:
    """An id can be put only once in a transaction."""
    both = [observed(file=File.read(SOURCE, data=data)) for data in (b"one", b"two")]

    made = plan(both, stored={}, moment=MOMENT)

    assert [outcome.file and outcome.file.content for outcome in made.outcomes] == ["two"]
