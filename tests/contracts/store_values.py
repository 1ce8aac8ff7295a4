"""The contract of stored values: they are read back equal, with their types, at any size."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import AsOf, Put, Store
from ctxmgr.core.store.documents import DEPTH_MAX
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import Namespace, put

SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**60), max_value=10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=25,
)
FIELDS: Final = st.dictionaries(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(
        lambda name: name not in ("type", "title", "rank", "done")
    ),
    VALUES,
    max_size=8,
)
few = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
        HealthCheck.too_slow,
    ],
)

CHOSEN: Final[dict[str, Any]] = {
    "zero": 0,
    "float-zero": 0.0,
    "one": 1,
    "float-one": 1.0,
    "true": True,
    "false": False,
    "null": None,
    "int64-max": 2**63 - 1,
    "int64-min": -(2**63),
    "beyond-int64": 2**63,
    "uint64-max": 2**64 - 1,
    "beyond-uint64": 2**64,
    "below-int64": -(2**63) - 1,
    "googol": 10**100,
    "beyond-double": 2**53 + 1,
    "float-huge": 1.7976931348623157e308,
    "float-tiny": 5e-324,
    "float-third": 1 / 3,
    "float-big-whole": 1e21,
    "empty-text": "",
    "empty-list": [],
    "empty-map": {},
    "empty-inside": [[], {}, "", [[]], {"": {}}],
    "nul": "a\x00b",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "quotes": "\"\\'`;--:#{}[]()<>&%\\u0041\\n",
    "line-separators": "\r\n\u2028\u2029\x85",
    "non-bmp": "😀\U0001d538\U0010ffff",
    "not-characters": "\ufffe\uffff\ufeff",
    "combining": "e\u0301 é \u202e rtl",
    "map-keys": {"": 1, "a b": 2, "xt/id": 3, ":k": 4, "\x00": 5, "😀": 6, "1": 7, "nil": None},
    "looks-like-edn": ['#inst "2020-01-01"', ":kw", "nil", "\\newline", "##NaN", "1N", "1.0M"],
    "mixed-numbers": [1, 1.0, True, 0, 0.0, False, -1, -1.0, 10**30, 1e30],
    "equal-items": ["x"] * 50 + [None] * 3 + [{}] * 3,
}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same type: 1, 1.0 and True all differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


async def _read(store: Store, namespace: Namespace, as_of: AsOf | None = None) -> Any:
    version = await store.get(namespace.id(), as_of=as_of or AsOf())
    assert version is not None
    return version.document


class ValuesContract:
    @pytest.mark.parametrize("value", CHOSEN.values(), ids=CHOSEN.keys())
    async def test_a_value_is_read_back_unchanged(
        self, store: Store, namespace: Namespace, value: Any
    ) -> None:
        """Hashes are recomputed from what was read, so no value may change (003-R028, 003-A15)."""
        document = namespace.note(value=value, nested={"in": [value, {"deep": value}]})

        await put(store, document)

        assert same(await _read(store, namespace), document)

    async def test_negative_zero_is_read_back_as_a_zero(
        self, store: Store, namespace: Namespace
    ) -> None:
        """With or without its sign: both are equal and have the same hash (003-R028, 003-A15)."""
        await put(store, namespace.note(score=-0.0))

        found = await store.get(namespace.id())

        assert found is not None
        assert found.document["score"] == 0
        assert canonical(found.document) == canonical(namespace.note(score=0.0))

    @few
    @given(several=st.lists(FIELDS, min_size=1, max_size=5))
    async def test_any_valid_document_is_read_back_equal(
        self, store: Store, namespace: Namespace, several: list[dict[str, Any]]
    ) -> None:
        """Layers may store any valid document without checking what is safe (003-R028)."""
        documents = [namespace.note(str(number), **value) for number, value in enumerate(several)]

        await store.commit([Put(document) for document in documents])

        found = await store.get_many([document["xt/id"] for document in documents])
        read = [version.document for version in found.values()]
        assert same(read, documents)
        entries = (await store.history(documents[0]["xt/id"], newest_first=True)).entries
        assert same(entries[0].document, documents[0])

    @pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"k": value}])
    async def test_nesting_is_supported_up_to_the_documented_depth(
        self, store: Store, namespace: Namespace, wrap: Callable[[Any], Any]
    ) -> None:
        """Tool arguments are nested by models and harnesses, not by this package (003-R028)."""
        value: Any = "bottom"
        for _ in range(DEPTH_MAX):
            value = wrap(value)

        await put(store, namespace.note(value=value))

        assert same((await _read(store, namespace))["value"], value)

    @pytest.mark.parametrize(
        "text",
        ["x" * 1_000_000, "ä😀\n" * 200_000, "\x00" * 300_000],
        ids=["ascii", "wide", "nul"],
    )
    async def test_a_megabyte_of_text_is_read_back_complete(
        self, store: Store, namespace: Namespace, text: str
    ) -> None:
        """A large file is content like any other (003-R005)."""
        first = await put(store, namespace.note(content=text, other=1))
        await put(store, namespace.note(content=text, other=2))
        await put(store, namespace.note(content=text[:-1] + "!"))

        then = await _read(store, namespace, AsOf(sequence=first.sequence))
        now = await _read(store, namespace)

        assert then == namespace.note(content=text, other=1)
        assert now["content"] == text[:-1] + "!"

    @pytest.mark.parametrize(
        "length", [255, 256, 257, 4_096, 8_189, 8_190, 8_192, 65_536, 262_143, 262_144, 262_145]
    )
    async def test_text_of_any_length_is_read_back_unchanged(
        self, store: Store, namespace: Namespace, length: int
    ) -> None:
        """A change of storage layout at some length must not be noticeable (003-R028)."""
        document = namespace.note(content="é" * length, ascii="e" * length)

        await put(store, document)

        assert same(await _read(store, namespace), document)

    async def test_every_version_of_a_changing_long_list_is_kept(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A chat is extended, truncated, edited in the middle and reordered.

        Every state remains (003-R005).
        """
        full: list[Any] = [f"turn {number} 😀" for number in range(5_000)]
        lists = [
            full[:4_000],
            full[:4_001],
            full,
            full[:2_500],
            [*full[:1_000], "edited", *full[1_001:]],
            full[::-1],
            full[1:],
            ["before", *full],
            [*full[:2_500], {"n": 1}, None, 1.0, True, *full[2_500:]],
            full + full,
            [],
            full[:1],
        ]
        commits = [await put(store, namespace.note(turns=values)) for values in lists]

        for commit, expected in zip(commits, lists, strict=True):
            read = await _read(store, namespace, AsOf(sequence=commit.sequence))
            assert same(read["turns"], expected)
        entries = (await store.history(namespace.id(), corrections=True)).entries
        assert [entry.document["turns"] for entry in entries if entry.document] == lists

    async def test_every_version_of_a_growing_list_of_maps_is_complete(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A chat is saved after every turn, and every turn can be read (003-R112, 003-R005)."""
        turns: list[dict[str, Any]] = []
        sequences: list[int] = []
        for number in range(120):
            turns.append({"user": f"question {number}", "assistant": "answer " * 40, "n": number})
            sequences.append((await put(store, namespace.note(turns=turns))).sequence)

        for number in (0, 1, 31, 32, 33, 63, 64, 100, 119):
            read = await _read(store, namespace, AsOf(sequence=sequences[number]))
            assert read["turns"] == turns[: number + 1]

    async def test_a_list_that_is_passed_as_growing_is_stored_like_any_other(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The shortcut for long chats must not change what is stored (003-R078, 003-R005)."""
        turns = AppendOnly({"n": number, "said": "answer " * 40} for number in range(120))
        versions = [turns]
        for number in range(120, 160, 8):
            versions.append(versions[-1].add([{"n": number, "said": None}] * 8))
        versions += [versions[2].add(["branch"]), turns, versions[-1]]
        commits = []

        for items in versions:
            document = namespace.note(turns=list(items), title="t")
            commits.append(await store.commit([Put(document, grown={"turns": items})]))

        for commit, items in zip(commits, versions, strict=True):
            read = await _read(store, namespace, AsOf(sequence=commit.sequence))
            assert same(read["turns"], list(items))

    async def test_a_retry_may_pass_a_list_in_another_way(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A client that has restarted knows no growing lists, and retries the same (003-R112)."""
        items = AppendOnly({"n": number} for number in range(500))
        document = namespace.note(turns=list(items))
        for first, again in [({"turns": items}, None), (None, {"turns": items})]:
            key = namespace.id(f"key-{first is None}")
            await store.commit([Put(document, grown=first)], key=key)

            assert (await store.commit([Put(document, grown=again)], key=key)).repeated
            other = items.add([1])
            changed = Put({**document, "turns": list(other)}, grown={"turns": other})
            with pytest.raises(Incorrect, match="key"):
                await store.commit([changed], key=key)

    @pytest.mark.parametrize("value", [["a"], None, 1])
    async def test_a_growing_list_is_the_field_of_its_document(
        self, store: Store, namespace: Namespace, value: object
    ) -> None:
        """Two contents for one field are a mistake, whichever would be stored (003-R012)."""
        put_two = Put(namespace.note(turns=value), grown={"turns": AppendOnly(["a", "b"])})

        with pytest.raises(Incorrect, match="turns"):
            await store.commit([put_two])

    @pytest.mark.parametrize("item", [{1, 2}, "\ud800", float("nan"), {1: 2}])
    async def test_an_invalid_item_of_a_growing_list_is_refused(
        self, store: Store, namespace: Namespace, item: object
    ) -> None:
        """What was valid before does not vouch for what is new (003-R012)."""
        items = AppendOnly([{"n": number} for number in range(100)])
        await store.commit([Put(namespace.note(turns=list(items)), grown={"turns": items})])
        longer = items.add([item])

        for _ in range(2):
            with pytest.raises(Incorrect):
                await store.commit(
                    [Put(namespace.note(turns=list(longer)), grown={"turns": longer})]
                )

    async def test_one_document_may_hold_several_long_lists_and_texts(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A session holds four growing lists (003-A17, 003-R114)."""
        index = [f"file-{number}" for number in range(3_000)]
        document = namespace.note(
            session_index=index, metadata_pool=index[::2], active_set=[], content="x" * 300_000
        )
        await put(store, document)

        changed = {**document, "session_index": [*index, "new"], "active_set": index[:1]}
        await put(store, changed)

        assert same(await _read(store, namespace), changed)

    async def test_versions_may_have_different_fields(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A version is exactly the document that was put.

        Nothing is merged with earlier versions (003-R010).
        """
        await put(store, namespace.note(a=1, b=[1] * 2_000, c="x" * 300_000))

        await put(store, namespace.note(b=None))

        assert same(await _read(store, namespace), namespace.note(b=None))

    @pytest.mark.parametrize(
        "object_id",
        ["ä", "😀", "a b", 'quo"te', "back\\slash", "nul\x00", "new\nline", "%2F?&#=+", ":kw", "1",
         "nil", "../x", "x" * 900],
    )  # fmt: skip
    async def test_any_text_can_be_an_id(
        self, store: Store, namespace: Namespace, object_id: str
    ) -> None:
        """Ids come from paths and from providers (003-R011)."""
        document = namespace.note(object_id, title="here")

        await put(store, document)

        version = await store.get(document["xt/id"])
        assert version is not None
        assert same(version.document, document)
        assert list(await store.get_many([document["xt/id"]])) == [document["xt/id"]]
        assert len((await store.history(document["xt/id"])).entries) == 1
