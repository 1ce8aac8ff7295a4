"""What a client keeps in memory of a session's objects."""

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


def learnt(file: File = FILE, *, cache: ObjectCache | None = None) -> ObjectCache:
    known = cache or ObjectCache()
    known.learn_file(file, display_path="/w/a.py", state=FileState.LIVE, active=True)
    known.learn_call(CALL, active=True)
    return known


def test_it_knows_paths_types_counts_and_tools() -> None:
    """Nothing of it is in the session's document (003-R093, 003-R094, 003-R150)."""
    cache = learnt()

    assert cache.pool(SESSION).rope.text == (
        f"id={FILE.object_id} type=file path=/w/a.py file_type=py char_count=4\n"
        "id=c1 type=toolcall tool=bash status=ok\n"
    )
    assert [version.object_hash for version in cache.shown(SESSION)] == [
        *(FILE.object_hash, CALL.object_hash)
    ]


def test_it_says_what_has_to_be_read() -> None:
    """A prompt never waits for what is there, nor lacks what is not (003-R101, 003-R120)."""
    cache = ObjectCache()
    cache.learn_call(CALL, active=False)

    assert cache.missing(SESSION) == [FILE.object_id, "c1"]
    assert learnt(cache=cache).missing(SESSION) == []


def test_a_new_version_changes_its_line_and_its_text() -> None:
    """A tracker's news is in the next prompt (003-R174)."""
    cache = learnt()
    cache.pool(SESSION)

    learnt(File.read(SOURCE, data=b"longer\n"), cache=cache)

    assert "char_count=7" in cache.pool(SESSION).rope.text
    assert cache.active(SESSION)[0].content == "longer\n"


def test_text_that_is_not_shown_is_let_go() -> None:
    """Memory is what is active and a line per object (003-R094)."""
    cache, folded = learnt(), SESSION.deactivate("c1")

    cache.let_go(folded)

    assert cache.missing(SESSION) == ["c1"]
    assert cache.missing(folded) == []


def test_another_order_is_another_pool() -> None:
    """Another client's objects may precede ours after a merge (003-A17, 003-A21)."""
    cache = learnt()
    cache.pool(SESSION)
    theirs = Session(session_id="s1").created("c1").read(FILE.object_id)

    cache.reorder()

    assert [entry.object_id for entry in cache.pool(theirs).entries] == ["c1", FILE.object_id]
    assert cache.missing(theirs) == []
