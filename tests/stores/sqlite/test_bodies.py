"""Documents come back as they went in, whatever they share with the versions before."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.core.store.contract import AsOf, Put
from ctxmgr.errors import Corrupt
from ctxmgr.stores.sqlite.body_format import (
    cell_numbers,
    decode_packed,
    dumps,
    encode_delta,
    encode_whole,
    inline_cell,
    loads,
    reference_cell,
)
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.sqlite.submission import encode_document

LONG = "x" * 9_000
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=10,
)  # fmt: skip
items = st.sampled_from([f"id-{n}" for n in range(40)] + [{"said": LONG[:n]} for n in (3, 300)])
edits = st.lists(
    st.tuples(st.sampled_from(["append", "cut", "change", "swap", "new"]), st.lists(items)),
    min_size=1,
    max_size=6,
)


@given(values)
def test_every_value_is_decoded_to_what_was_encoded(value):
    """Integers beyond 64 bits stay whole, and 1.0 stays a float."""
    back = loads(dumps(value))

    assert repr(back) == repr(value)


@given(st.lists(st.tuples(st.text("abc", min_size=1), st.binary(max_size=300)), max_size=5))
def test_a_packed_body_is_taken_apart_as_it_was_put_together(fields):
    """Cells of every size stand where they were put."""
    cells = [(name, inline_cell(raw)) for name, raw in fields]
    cells.append(("refers", reference_cell(b"L", [300, 2**40])))

    whole = decode_packed(encode_whole(cells, exact=True))
    delta = decode_packed(encode_delta(77, [(3, cells[-1][1])], exact=False))

    assert (whole.exact, whole.base, whole.cells) == (True, None, cells)
    assert (delta.exact, delta.base, delta.cells) == (False, 77, [(3, cells[-1][1])])
    assert cell_numbers(cells[-1][1]) == [300, 2**40]


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        values | st.sampled_from([LONG, LONG[:8_189] + '"', LONG[:900], [LONG[:300]] * 3]),
    )
)
def test_a_document_is_encoded_whole_or_field_by_field(fields):
    """Encoding it whole takes a third of the time; both decode to the same document."""
    document = {"xt/id": "d", "type": "note", **fields}

    encoded = encode_document(document)

    assert repr(encoded.decode()) == repr(document)
    assert repr(encoded.split().decode()) == repr(document)


async def test_a_file_of_some_kb_shares_fields_with_the_version_before():
    """It was stored whole, and only what changed is stored again."""
    first = {"xt/id": "d", "type": "note", "content": LONG[:3_000], "rank": 1}
    async with await SqliteStore.open("sqlite://:memory:") as store:
        for rank in (1, 2, 3):
            await store.commit([Put({**first, "rank": rank})])

        page = await store.history("d", corrections=True)

    assert encode_document(first).json is not None
    assert [entry.document for entry in page.entries] == [{**first, "rank": n} for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "body", [b"\x01", b"\x01\x00\x05", b"\x01\x00\x01\x01aZ", b"\x01\x00\x00!"]
)
def test_a_damaged_body_is_no_document(body):
    """It raises; it never gives back a part."""
    with pytest.raises((ValueError, IndexError)):
        decode_packed(body)


@settings(max_examples=25, deadline=None)
@given(edits)
async def test_lists_come_back_however_they_were_edited(changes):
    """003-R005: every version keeps its own state of a list that was grown, cut or reordered."""
    async with await SqliteStore.open("sqlite://:memory:") as store:
        states = []
        current = [f"id-{n}" for n in range(30)]
        for change, given_items in changes:
            current = _edited(current, change, given_items)
            states.append(list(current))
            await store.commit([Put(_chat(current))])

        page = await store.history("chat", corrections=True)
        verified = await store.verify()

    assert [entry.document for entry in page.entries] == [_chat(state) for state in states]
    assert verified.faults == ()


async def test_another_process_continues_a_list_that_both_know(tmp_path: Path):
    """003-R006: two writers that append to one list each find their own state again."""
    turns = [{"said": f"{n} {LONG[:500]}"} for n in range(12)]
    one = await SqliteStore.open(tmp_path / "s.db")
    two = await SqliteStore.open(tmp_path / "s.db")
    async with one, two:
        await one.commit([Put(_chat(turns[:5]))])
        await one.commit([Put(_chat(turns[:6]))])
        await two.commit([Put(_chat([*turns[:6], turns[7]]))])
        await one.commit([Put(_chat(turns[:7]))])
        await two.commit([Put(_chat([*turns[:6], *turns[7:9]]))])

        seen = [await two.get("chat", as_of=AsOf(sequence=n)) for n in range(1, 6)]

    assert [version and version.document for version in seen] == [
        _chat(turns[:5]),
        _chat(turns[:6]),
        _chat([*turns[:6], turns[7]]),
        _chat(turns[:7]),
        _chat([*turns[:6], *turns[7:9]]),
    ]


async def test_an_integer_beyond_64_bits_survives_in_a_long_list():
    """Tool arguments carry them; orjson alone would give back a float."""
    turns = [{"said": LONG[:900], "n": 2**80 + n} for n in range(4)]
    async with await SqliteStore.open("sqlite://:memory:") as store:
        await store.commit([Put(_chat(turns[:3]))])
        await store.commit([Put(_chat(turns))])

        version = await store.get("chat")

    assert version is not None
    assert version.document == _chat(turns)


async def test_a_list_that_the_caller_changed_in_place_is_stored_as_it_is_now():
    """A harness may append to its own list and put it again; nothing may be taken for unchanged."""
    turns = [{"said": f"{n} {LONG[:500]}"} for n in range(5)]
    async with await SqliteStore.open("sqlite://:memory:") as store:
        await store.commit([Put(_chat(turns))])
        turns[2]["said"] = "changed"
        turns.append({"said": "new"})
        await store.commit([Put(_chat(turns))])

        version = await store.get("chat")

    assert version is not None
    assert version.document["turns"] == turns


async def test_an_unchanged_large_text_is_stored_once(tmp_path: Path):
    """A version costs what it changed, not what is there."""
    path = tmp_path / "s.db"
    text = LONG * 40
    async with await SqliteStore.open(path) as store:
        for number in range(20):
            document = {"xt/id": f"f{number % 2}", "type": "paper", "content": text, "n": number}
            await store.commit([Put(document)])

    assert path.stat().st_size < 3 * len(text)


async def test_a_list_that_grows_costs_what_was_added(tmp_path: Path):
    """003-R078: each turn writes a new version of the chat; the file grows by the turn alone."""
    path = tmp_path / "s.db"
    turns = [{"said": f"{n} {LONG[:2_000]}"} for n in range(200)]
    async with await SqliteStore.open(path, durability="normal") as store:
        for length in range(1, len(turns) + 1):
            await store.commit([Put(_chat(turns[:length]))])

    assert path.stat().st_size < 2 * 2_000 * len(turns)


async def test_a_piece_that_is_missing_is_corrupt_and_not_half_a_document(tmp_path: Path):
    """Stored data that fails its own check is never hidden."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put({"xt/id": "f", "type": "paper", "content": LONG})])
        store._writer._connection.execute("DELETE FROM piece")

        with pytest.raises(Corrupt, match=r"piece 1 is missing.*restore a backup"):
            await store.get("f")


def _chat(turns):
    return {"xt/id": "chat", "type": "talk", "note": "n" * 1_100, "turns": list(turns)}


def _edited(current, change, given_items):
    match change:
        case "append":
            return current + given_items
        case "cut":
            return current[: len(current) // 2]
        case "change":
            at = len(current) * 3 // 4
            return current[:at] + given_items + current[at + 1 :]
        case "swap":
            return current[::-1]
        case _:
            return given_items * 5
