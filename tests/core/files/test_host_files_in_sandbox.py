"""Host reads compared with the kernel of a real sandbox: random trees, mounts, links, paths.

The same tree is read by bubblewrap's kernel from inside and by the client from outside. Every byte
the client reads, the agent can read; and every file that the agent can read in its mounts,
the client reads.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import ReadFile
from tests.sandboxes.programs import SYSTEM, need_bubblewrap

SANDBOX_SECONDS = 60
READ_ALL = 'for path; do [ -f "$path" ] && cat -- "$path"; printf "\\0"; done'

FOLDERS = ("project", "project/d", "project/data", "data", "data/d", "other")
STEPS = st.sampled_from(["a", "d", "data", "l0", "l1", "l2", "..", ".", "", "workspace"])
WAYS = st.lists(STEPS, min_size=1, max_size=4).map("/".join)
STARTS = st.sampled_from(["", "../", "/workspace/", "/workspace/data/", "/", "{host}/"])
TARGETS = st.builds(str.__add__, STARTS, WAYS).filter(bool)
NAMES = st.builds("{}/l{}".format, st.sampled_from(FOLDERS), st.integers(0, 2))
LINKS = st.dictionaries(NAMES, TARGETS, min_size=1, max_size=10)
ASKED = st.lists(WAYS.map("/workspace/{}".format), max_size=10)


@pytest.mark.usefixtures("sandboxing")
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(LINKS, ASKED)
def test_the_client_reads_what_the_sandbox_reads(
    links: Mapping[str, str], asked: Sequence[str]
) -> None:
    """003-A40, 003-R144: links and .. mean the same inside and outside the sandbox."""
    with tree(links) as host, HostFiles(mounts(host)) as files:
        folders = ("/workspace", "/workspace/d", "/workspace/data", "/workspace/data/d")
        paths = [*asked, *(f"{folder}/l{number}" for folder in folders for number in range(3))]
        inside = read_in_sandbox(host, paths)

        for path, expected in zip(paths, inside, strict=True):
            outcome = files.read(path)
            if isinstance(outcome, ReadFile):
                assert outcome.data == expected, path
            else:
                assert expected == b"", (path, outcome)


@pytest.fixture
def sandboxing() -> None:
    need_bubblewrap()


@contextmanager
def tree(links: Mapping[str, str]) -> Iterator[Path]:
    """Make a file called a in every folder, which contains its own path, and the links."""
    with tempfile.TemporaryDirectory() as folder:
        host = Path(folder).resolve()
        for name in FOLDERS:
            (host / name).mkdir(parents=True)
            (host / name / "a").write_text(name, encoding="utf-8")
        for name, target in links.items():
            (host / name).symlink_to(target.format(host=host))
        yield host


def mounts(host: Path) -> Mounts:
    return Mounts.of_sandbox(
        [
            MountMapping(agent_prefix=agent, canonical_prefix=f"{host}/{name}", filesystem_id="h")
            for agent, name in (("/workspace", "project"), ("/workspace/data", "data"))
        ],
        own_id="own",
    )


def read_in_sandbox(host: Path, paths: Sequence[str]) -> list[bytes]:
    """Return what the agent reads at each path; None where there is no regular file."""
    binds = ("--bind", f"{host}/project", "/workspace", "--bind", f"{host}/data", "/workspace/data")
    command = ["bwrap", *SYSTEM, *binds, "sh", "-c", READ_ALL, "sh", *paths]
    run = subprocess.run(command, capture_output=True, timeout=SANDBOX_SECONDS, check=True)
    return run.stdout.split(b"\0")[:-1]
