"""Documents are read back unchanged, whatever they share with earlier versions."""

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
items = st.sampled_from([f"id-{n}" for n in range(40)] + [{"text": LONG[:n]} for n in (3, 300)])
edits = st.lists(
    st.tuples(st.sampled_from(["append", "cut", "change", "swap", "new"]), st.lists(items)),
    min_size=1,
    max_size=6,
)


@given(values)
def test_every_value_is_decoded_unchanged(value):
    """Integers beyond 64 bits stay whole, and 1.0 stays a float."""
    back = loads(dumps(value))

    assert repr(back) == repr(value)


@given(st.lists(st.tuples(st.text("abc", min_size=1), st.binary(max_size=300)), max_size=5))
def test_a_packed_body_is_unpacked_unchanged(fields):
    """Cells of every size keep their positions."""
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


async def test_a_file_of_some_kb_shares_fields_with_the_previous_version():
    """Only the changed fields are stored again."""
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
def test_a_damaged_body_raises(body):
    """A partial document is never returned."""
    with pytest.raises((ValueError, IndexError)):
        decode_packed(body)


@settings(max_examples=25, deadline=None)
@given(edits)
async def test_lists_are_read_back_after_any_edit(changes):
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


async def test_another_process_can_extend_a_shared_list(tmp_path: Path):
    """003-R006: two writers that append to one list each read back their own state."""
    turns = [{"text": f"{n} {LONG[:500]}"} for n in range(12)]
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


async def test_an_integer_beyond_64_bits_in_a_long_list_is_kept():
    """Tool arguments may contain them; orjson alone would return a float."""
    turns = [{"text": LONG[:900], "n": 2**80 + n} for n in range(4)]
    async with await SqliteStore.open("sqlite://:memory:") as store:
        await store.commit([Put(_chat(turns[:3]))])
        await store.commit([Put(_chat(turns))])

        version = await store.get("chat")

    assert version is not None
    assert version.document == _chat(turns)


async def test_a_list_changed_in_place_is_stored_in_its_new_state():
    """A harness may change its list and put it again; no change may be missed."""
    turns = [{"text": f"{n} {LONG[:500]}"} for n in range(5)]
    async with await SqliteStore.open("sqlite://:memory:") as store:
        await store.commit([Put(_chat(turns))])
        turns[2]["text"] = "changed"
        turns.append({"text": "new"})
        await store.commit([Put(_chat(turns))])

        version = await store.get("chat")

    assert version is not None
    assert version.document["turns"] == turns


async def test_an_unchanged_large_text_is_stored_once(tmp_path: Path):
    """The cost of a version depends on its changes, not its size."""
    path = tmp_path / "s.db"
    text = LONG * 40
    async with await SqliteStore.open(path) as store:
        for number in range(20):
            document = {"xt/id": f"f{number % 2}", "type": "paper", "content": text, "n": number}
            await store.commit([Put(document)])

    assert path.stat().st_size < 3 * len(text)


async def test_a_growing_list_costs_only_what_was_added(tmp_path: Path):
    """003-R078: each turn writes a new version of the chat; the file grows only by that turn."""
    path = tmp_path / "s.db"
    turns = [{"text": f"{n} {LONG[:2_000]}"} for n in range(200)]
    async with await SqliteStore.open(path, durability="normal") as store:
        for length in range(1, len(turns) + 1):
            await store.commit([Put(_chat(turns[:length]))])

    assert path.stat().st_size < 2 * 2_000 * len(turns)


async def test_a_missing_piece_is_corrupt(tmp_path: Path):
    """An incomplete document is never returned."""
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
