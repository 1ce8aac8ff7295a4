"""Long lists and texts as shared pieces: complete, sent once, with few references."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.errors import Corrupt, NewerFormat
from ctxmgr.stores.edn.reader import loads
from ctxmgr.stores.xtdb.layout import Entity, Stored, entity_of, stored_from
from ctxmgr.stores.xtdb.pieces import (
    FAN_OUT,
    LEAF_ITEMS,
    LIST_CUT,
    LIST_INLINE_BYTES_MAX,
    NEWEST_ITEMS,
    TEXT_INLINE_BYTES_MAX,
    cut_grown,
    cut_list,
)

HASH = "0123456789abcdef" * 4

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
items = st.recursive(
    scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def _laid_out(**fields: Any) -> Entity:
    return entity_of({"xt/id": "a", "type": "note", **fields}, token="t")


def _read_back(entity: Entity) -> dict[str, Any]:
    texts = {name: text for pieces in entity.pieces for name, text in pieces.items()}
    pieces = {name: stored_from(loads(text)).fields for name, text in texts.items()}
    return stored_from(loads(entity.text)).document(pieces)


@given(st.lists(items, max_size=30), st.integers(1, 60))
def test_a_list_of_any_length_is_read_back_unchanged(values: list[Any], times: int) -> None:
    """The division into pieces must not be visible (003-R028, 003-A17)."""
    document = {"xt/id": "a", "type": "note", "values": values * times}

    assert _read_back(entity_of(document, token="t")) == document


@given(st.text(), st.integers(0, 400_000))
def test_a_text_of_any_length_is_read_back_unchanged(text: str, padding: int) -> None:
    """Readers get a large file as one string (003-R031)."""
    content = text + "ä" * padding + text

    assert _read_back(_laid_out(content=content))["content"] == content


@given(st.integers(1, 3_000), st.integers(1, 200))
def test_a_growing_list_keeps_its_pieces(length: int, more: int) -> None:
    """A chat of a thousand turns sends each turn once as a piece, not at every turn (003-R078)."""
    shorter = set(cut_list([f"{HASH}{number}" for number in range(length)]).pieces)

    longer = set(cut_list([f"{HASH}{number}" for number in range(length + more)]).pieces)

    assert shorter <= longer


@given(st.lists(st.lists(items, max_size=30), max_size=8), st.integers(1, 2_000))
def test_a_list_that_is_cut_step_by_step_has_the_pieces_of_the_whole(
    steps: list[list[Any]], chars: int
) -> None:
    """003-R028: another client, which reads the list at once, must find the same pieces."""
    grown: AppendOnly[Any] = AppendOnly()
    for step in steps:
        grown = grown.add([[item, "x" * chars] for item in step])
        cut = cut_grown(grown)

        whole = cut_list(grown[:])
        assert (cut.inline, cut.roots, cut.spilled_bytes) == (
            whole.inline,
            whole.roots,
            whole.spilled_bytes,
        )
        assert dict(cut.pieces) == dict(whole.pieces)


def test_a_step_of_a_long_list_reads_only_its_new_items() -> None:
    """003-R078: a turn costs what is new, however long the chat is."""

    def texts(first: int, count: int) -> list[str]:
        return [f"{HASH}{number}" for number in range(first, first + count)]

    grown = AppendOnly(texts(0, 5_000))
    before = set(cut_grown(grown).pieces)
    grown = grown.add(texts(5_000, 40))

    new = LIST_CUT.of(grown).new_pieces

    assert len(new) <= 3
    assert before | set(new) == set(cut_list(grown[:]).pieces)


def test_the_order_of_keys_does_not_make_another_piece() -> None:
    """What was read back and put again is known to be stored already (003-R059)."""
    turns = [{"user": "x" * 500, "assistant": [{"b": 1, "a": 2}]} for _ in range(100)]
    turned = [{"assistant": [{"a": 2, "b": 1}], "user": "x" * 500} for _ in range(100)]

    assert cut_list(turns).pieces == cut_list(turned).pieces


def test_short_lists_and_texts_stay_where_plain_queries_find_them() -> None:
    """Plain queries see most documents complete (003-R028)."""
    fits = LIST_INLINE_BYTES_MAX // (len(HASH) + 3)

    entity = _laid_out(ids=[HASH] * fits, content="x" * TEXT_INLINE_BYTES_MAX)

    assert entity.pieces == ()


def test_the_newest_items_are_always_in_the_document() -> None:
    """A query for what happened last needs no rule (003-R089)."""
    entity = loads(_laid_out(ids=[f"{HASH}{number}" for number in range(5_000)]).text)

    kept = stored_from(entity).fields["ids"]
    assert NEWEST_ITEMS <= len(kept) < NEWEST_ITEMS + LEAF_ITEMS
    assert kept[-1] == f"{HASH}4999"


def test_a_hundred_thousand_ids_need_few_references() -> None:
    """If references grew with the list, so would every commit (003-R089)."""
    cut = cut_list([f"{HASH}{number}" for number in range(100_000)])

    assert len(cut.roots) <= 3 * FAN_OUT
    assert len(cut.inline) < LIST_INLINE_BYTES_MAX


def test_a_long_text_is_not_partly_in_the_document() -> None:
    """Part of a text must never be mistaken for all of it (003-R031)."""
    entity = loads(_laid_out(content="x" * (TEXT_INLINE_BYTES_MAX + 1)).text)

    assert "content" not in stored_from(entity).fields


def test_a_missing_piece_is_corrupt() -> None:
    """A list with a gap would be a different list (003-R010)."""
    entity = _laid_out(ids=[f"{HASH}{number}" for number in range(1_000)])
    (pieces,) = entity.pieces
    entity = replace(entity, pieces=(dict(list(pieces.items())[1:]),))

    with pytest.raises(Corrupt, match="piece"):
        _read_back(entity)


def test_a_document_of_a_newer_format_is_not_guessed_at() -> None:
    """An old client must not misread what a newer one wrote (003-R007)."""
    stored = Stored({"xt/id": "a", "type": "note", "ctxmgr/tx": "t", "ctxmgr/format": 2})

    with pytest.raises(NewerFormat, match="upgrade"):
        stored.document({})
