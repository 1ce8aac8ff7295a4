"""Reading files for an agent that must not read the host: escape attempts.

One tree on the host, seen by the agent through mounts. For every path the agent gets what
the sandbox's kernel would give it from the mounts, and never a byte from anywhere else.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxmgr.core.files.host_files import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import (
    MissingFile,
    ReadFile,
    Refusal,
    RefusedFile,
    SeenFile,
    Unreachable,
    Unread,
)
from ctxmgr.core.files.path_walk import DEPTH_MAX, LINKS_MAX
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource

SECRET = b"the host's secret"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a project, data mounted inside it, and a secret beside them."""
    for folder in ("project/src", "project/data", "project/tmp", "data", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project/a.txt").write_bytes(b"a")
    (tmp_path / "project/src/main.py").write_bytes(b"main")
    (tmp_path / "project/data/hidden.txt").write_bytes(SECRET)
    (tmp_path / "project/tmp/hidden.txt").write_bytes(SECRET)
    (tmp_path / "data/d.txt").write_bytes(b"d")
    (tmp_path / "etc/passwd").write_bytes(SECRET)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    return tmp_path


@pytest.fixture
def files(host: Path) -> Iterator[HostFiles]:
    with HostFiles(mounts(host)) as opened:
        yield opened


def mounts(host: Path) -> Mounts:
    places = {"/workspace": host / "project", "/workspace/data": host / "data"}
    mappings = [
        MountMapping(agent_prefix=agent, canonical_prefix=str(path), filesystem_id="host")
        for agent, path in places.items()
    ]
    covered = MountMapping(
        agent_prefix="/workspace/tmp", canonical_prefix="/workspace/tmp", filesystem_id="own"
    )
    return Mounts.of_sandbox([*mappings, covered], own_id="own")


def link(host: Path, name: str, target: str) -> None:
    (host / "project" / name).symlink_to(target)


def summary(outcome: ReadFile | SeenFile | Unread) -> object:
    """The part of an outcome that a case expects."""
    match outcome:
        case ReadFile():
            return outcome.data
        case RefusedFile():
            return outcome.refusal
        case _:
            return type(outcome)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/workspace/a.txt", b"a"),
        ("/workspace//./src/../a.txt", b"a"),
        ("/workspace/data/d.txt", b"d"),
        ("/workspace/data/../a.txt", b"a"),
        ("/../../workspace/a.txt", b"a"),
        ("/workspace/missing", MissingFile),
        ("/workspace/missing/a.txt", MissingFile),
        ("/workspace/missing/../a.txt", MissingFile),
        ("/workspace/a.txt/..", MissingFile),
        ("/workspace/a.txt/../a.txt", MissingFile),
        ("/workspace/a.txt/", MissingFile),
        ("/workspace/A.TXT", MissingFile),
        ("/workspace/a.txt.", MissingFile),
        ("/workspace/a.txt...", MissingFile),
        ("/workspace/a.txt ", MissingFile),
        ("/workspace/a.txt\n", MissingFile),
        ("/workspace/.../a.txt", MissingFile),
        ("/workspace/data/hidden.txt", MissingFile),
        ("/workspace", Refusal.NOT_A_FILE),
        ("/workspace/src", Refusal.NOT_A_FILE),
        ("/workspace/src/", Refusal.NOT_A_FILE),
        ("/workspace/src/.", Refusal.NOT_A_FILE),
        ("/workspace/data", Refusal.NOT_A_FILE),
        ("/workspace/tmp/hidden.txt", Refusal.OUTSIDE),
        ("/workspace/../secret.txt", Refusal.OUTSIDE),
        ("/workspace/src/../../../secret.txt", Refusal.OUTSIDE),
        ("/workspace/data/../../secret.txt", Refusal.OUTSIDE),
        ("/workspace2/a.txt", Refusal.OUTSIDE),
        ("/Workspace/a.txt", Refusal.OUTSIDE),
        ("/etc/passwd", Refusal.OUTSIDE),
        ("/etc/../workspace/a.txt", Refusal.OUTSIDE),
        ("/proc/self/root/etc/passwd", Refusal.OUTSIDE),
        ("/", Refusal.OUTSIDE),
        ("", Refusal.NAME),
        ("a.txt", Refusal.NAME),
        ("/workspace/a.txt\0", Refusal.NAME),
        ("/workspace/\ud800", Refusal.NAME),
        ("/workspace/" + "n" * 256, Refusal.NAME),
        ("/workspace/" + "n/" * 2048, Refusal.NAME),
    ],
)
def test_a_path_resolves_as_in_the_sandbox(path: str, expected: object, files: HostFiles) -> None:
    """003-A40, 003-A12, 003-A22: .., mounts in mounts, case, dots, newlines, NUL, long names."""
    assert summary(files.read(path)) == expected


def test_host_paths_do_not_resolve(host: Path, files: HostFiles) -> None:
    """003-A36: the host's path of a file has no meaning in the sandbox."""
    for path in (host / "secret.txt", host / "project/a.txt", Path("/etc/hostname")):
        assert summary(files.read(str(path))) is Refusal.OUTSIDE


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("a.txt", b"a"),
        ("src/../a.txt", b"a"),
        ("./src/main.py", b"main"),
        ("/workspace/a.txt", b"a"),
        ("/workspace/src/../data/d.txt", b"d"),
        ("data/d.txt", b"d"),
        ("../workspace/a.txt", b"a"),
        ("data/hidden.txt", MissingFile),
        ("tmp/hidden.txt", Refusal.OUTSIDE),
        ("../secret.txt", Refusal.OUTSIDE),
        ("../../../../../../../etc/passwd", Refusal.OUTSIDE),
        ("/etc/passwd", Refusal.OUTSIDE),
        ("/proc/self/root/etc/passwd", Refusal.OUTSIDE),
        ("/proc/self/cwd/a.txt", Refusal.OUTSIDE),
        ("{host}/secret.txt", Refusal.OUTSIDE),
        ("{host}/project/a.txt", Refusal.OUTSIDE),
        ("missing", MissingFile),
        ("a.txt/", MissingFile),
        ("src", Refusal.NOT_A_FILE),
        ("loop", Refusal.LOOP),
        ("./loop/a.txt", Refusal.LOOP),
    ],
)
def test_a_link_is_followed_as_in_the_sandbox(
    target: str, expected: object, host: Path, files: HostFiles
) -> None:
    """003-A40: an absolute target is an agent path; a target outside the mounts is refused."""
    link(host, "loop", "loop")
    link(host, "link", target.format(host=host))

    assert summary(files.read("/workspace/link")) == expected
    assert summary(files.read("/workspace/src/../link")) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("src", b"main"),
        ("/workspace/src", b"main"),
        ("/workspace/data/../src/", b"main"),
        ("..", Refusal.OUTSIDE),
        ("{host}/project/src", Refusal.OUTSIDE),
        ("a.txt", MissingFile),
    ],
)
def test_a_link_to_a_folder_in_a_path_is_followed(
    target: str, expected: object, host: Path, files: HostFiles
) -> None:
    """003-A40: the path names the same file as in the sandbox."""
    link(host, "folder", target.format(host=host))

    assert summary(files.read("/workspace/folder/main.py")) == expected


def test_a_parent_step_after_a_link_starts_at_its_target(host: Path, files: HostFiles) -> None:
    """003-A40: lexically, deep/../main.py would be a different file, beside the link."""
    (host / "project/src/sub").mkdir()
    (host / "project/main.py").write_bytes(b"another")
    link(host, "deep", "src/sub")

    assert summary(files.read("/workspace/deep/../main.py")) == b"main"


@pytest.mark.parametrize(("links", "expected"), [(LINKS_MAX, b"a"), (LINKS_MAX + 1, Refusal.LOOP)])
def test_a_chain_of_links_has_the_kernels_limit(
    links: int, expected: object, host: Path, files: HostFiles
) -> None:
    """003-A40: a chain fails where the sandbox's kernel would fail, so a loop ends."""
    link(host, "link-1", "a.txt")
    for number in range(2, links + 1):
        link(host, f"link-{number}", f"link-{number - 1}")

    assert summary(files.read(f"/workspace/link-{links}")) == expected


def test_a_hard_link_inside_a_mount_is_inside(host: Path, files: HostFiles) -> None:
    """003-A40: it is one name of the file, and that name is in the mount."""
    os.link(host / "data/d.txt", host / "project/hard.txt")

    outcome = files.read("/workspace/hard.txt")

    assert summary(outcome) == b"d"
    assert isinstance(outcome, ReadFile)
    assert outcome.location.path == f"{host}/project/hard.txt"


def test_a_file_read_through_any_link_has_one_location(host: Path, files: HostFiles) -> None:
    """003-R039, 003-R163, 003-R165: two names of one file through links are one object."""
    link(host, "link", "/workspace/data/d.txt")

    outcomes = [files.look(path) for path in ("/workspace/link", "/workspace/./data/d.txt")]

    for outcome in outcomes:
        assert isinstance(outcome, SeenFile)
        assert outcome.location.filesystem_id == "host"
        assert outcome.location.path == f"{host}/data/d.txt"
        assert outcome.agent_path == "/workspace/data/d.txt"


def test_seeing_and_reading_a_file_give_one_object(host: Path, files: HostFiles) -> None:
    """003-R165, 003-R044: a stub made by discovery becomes the file that is read later."""
    link(host, "link", "src/main.py")
    seen, read = files.look("/workspace/link"), files.read("/workspace/src/main.py")
    assert isinstance(seen, SeenFile)
    assert isinstance(read, ReadFile)

    stub = File.stub(source_of(seen))

    assert stub.object_id == File.read(source_of(read), data=read.data).object_id


def source_of(seen: SeenFile) -> FilesystemSource:
    return FilesystemSource(filesystem_id=seen.location.filesystem_id, path=seen.location.path)


def test_a_mount_that_is_itself_a_link_is_resolved(host: Path) -> None:
    """003-A22: a client without a sandbox finds the same file under the same path."""
    (host / "alias").symlink_to(host / "project")
    mapping = MountMapping(
        agent_prefix="/w", canonical_prefix=f"{host}/alias", filesystem_id="host"
    )

    with (
        HostFiles(Mounts.of_sandbox([mapping], own_id="own")) as sandboxed,
        HostFiles(Mounts.of_host("host")) as bare,
    ):
        seen, same = sandboxed.look("/w/a.txt"), bare.look(f"{host}/alias/a.txt")

    assert isinstance(seen, SeenFile)
    assert isinstance(same, SeenFile)
    assert seen.location == same.location
    assert seen.location.path == f"{host}/project/a.txt"


def test_a_single_file_can_be_mounted(host: Path) -> None:
    """003-A40: containers get their hosts file this way."""
    mapping = MountMapping(
        agent_prefix="/etc/hosts", canonical_prefix=f"{host}/data/d.txt", filesystem_id="host"
    )

    with HostFiles(Mounts.of_sandbox([mapping], own_id="own")) as files:
        results = [summary(files.read(path)) for path in ("/etc/hosts", "/etc/hosts/x", "/etc/x")]

    assert results == [b"d", MissingFile, Refusal.OUTSIDE]


def test_only_regular_files_are_opened(host: Path, files: HostFiles) -> None:
    """003-A40: opening a FIFO would block, and opening a device may have effects."""
    os.mkfifo(host / "project/fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(host / "project/sock"))

        outcomes = [files.read("/workspace/fifo"), files.read("/workspace/sock")]

    assert outcomes == [
        RefusedFile(Refusal.NOT_A_FILE, "a FIFO"),
        RefusedFile(Refusal.NOT_A_FILE, "a socket"),
    ]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/tty", "/dev/stdin"])
def test_a_device_is_not_read(path: str) -> None:
    """003-A40: /dev/zero is endless; no device is opened, since opening alone may have effects."""
    with HostFiles(Mounts.of_host("host")) as files:
        outcome = files.read(path)

    assert summary(outcome) in {Refusal.NOT_A_FILE, MissingFile, Unreachable}


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/root/proc/self/maps", "/proc/1/cmdline"]
)
def test_a_file_generated_by_the_kernel_is_not_read(path: str) -> None:
    """003-A40: /proc exposes the client's environment, which holds its keys."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs a Linux: elsewhere there is no /proc")
    with HostFiles(Mounts.of_host("host")) as files:
        outcome = files.read(path)

    assert summary(outcome) in {Refusal.NOT_A_FILE, Unreachable}


@pytest.mark.parametrize("size", [FILE_BYTES_MAX + 1, 5 * 1024**3])
def test_a_file_over_the_size_limit_is_seen_but_not_read(
    size: int, host: Path, files: HostFiles
) -> None:
    """003-A40: it stays unread, and the reason states its size."""
    with (host / "project/large").open("wb") as large:
        large.truncate(size)

    outcome = files.read("/workspace/large")

    assert outcome == RefusedFile(
        Refusal.TOO_LARGE, f"{size:,} bytes; {FILE_BYTES_MAX:,} at most are read"
    )
    assert isinstance(files.look("/workspace/large"), SeenFile)


def test_a_file_of_exactly_the_size_limit_is_read(host: Path, files: HostFiles) -> None:
    """003-A40: the limit is inclusive."""
    (host / "project/full").write_bytes(b"x" * 10)

    assert summary(files.read("/workspace/full", bytes_max=10)) == b"x" * 10
    assert summary(files.read("/workspace/full", bytes_max=9)) is Refusal.TOO_LARGE


def test_names_may_be_any_text(host: Path, files: HostFiles) -> None:
    """003-A40: newlines, spaces, quotes and dots are ordinary characters."""
    for name in ("a\nb", " lead", "trail ", "it's", "é", "-rf", "...", "a.", "日本", "*"):
        (host / "project" / name).write_bytes(name.encode())

        assert summary(files.read(f"/workspace/{name}")) == name.encode()


def test_a_name_that_is_not_utf8_is_refused(host: Path, files: HostFiles) -> None:
    """003-A40: no document could hold its path; a link with such a name may be followed."""
    (host / "project" / os.fsdecode(b"\xff")).write_bytes(b"x")
    link(host, os.fsdecode(b"link\xff"), "a.txt")

    assert summary(files.read("/workspace/\udcff")) is Refusal.NAME
    assert summary(files.read("/workspace/link\udcff")) == b"a"


def test_the_depth_of_a_path_is_limited(host: Path, files: HostFiles) -> None:
    """003-A40: every folder of the path is held open, and file descriptors are limited."""
    deep = host / "project" / "/".join("n" * DEPTH_MAX)
    deep.mkdir(parents=True)

    assert summary(files.read("/workspace/" + "n/" * DEPTH_MAX + "x")) is Refusal.NAME


def test_no_file_descriptor_stays_open(host: Path, files: HostFiles) -> None:
    """003-A40: a client reads thousands of files."""
    link(host, "link", "/workspace/src/../src/main.py")
    link(host, "loop", "loop")
    paths = ("link", "loop", "src", "missing/x", "../x", "data/d.txt", "src/main.py/x", "tmp/x")
    descriptors = Path("/dev/fd")
    before = len(list(descriptors.iterdir()))

    for path in paths:
        files.read(f"/workspace/{path}")
        files.look(f"/workspace/{path}")

    assert len(list(descriptors.iterdir())) == before
