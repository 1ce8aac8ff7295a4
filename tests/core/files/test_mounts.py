"""Mounts: agent paths to host paths and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.files.mount_settings import MountSetting, read_mappings
from ctxmgr.core.files.mounts import MOUNTS_MAX, FileLocation, MountMapping, Mounts, normalise
from ctxmgr.errors import Incorrect

NAMES = st.sampled_from(["a", "b", "ab", "A", "workspace", "workspace2", "é", "a b", "...", "a."])
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))
MAPPINGS = st.lists(
    st.builds(
        MountMapping,
        agent_prefix=PATHS,
        canonical_prefix=PATHS,
        filesystem_id=st.sampled_from(["host", "share", "own"]),
    ),
    unique_by=lambda mapping: mapping.agent_prefix,
    max_size=4,
)
MOUNTS = st.builds(lambda mappings: Mounts.of_sandbox(mappings, own_id="own"), MAPPINGS)


def mapping(agent: str, canonical: str, filesystem_id: str = "host") -> MountMapping:
    return MountMapping(agent_prefix=agent, canonical_prefix=canonical, filesystem_id=filesystem_id)


def sandbox(*mappings: MountMapping) -> Mounts:
    return Mounts.of_sandbox(mappings, own_id="own")


def location(filesystem_id: str, path: str) -> FileLocation:
    return FileLocation(filesystem_id=filesystem_id, path=path, on_host=True)


@pytest.mark.parametrize(
    ("path", "filesystem_id", "canonical"),
    [
        ("/workspace/src/a.py", "host", "/home/me/ws/src/a.py"),
        ("/workspace", "host", "/home/me/ws"),
        ("/workspace/", "host", "/home/me/ws"),
        ("//workspace///a", "host", "/home/me/ws/a"),
        ("/workspace2/a", "own", "/workspace2/a"),
        ("/work", "own", "/work"),
        ("/Workspace/a", "own", "/Workspace/a"),
        ("/workspace/data/x", "share", "/export/x"),
        ("/workspace/data2/x", "host", "/home/me/ws/data2/x"),
        ("/workspace/tmp/x", "own", "/workspace/tmp/x"),
        ("/workspace/../etc/passwd", "own", "/etc/passwd"),
        ("/etc/../workspace/./a", "host", "/home/me/ws/a"),
        ("/../../workspace/a", "host", "/home/me/ws/a"),
        ("/", "own", "/"),
    ],
)
def test_the_longest_agent_prefix_decides(path: str, filesystem_id: str, canonical: str) -> None:
    """003-R153 to R157, 003-A22: by path component, so workspace2 is not below workspace."""
    mounts = sandbox(
        mapping("/workspace", "/home/me/ws"),
        mapping("/workspace/data/", "/export/", "share"),
        mapping("/workspace/tmp", "/workspace/tmp", "own"),
    )

    assert mounts.forward(path) == location(filesystem_id, canonical)


def test_the_order_of_mappings_does_not_affect_forward_translation() -> None:
    """003-R156: the longest prefix wins, wherever it is declared."""
    inner, outer = mapping("/w/in", "/inner"), mapping("/w", "/outer")

    assert sandbox(inner, outer).forward("/w/in/x") == sandbox(outer, inner).forward("/w/in/x")


@pytest.mark.parametrize(
    ("agent", "canonical", "path", "expected"),
    [
        ("/", "/srv/root", "/etc/hosts", "/srv/root/etc/hosts"),
        ("/", "/srv/root", "/", "/srv/root"),
        ("/", "/", "/a/b", "/a/b"),
        ("/host", "/", "/host/etc/hosts", "/etc/hosts"),
        ("/host", "/", "/host", "/"),
    ],
)
def test_a_root_can_be_mounted(agent: str, canonical: str, path: str, expected: str) -> None:
    """003-R156: the root has no name and is still a prefix."""
    mounts = sandbox(mapping(agent, canonical))

    assert mounts.forward(path).path == expected
    assert mounts.reverse(mounts.forward(path)) == path


def test_without_a_sandbox_paths_are_unchanged() -> None:
    """003-R152, 003-A36: one filesystem, the host's, and the client may read it."""
    mounts = Mounts.of_host("host")

    assert mounts.forward("/home/me/a.md") == location("host", "/home/me/a.md")
    assert mounts.forward("/home/me/a.md").on_host
    assert mounts.reverse(location("host", "/home/me/a.md")) == "/home/me/a.md"


def test_a_path_outside_the_mounts_is_never_a_host_path() -> None:
    """003-R157, 003-A36: it is in the sandbox's private filesystem, as is a tmpfs in a mount."""
    mounts = sandbox(mapping("/w", "/srv/w"), mapping("/w/tmp", "/w/tmp", "own"))

    on_host = {path: mounts.forward(path).on_host for path in ("/w/a", "/w/tmp/a", "/etc/a")}

    assert on_host == {"/w/a": True, "/w/tmp/a": False, "/etc/a": False}


def test_the_first_declared_mount_of_a_folder_gives_its_display_path() -> None:
    """003-R158, 003-A23: the agent always sees the same path."""
    mounts = sandbox(mapping("/one", "/srv/x"), mapping("/two", "/srv/x"), mapping("/s", "/srv"))

    assert mounts.reverse(location("host", "/srv/x/a")) == "/one/a"
    assert mounts.reverse(location("host", "/srv/y")) == "/s/y"
    assert mounts.reverse(location("host", "/srv2/y")) == "/srv2/y"


def test_a_location_on_another_filesystem_keeps_its_path() -> None:
    """003-R158, 003-A33: the same path on another machine is another file."""
    mounts = sandbox(mapping("/w", "/srv/w"))

    assert mounts.reverse(location("other", "/srv/w/a")) == "/srv/w/a"
    assert not mounts.declares("other")
    assert mounts.declares("host")
    assert mounts.declares("own")


def test_a_file_hidden_by_another_mount_is_not_displayed_below_it() -> None:
    """003-R158: below /w/data the agent sees the other mount, not this folder."""
    mounts = sandbox(mapping("/w", "/srv/w"), mapping("/w/data", "/export"))

    assert mounts.reverse(location("host", "/srv/w/data/a")) == "/srv/w/data/a"


@given(MOUNTS, PATHS)
def test_a_display_path_translates_back_to_its_location(mounts: Mounts, path: str) -> None:
    """003-R156, 003-R158: with any mounts, no object is displayed under the path of another."""
    location = mounts.forward(path)

    assert mounts.forward(mounts.reverse(location)) == location


@given(MOUNTS, PATHS, NAMES)
def test_the_spelling_of_a_path_changes_nothing(mounts: Mounts, path: str, name: str) -> None:
    """003-A22: trailing slashes, dots and a step there and back name the same location."""
    for spelt in (f"{path}/", f"/.{path}", f"{path}/{name}/..", f"/..{path}", f"/{path}"):
        assert mounts.forward(spelt) == mounts.forward(path)


@given(MOUNTS, PATHS)
def test_forward_translation_agrees_with_a_comparison_by_component(
    mounts: Mounts, path: str
) -> None:
    """003-R156, 003-A22: the fast string comparison gives the same result."""
    parts = [part for part in path.split("/") if part]
    holding = []
    for mount in mounts.mappings:
        prefix = [part for part in mount.agent_prefix.split("/") if part]
        if parts[: len(prefix)] == prefix:
            holding.append((len(prefix), mount))

    longest = max(holding, key=lambda pair: pair[0], default=(0, None))[1]

    assert mounts.mapping_of(normalise(path)) == longest


@pytest.mark.parametrize(
    ("agent", "canonical", "filesystem_id", "message"),
    [
        ("workspace", "/a", "host", "agentPrefix 'workspace' is not absolute"),
        ("/w", "a", "host", "canonicalPrefix 'a' is not absolute"),
        ("/w/../x", "/a", "host", "agentPrefix '/w/../x' contains .."),
        ("/w\0", "/a", "host", "contains NUL"),
        ("/w", "/a", "", "the mount at '/w' needs a filesystemId"),
    ],
)
def test_an_invalid_mapping_is_refused(
    agent: str, canonical: str, filesystem_id: str, message: str
) -> None:
    """003-R155: a wrong mapping would give every file below it a wrong identity."""
    with pytest.raises(Incorrect, match=message):
        mapping(agent, canonical, filesystem_id)


def test_a_path_cannot_be_mounted_twice() -> None:
    """003-R156: neither of two mounts at one path would have the longer prefix."""
    with pytest.raises(Incorrect, match="'/w' is mounted twice"):
        sandbox(mapping("/w", "/a"), mapping("/w/", "/b"))


def test_mounts_have_a_limit_and_a_default() -> None:
    """003-R154, 003-R157: every path is compared with every mount."""
    with pytest.raises(Incorrect, match="1000 at most"):
        sandbox(*(mapping(f"/{number}", "/a") for number in range(MOUNTS_MAX + 1)))
    with pytest.raises(Incorrect, match="default filesystem id"):
        Mounts.of_host("")


def test_mappings_are_read_by_their_specified_field_names() -> None:
    """003-R155, 003-R159, 003-R163: a bind mount is on the host unless it says otherwise."""
    given_ = [
        {"agentPrefix": "/w", "canonicalPrefix": "/srv/w"},
        {"agentPrefix": "/s", "canonicalPrefix": "/export", "filesystemId": "share"},
        MountSetting(agent_prefix="/x", canonical_prefix="/srv/x"),
    ]

    read = read_mappings(given_, host_id="host")

    assert read == (
        mapping("/w", "/srv/w"),
        mapping("/s", "/export", "share"),
        mapping("/x", "/srv/x"),
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"agentPrefix": "/w"}, "canonicalPrefix: Field required"),
        ({"agentPrefix": "/w", "canonicalPrefix": "/a", "fsid": "x"}, "fsid: Extra inputs"),
        ({"agentPrefix": 7, "canonicalPrefix": "/a"}, "agentPrefix: Input should be a valid str"),
    ],
)
def test_the_error_for_a_misspelt_mapping_names_it(value: dict[str, object], message: str) -> None:
    """003-R155, 003-R159: the mistake is reported at startup, not as missing files later."""
    with pytest.raises(Incorrect, match=message):
        read_mappings([value], host_id="host")
