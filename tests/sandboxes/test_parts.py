"""Parts of the sandboxes that can be tested without one: output limits, replies, control groups."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.files.outcomes import Unreachable
from ctxmgr.core.sandbox import CommandResult, Limits
from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes.cgroups import make_group
from ctxmgr.sandboxes.isolated import parse_read
from ctxmgr.sandboxes.processes import MARKER, BoundedOutput

MOUNTS = Mounts.of_sandbox((), own_id="own")


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 60))
def test_output_keeps_start_and_end_however_it_arrives(chunks: list[bytes], bytes_max: int) -> None:
    """The result depends on the bytes written, not on how the pipe split them."""
    output, whole = BoundedOutput(bytes_max), b"".join(chunks)
    for chunk in chunks:
        output.add(chunk)

    kept = output.kept()

    assert output.total == len(whole)
    assert output.truncated == (len(whole) > bytes_max)
    if not output.truncated:
        assert kept == whole
    else:
        tail = bytes_max // 2
        head = bytes_max - tail
        marker = MARKER.format(len(whole) - bytes_max).encode()
        assert kept == whole[:head] + marker + whole[len(whole) - tail :]


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2, 5, 127, 137]))
def test_any_reply_of_a_sandbox_is_an_outcome(said: bytes, exit_code: int) -> None:
    """The agent controls the tools inside: a forged reply may mislead it, but never us."""
    ran = CommandResult(
        exit_code=exit_code, output=said, output_bytes=len(said), truncated=False, timed_out=False
    )

    assert isinstance(parse_read(ran, bytes_max=10, mounts=MOUNTS), Unreachable)


def test_a_reply_that_times_out_is_unreachable() -> None:
    """A file on a dead network mount must not count as deleted."""
    ran = CommandResult(exit_code=137, output=b"", output_bytes=0, truncated=False, timed_out=True)

    assert isinstance(parse_read(ran, bytes_max=10, mounts=MOUNTS), Unreachable)


def test_a_limit_of_zero_is_refused() -> None:
    """Zero means no limit to some tools and nothing at all to others."""
    with pytest.raises(Incorrect, match="processes"):
        Limits(processes=0)


def test_a_version_2_group_is_created_where_both_controllers_are_enabled(tmp_path: Path) -> None:
    """A group with processes cannot delegate controllers, so the nearest parent is used."""
    proc, root = _machine(
        tmp_path, "0::/user/session", f"1 0 0:1 / {tmp_path}/cg rw - cgroup2 c rw"
    )
    (root / "user" / "session").mkdir(parents=True)
    (root / "cgroup.subtree_control").write_text("cpu memory pids", encoding="ascii")
    (root / "user" / "cgroup.subtree_control").write_text("memory pids", encoding="ascii")
    (root / "user" / "session" / "cgroup.subtree_control").touch()

    group = make_group(Limits(), proc=proc)

    assert group is not None
    assert [folder.parent for folder in group.folders] == [root / "user"]
    assert group.joined(["true"])[-2:] == [f"{group.folders[0]}/cgroup.procs", "true"]
    group.remove()
    assert not group.folders[0].exists()


def test_version_1_groups_are_created_in_both_hierarchies(tmp_path: Path) -> None:
    """Memory under our group, processes under the root if ours is not visible."""
    mounts = "".join(
        f"{n} 0 0:{n} / {tmp_path}/cg/{name} rw - cgroup c rw\n"
        for n, name in enumerate(("memory", "pids"), start=1)
    )
    proc, root = _machine(tmp_path, "8:pids:/elsewhere\n4:memory:/ours\n0::/", mounts)
    for folder in ("memory/ours", "pids"):
        (root / folder).mkdir(parents=True)

    group = make_group(Limits(), proc=proc)

    assert group is not None
    assert [folder.parent for folder in group.folders] == [root / "memory/ours", root / "pids"]
    group.remove()


@pytest.mark.parametrize("own", ["0::/", "8:pids:/\n4:memory:/"])
def test_without_writable_groups_there_is_no_control_group(tmp_path: Path, own: str) -> None:
    """Containers mount their groups read-only or not at all."""
    proc, _ = _machine(tmp_path, own, f"1 0 0:1 / {tmp_path}/absent rw - cgroup2 c rw")

    assert make_group(Limits(), proc=proc) is None
    assert make_group(Limits(), proc=tmp_path / "no-proc") is None


def _machine(tmp_path: Path, own: str, mounts: str) -> tuple[Path, Path]:
    proc, root = tmp_path / "proc", tmp_path / "cg"
    proc.mkdir()
    root.mkdir()
    (proc / "cgroup").write_text(f"{own}\n", encoding="ascii")
    (proc / "mountinfo").write_text(mounts, encoding="ascii")
    return proc, root
