"""Random values for the tests of core: values of documents, and objects made of them."""

from typing import Any, Final

from hypothesis import strategies as st

from ctxmgr.core.objects.chat import AssistantMeta, Chat, Turn
from ctxmgr.core.objects.codec import StoredObject
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall

SAFE_INTEGER: Final = 2**53 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False)
safe_integers = st.integers(-SAFE_INTEGER, SAFE_INTEGER)


NO_VALUES: st.SearchStrategy[Any] = st.nothing()


def json_values(
    integers: st.SearchStrategy[int],
    *,
    leaves_max: int = 12,
    odd: st.SearchStrategy[Any] = NO_VALUES,
) -> st.SearchStrategy[Any]:
    """JSON values, including some from ``odd``."""
    leaves = st.none() | st.booleans() | integers | floats | texts | odd
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=leaves_max,
    )


safe_values = json_values(safe_integers)
values = json_values(st.integers())
maps = st.dictionaries(texts, json_values(st.integers(), leaves_max=4), max_size=3)
session_ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
object_ids = st.text("abc:0", min_size=1, max_size=6).map(lambda text: f"id-{text}")
id_tuples = st.lists(object_ids, unique=True, max_size=5).map(tuple)

_names = st.text("abé.😀 ", min_size=1, max_size=8).filter(lambda name: name not in {".", ".."})
sources = st.builds(
    FilesystemSource,
    filesystem_id=st.sampled_from(["host", "container"]),
    path=st.lists(_names, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names)),
)
files = (
    st.builds(File.stub, sources)
    | st.builds(lambda source, data: File.read(source, data=data), sources, st.binary())
    | st.builds(lambda source, text: File.read(source, data=text.encode()), sources, texts)
    | st.builds(
        lambda source, text: File.read(source, data=text.encode()).deleted(), sources, texts
    )
)
toolcalls = st.builds(
    ToolCall,
    toolcall_id=object_ids,
    tool=st.sampled_from(["read", "grep"]),
    args=maps,
    status=st.sampled_from(["ok", "fail"]),
    chat_ref=st.just("chat:s1"),
    content=st.none() | texts,
    args_display=st.none() | texts,
    file_refs=st.none() | id_tuples,
)
metas = st.builds(
    AssistantMeta,
    api=st.none() | texts,
    model=st.none() | texts,
    usage=st.none() | maps,
    stopReason=st.none() | texts,
    timestamp=st.none() | st.integers(),
)
turns = st.builds(
    Turn,
    user=texts,
    assistant=st.lists(maps.map(lambda part: {**part, "type": "text"}), max_size=2).map(tuple),
    toolcall_ids=id_tuples,
    assistant_meta=metas,
)
chats = st.builds(Chat, session_id=session_ids, turns=st.lists(turns, max_size=3).map(tuple))
system_prompts = st.builds(SystemPrompt, session_id=session_ids, content=texts)


@st.composite
def sessions(draw: st.DrawFn) -> SessionRecord:
    index = draw(id_tuples)
    pool = tuple(entry for entry in index if draw(st.booleans()))
    return SessionRecord(
        session_id=draw(session_ids),
        session_index=index,
        metadata_pool=pool,
        active_set=tuple(entry for entry in pool if draw(st.booleans())),
        pinned_set=tuple(entry for entry in pool if draw(st.booleans())),
    )


stored_objects: st.SearchStrategy[StoredObject] = (
    files | toolcalls | chats | system_prompts | sessions()
)


def reordered(value: Any) -> Any:
    """The same value with every map's keys in another order."""
    if isinstance(value, list):
        return [reordered(item) for item in value]
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return value
