"""Evidence packages: all or nothing when written, and every alteration found when verified."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxmgr import Corrupt, Incorrect, NotFound
from ctxmgr.experience.windows.evidence import (
    FILES,
    EvidencePackage,
    verify_package,
    write_package,
)


@pytest.fixture
def package(tmp_path: Path) -> EvidencePackage:
    contents = {name: [{"n": n, "text": "ünï"} for n in range(3)] for name in FILES}
    return write_package(tmp_path / "exports", "graft-1", be_id="be-7", contents=contents)


def test_a_package_verifies_elsewhere(package: EvidencePackage, tmp_path: Path) -> None:
    """000-R199, 000-R200: its folder is all that is needed."""
    copy = package.path.rename(tmp_path / "elsewhere")

    verified = verify_package(copy, manifest_sha256=package.manifest_sha256)

    assert package.path == tmp_path / "exports" / "graft-1"
    assert (verified.submission_id, verified.be_id) == ("graft-1", "be-7")
    assert verified.records == dict.fromkeys(FILES, 3)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


def _renumber(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda path: path.unlink(), id="removed"),
        pytest.param(_append, id="longer"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7')),
            id="altered",
        ),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-5]), id="shorter"),
    ],
)
def test_an_altered_file_is_named(
    package: EvidencePackage, name: str, alter: Callable[[Path], None]
) -> None:
    """000-R200: the tribe can rely on what it was sent."""
    alter(package.path / name)

    with pytest.raises(Corrupt, match=name):
        verify_package(package.path)


def test_a_package_that_was_rewritten_as_a_whole_is_found(package: EvidencePackage) -> None:
    """The hash of the manifest stands for the package, and is sent by another way."""
    other = write_package(
        package.path.parent, "graft-2", be_id="be-7", contents={name: [] for name in FILES}
    )

    verify_package(other.path)
    with pytest.raises(Corrupt, match=r"manifest\.json was altered"):
        verify_package(other.path, manifest_sha256=package.manifest_sha256)


def test_a_file_that_does_not_belong_is_named(package: EvidencePackage) -> None:
    """Nobody should believe that it was verified."""
    (package.path / "more.jsonl").write_text("{}\n")

    with pytest.raises(Corrupt, match=r"more\.jsonl does not belong"):
        verify_package(package.path)


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b'{"format": 2}', b'{"format": 1, "files": {}}', b"\xff"]
)
def test_a_damaged_manifest_is_reported(package: EvidencePackage, manifest: bytes) -> None:
    """A package comes from outside: no raw exception."""
    (package.path / "manifest.json").write_bytes(manifest)

    with pytest.raises(Corrupt, match=r"manifest\.json"):
        verify_package(package.path)


def test_a_folder_without_a_manifest_is_not_a_package(tmp_path: Path) -> None:
    """It says what is missing."""
    with pytest.raises(NotFound, match="no manifest"):
        verify_package(tmp_path)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "x" * 101, "ü", "a b"])
def test_an_id_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    """It becomes the name of a folder, and nothing outside may be written."""
    with pytest.raises(Incorrect, match="not an id of a submission"):
        write_package(tmp_path, name, be_id="b", contents={name: [] for name in FILES})

    assert list(tmp_path.iterdir()) == []


def test_a_package_is_never_overwritten(package: EvidencePackage) -> None:
    """It may have been sent."""
    with pytest.raises(Incorrect, match="exists already"):
        write_package(
            package.path.parent, "graft-1", be_id="b", contents={name: [] for name in FILES}
        )


def test_a_package_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Half a package would look like one that was altered."""
    contents = {name: [{"n": 1}] for name in FILES} | {FILES[-1]: [{"n": object()}]}

    with pytest.raises(TypeError):
        write_package(tmp_path, "graft-1", be_id="b", contents=contents)

    assert list(tmp_path.iterdir()) == []
