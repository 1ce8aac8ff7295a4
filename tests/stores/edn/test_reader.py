"""The EDN reader, compared with edn-format, on damaged input and on input in chunks."""

import contextlib
import datetime as dt
import json
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import edn_format
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxmgr.stores.edn.reader import ListReader, loads
from ctxmgr.stores.edn.values import (
    Char,
    EdnError,
    EdnTruncated,
    Inst,
    Keyword,
    Symbol,
    Tagged,
    dumps,
)
from tests.components import SHARED, need

SAMPLE = (
    '(["a\\"\\\\" {:xt/id "a", :n [1 -2.5e3 12345678901234567890N 1.5M 1/2 nil true], '
    '"é😀" #{\\a \\newline x/y}, :m #:ns{:k 1, :_/j 2}, :q "\\u00e9\\101"} '
    '#inst "2026-11-16T00:07:55.188-00:00"] ; note "\n #_ (dropped) #xtdb/id "ab" [##NaN ##-Inf] )'
)
GAPS = st.sampled_from([" ", ", ", "\n", ' ; a comment "\n', " #_ gone ", ' #_ "gone" '])
NUMBERS = st.sampled_from(["0", "-0", "+7", "12N", "1.5M", "-1/3", "1e5", "2.0E-3", "0.1", "0x1F"])
NAMED = st.sampled_from(["nil", "true", "false", "##Inf", "##-Inf", "foo", "?e", "a.b/c!", "->"])
CHARS = st.sampled_from(["\\a", "\\newline", "\\u0041", "\\(", '\\"', "\\;", "\\space", "\\tab"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(dumps)
KEYWORDS = st.sampled_from([":a", ":b/c", ":x.y/z-1", ":k?", ":é"])
DATES = st.sampled_from(['#inst "2026-11-16T00:07:55.188-00:00"', '#inst "1999-12-31T23:59:59Z"'])


@st.composite
def collections(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(inner, max_size=5))
    shape = draw(st.sampled_from(["[]", "()", "{}", "#{}", "#:ns{}"]))
    if shape.endswith("{}") and shape != "#{}":
        keys = draw(st.lists(KEYWORDS | TEXTS, min_size=5, max_size=5, unique=True))
        items = [f"{key} {item}" for key, item in zip(keys, items, strict=False)]
    if shape == "#{}":
        items = list(dict.fromkeys(draw(st.lists(KEYWORDS | TEXTS, max_size=5))))
    return shape[:-1] + draw(GAPS).join(items) + shape[-1]


FORMS = st.recursive(NUMBERS | NAMED | CHARS | TEXTS | KEYWORDS | DATES, collections, max_leaves=25)


@given(FORMS)
def test_the_reader_agrees_with_edn_format(text: str) -> None:
    """edn-format is the reference; ours is only faster."""
    expected = converted(edn_format.loads(text))

    assert loads(text) == expected
    assert loads(text.encode()) == expected


@given(st.text() | st.binary() | st.text('()[]{}#_:"\\;^ \n,an1./-+NMu', max_size=40))
@example('"')
@example("#")
@example("1/0")
@example("1E9999999999999999999M")
@example('"\\ud800"')
@example("#inst 5")
@example("{[1] 2 {3 4} #{[]}}")
@example("{[1] 2 3}")
def test_any_text_is_parsed_or_raises_the_readers_error(text: str | bytes) -> None:
    """A reply may be anything, and the client translates only this error."""
    with contextlib.suppress(EdnError):
        loads(text)


@given(st.data())
def test_a_damaged_text_is_parsed_or_raises_the_readers_error(data: st.DataObject) -> None:
    """Damaged text that resembles EDN is the hardest to refuse cleanly."""
    text = data.draw(FORMS)
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 3))
    damaged = text[:at] + data.draw(st.text('()[]{}#_:"\\;^ a1', max_size=3)) + text[at + gone :]

    for read in (loads, lambda text: fed(text.encode(), size=7)):
        with contextlib.suppress(EdnError):
            read(damaged)


def test_a_truncated_text_is_detected() -> None:
    """A 200 reply that ends early is the server's error, never a shorter result (003-R017)."""
    data = SAMPLE.encode()

    for end in range(len(data)):
        with pytest.raises(EdnTruncated):
            loads(data[:end])


@given(FORMS)
def test_a_truncated_collection_is_detected(text: str) -> None:
    """The same for every kind of collection."""
    text = f"[{text}]"

    for end in range(len(text)):
        with pytest.raises(EdnTruncated):
            loads(text[:end])


@pytest.mark.parametrize(
    "text",
    [
        "1 2",
        "[1]]",
        "[1)",
        "{:a}",
        "{:a 1 :a 2}",
        "#{1 1}",
        "007",
        "1a",
        '"\\x"',
        ":",
        "[: 1]",
        "::a",
        '#inst "x"',
        "^a b",
        "[#foo]",
        "[#_]",
        '"\\ud800"',
        b"\xff",
        "{1 2 1.0 3}",
        "[1 . 2a]",
    ],
)
def test_invalid_text_is_refused(text: str | bytes) -> None:
    """A misread reply would be stored again as valid data."""
    with pytest.raises(EdnError):
        loads(text)


@pytest.mark.parametrize(
    "text", ["", " ,\n", "; only", "#", '"a', "#foo", "#_", "(", "#_ 1", b'"\xc3']
)
def test_a_text_without_a_form_counts_as_truncated(text: str | bytes) -> None:
    """An empty body is a truncated one."""
    with pytest.raises(EdnTruncated):
        loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '#:a{:b 1, :_/c 2, :d/e 3, "f" 4}',
            {Keyword("a/b"): 1, Keyword("c"): 2, Keyword("d/e"): 3, "f": 4},
        ),
        ('#foo #uuid "x"', Tagged("foo", Tagged("uuid", "x"))),
        ("[#_ #_ 1 2 3 #_4]", [3]),
        ("#tag #_ 1 2", Tagged("tag", 2)),
        ("#{[1 {:a [2]}]}", frozenset({(1, edn_format.ImmutableDict({Keyword("a"): (2,)}))})),
        ("{[1] 2}", {(1,): 2}),
        ('"\\101\\u00e9\\ud83d\\ude00\\/\x00"', "Aé😀/\x00"),
        ("\\formfeed", Char("\f")),
        ("x'", Symbol("x'")),
        ("1.23456789012345678901234567890123M", Decimal("1.23456789012345678901234567890123")),
        ('#inst "2026"', Inst(1_767_225_600_000)),
        ('#inst "2026-11-16T01:07:55.1889+01:00"', Inst(1_794_787_675_188)),
        ('#inst "12026-01-01T00:00:00Z"', Tagged("inst", "12026-01-01T00:00:00Z")),
    ],
)
def test_uncommon_forms_are_parsed(text: str, value: object) -> None:
    """Other programs write to the same database, and the server prints what they wrote."""
    assert loads(text) == value


@given(st.lists(FORMS, max_size=4), st.integers(1, 9), st.sampled_from(["()", "[]"]))
def test_a_list_in_chunks_is_parsed_as_it_is_whole(
    forms: list[str], size: int, brackets: str
) -> None:
    """Histories and logs are parsed as they arrive, and the network may split them anywhere."""
    text = " ".join(forms).join(brackets)

    assert fed(text.encode(), size=size) == list(loads(text))


@pytest.mark.parametrize("size", range(1, len(SAMPLE.encode()) + 1))
def test_chunks_of_any_size_give_the_same_result(size: int) -> None:
    """Chunks may end inside characters, escapes, tags and comments."""
    assert repr(fed(SAMPLE.encode(), size=size)) == repr(list(loads(SAMPLE)))


def test_elements_are_returned_as_soon_as_they_are_complete() -> None:
    """The client takes the first few elements of an endless log and closes (003-R017)."""
    reader = ListReader()

    assert reader.feed(b'({:a "x') == []
    assert reader.feed(b'"} #inst "2026-11-16" [1') == [
        {Keyword("a"): "x"},
        Inst(1_794_787_200_000),
    ]
    assert reader.feed(b"]") == [[1]]
    with pytest.raises(EdnTruncated):
        reader.finish()


@pytest.mark.parametrize("text", [b"(1) 2", b"{:a 1}", b"12", b"(1]", b"\xff", b"#{1}", b"#a (1)"])
def test_chunks_of_anything_but_one_list_are_refused(text: bytes) -> None:
    """An error map in place of a list must not look like an empty log."""
    with pytest.raises(EdnError):
        fed(text, size=1)


@pytest.mark.parametrize("end", range(len(SAMPLE.encode())))
def test_a_truncated_list_in_chunks_is_detected(end: int) -> None:
    """The last pages of a log must not vanish with a lost connection."""
    with pytest.raises(EdnTruncated):
        fed(SAMPLE.encode()[:end], size=16)


def test_output_of_the_official_server_is_parsed_the_same() -> None:
    """The reader exists for the output of this server."""
    need("shared-data")
    recording = SHARED / "data" / "xtdb-http" / "official-1.24.3.jsonl"
    exchanges = map(json.loads, recording.read_text(encoding="utf-8").splitlines())
    bodies = {body for exchange in exchanges if (body := edn_body(exchange["response"]))}

    compared = sum(agrees(body) for body in bodies)

    assert compared > 100


def edn_body(response: dict[str, Any]) -> str | None:
    printed = response.get("headers", {}).get("content-type", "").startswith("application/edn")
    return response.get("body") if printed and response.get("complete") else None


def agrees(body: str) -> bool:
    try:
        with localcontext(prec=200):  # edn-format rounds to the context's precision
            expected = converted(edn_format.loads(body))
    except (ValueError, NotImplementedError, TypeError, AttributeError):
        return False
    assert repr(loads(body)) == repr(expected) or loads(body) == expected
    return True


def fed(data: bytes, *, size: int) -> list[Any]:
    reader = ListReader()
    items = [item for at in range(0, len(data), size) for item in reader.feed(data[at : at + size])]
    reader.finish()
    return items


def converted(value: Any, *, frozen: bool = False) -> Any:
    """Turn edn-format's values into ours."""
    match value:
        case edn_format.Keyword():
            return Keyword(value.name)
        case edn_format.Symbol():
            return Symbol(value.name)
        case edn_format.Char():
            return Char(str(value))
        case dt.datetime():
            return Inst(math.floor(value.timestamp() * 1000 + 0.5))
        case uuid.UUID():
            return Tagged("uuid", str(value))
        case edn_format.ImmutableList() | tuple():
            kind = tuple if frozen or isinstance(value, tuple) else list
            return kind(converted(item, frozen=frozen) for item in value)
        case Mapping():
            pairs = {
                converted(k, frozen=True): converted(v, frozen=frozen) for k, v in value.items()
            }
            return edn_format.ImmutableDict(pairs) if frozen else pairs
        case frozenset():
            return frozenset(converted(item, frozen=True) for item in value)
    assert value is None or isinstance(value, bool | int | float | str | Decimal | Fraction)
    return value


def test_thousands_of_ratios_and_symbols_do_not_need_the_slow_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes milliseconds per token: a reply full of them kept a client busy for minutes."""

    def slow(*_arguments: object, **_options: object) -> None:
        pytest.fail("read by edn-format")

    monkeypatch.setattr(edn_format, "loads_all", slow)
    ratios = " ".join(f"1/{n}" for n in range(2, 10_000))
    names = " ".join(f"name-{n}" for n in range(2, 10_000))

    values = loads(f"[-{ratios} {names}]")

    assert values[0] == Fraction(-1, 2)
    assert values[9_997] == Fraction(1, 9_999)
    assert values[-1] == Symbol("name-9999")
