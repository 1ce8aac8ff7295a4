"""The objects of a session that a client keeps in memory."""

from ctxmgr.core.client.object_cache import ObjectCache
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.sets import Session

SOURCE = FilesystemSource(filesystem_id="host", path="/home/me/a.py")
FILE = File.read(SOURCE, data=b"one\n")
CALL = ToolCall(
    toolcall_id="c1", tool="bash", args={}, status="ok", chat_ref="chat:s1", content="out"
)
SESSION = Session(session_id="s1").read(FILE.object_id).created("c1")


def filled_cache(file: File = FILE, *, cache: ObjectCache | None = None) -> ObjectCache:
    cached = cache or ObjectCache()
    cached.learn_file(file, display_path="/w/a.py", state=FileState.LIVE, active=True)
    cached.learn_call(CALL, active=True)
    return cached


def test_it_holds_paths_types_counts_and_tools() -> None:
    """None of this is in the session's document (003-R093, 003-R094, 003-R150)."""
    cache = filled_cache()

    assert cache.pool(SESSION).rope.text == (
        f"id={FILE.object_id} type=file path=/w/a.py file_type=py char_count=4\n"
        "id=c1 type=toolcall tool=bash status=ok\n"
    )
    assert [version.object_hash for version in cache.shown(SESSION)] == [
        *(FILE.object_hash, CALL.object_hash)
    ]


def test_it_lists_the_objects_that_must_be_read() -> None:
    """A prompt neither waits for cached objects nor lacks missing ones (003-R101, 003-R120)."""
    cache = ObjectCache()
    cache.learn_call(CALL, active=False)

    assert cache.missing(SESSION) == [FILE.object_id, "c1"]
    assert filled_cache(cache=cache).missing(SESSION) == []


def test_a_new_version_changes_its_line_and_its_text() -> None:
    """A change reported by a tracker is in the next prompt (003-R094, 003-R150, 003-R174)."""
    cache = filled_cache()
    cache.pool(SESSION)

    filled_cache(File.read(SOURCE, data=b"longer\n"), cache=cache)

    assert "char_count=7" in cache.pool(SESSION).rope.text
    assert cache.active(SESSION)[0].content == "longer\n"


def test_text_that_is_no_longer_active_is_dropped() -> None:
    """Memory holds the active texts and one line per object (003-R094)."""
    cache, folded = filled_cache(), SESSION.deactivate("c1")

    cache.let_go(folded)

    assert cache.missing(SESSION) == ["c1"]
    assert cache.missing(folded) == []


def test_a_changed_order_gives_another_pool() -> None:
    """Another client's objects may precede ours after a merge (003-A17, 003-A21)."""
    cache = filled_cache()
    cache.pool(SESSION)
    theirs = Session(session_id="s1").created("c1").read(FILE.object_id)

    cache.reorder()

    assert [entry.object_id for entry in cache.pool(theirs).entries] == ["c1", FILE.object_id]
    assert cache.missing(theirs) == []
