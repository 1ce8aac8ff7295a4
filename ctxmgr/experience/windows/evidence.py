"""Evidence packages: the windows of a submission as files that verify on another machine.

    exports/{submission_id}/
    ├── timesteps.jsonl         one timestep per line, by session and tick
    ├── tag_applications.jsonl  the tags on them, with their names
    ├── comments.jsonl
    ├── windows.jsonl
    └── manifest.json           format, submission, counts, and the SHA-256 of each file

Whoever submits sends the SHA-256 of the manifest along, by another way: it stands for the whole
package. Everything is read as data from outside; nothing in a package names a path. Touches files.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import orjson

from ctxmgr.errors import Corrupt, Incorrect, NotFound

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
FILES: Final = ("timesteps.jsonl", "tag_applications.jsonl", "comments.jsonl", "windows.jsonl")

MANIFEST_BYTES_MAX: Final = 100_000
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of one line: a timestep with the longest content that the log accepts."""

NAME_CHARS_MAX: Final = 100
"""Characters of a submission's id, which becomes the name of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePackage:
    """A package that was written, or verified."""

    path: Path
    submission_id: str
    be_id: str
    records: Mapping[str, int]
    """Lines by file."""
    manifest_sha256: str
    """Stands for the whole package."""


def check_submission_id(submission_id: str) -> None:
    """Raise ``Incorrect`` if an id cannot be the name of a folder."""
    allowed = submission_id.isascii() and all(
        char.isalnum() or char in "-_." for char in submission_id
    )
    if not allowed or submission_id.startswith(".") or not 0 < len(submission_id) <= NAME_CHARS_MAX:
        raise Incorrect(
            f"{submission_id!r:.120} is not an id of a submission: it has up to {NAME_CHARS_MAX}"
            " letters, digits, dashes, underscores and dots, and begins with none of the last"
        )


def write_package(
    exports: Path,
    submission_id: str,
    *,
    be_id: str,
    contents: Mapping[str, Iterable[Mapping[str, Any]]],
) -> EvidencePackage:
    """Write a package to its folder, all or nothing; ``Incorrect`` if it is there already."""
    check_submission_id(submission_id)
    assert set(contents) == set(FILES)
    path = exports / submission_id
    if path.exists():
        raise Incorrect(f"{path} exists already; move it away to export the submission again")
    exports.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=".draft-", dir=exports))
    try:
        files = {name: _write_lines(draft / name, contents[name]) for name in FILES}
        manifest = {
            "format": FORMAT,
            "submission_id": submission_id,
            "be_id": be_id,
            "files": files,
        }
        text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        _write_durably(draft / MANIFEST, text)
        draft.rename(path)
    except BaseException:
        shutil.rmtree(draft)
        raise
    return EvidencePackage(
        path=path,
        submission_id=submission_id,
        be_id=be_id,
        records={name: int(entry["records"]) for name, entry in files.items()},
        manifest_sha256=sha256(text).hexdigest(),
    )


def verify_package(path: Path, *, manifest_sha256: str | None = None) -> EvidencePackage:
    """Check every file of a package against its manifest, and the manifest against its hash.

    ``Corrupt`` names the first file that was altered, is missing, or does not belong to it.
    """
    manifest_path = path / MANIFEST
    if not manifest_path.is_file():
        raise NotFound(f"{path} is not an evidence package: it has no {MANIFEST}")
    if manifest_path.stat().st_size > MANIFEST_BYTES_MAX:
        raise Corrupt(f"{manifest_path} has more than {MANIFEST_BYTES_MAX:,} bytes")
    text = manifest_path.read_bytes()
    found = sha256(text).hexdigest()
    if manifest_sha256 is not None and found != manifest_sha256.lower():
        raise Corrupt(f"{manifest_path} was altered: its SHA-256 is {found}")
    manifest = _parse_manifest(manifest_path, text)
    strangers = sorted({entry.name for entry in path.iterdir()} - {MANIFEST, *FILES})
    if strangers:
        raise Corrupt(f"{path / strangers[0]} does not belong to the package")
    for name in FILES:
        _verify_file(path / name, manifest["files"][name])
    return EvidencePackage(
        path=path,
        submission_id=manifest["submission_id"],
        be_id=manifest["be_id"],
        records={name: manifest["files"][name]["records"] for name in FILES},
        manifest_sha256=found,
    )


def _parse_manifest(path: Path, text: bytes) -> dict[str, Any]:
    try:
        manifest = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"{path} is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Corrupt(f"{path} has another format than {FORMAT}")
    files = manifest.get("files")
    if not isinstance(files, dict) or set(files) != set(FILES):
        raise Corrupt(f"{path} does not list the files {', '.join(FILES)}")
    names_are_texts = all(isinstance(manifest.get(key), str) for key in ("submission_id", "be_id"))
    if not names_are_texts or not all(_is_entry(entry) for entry in files.values()):
        raise Corrupt(f"{path} lacks a name, a hash or a count")
    return manifest


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("sha256"), str)
        and type(entry.get("records")) is int
        and type(entry.get("bytes")) is int
    )


def _verify_file(path: Path, entry: Mapping[str, Any]) -> None:
    if not path.is_file() or path.is_symlink():
        raise Corrupt(f"{path} is missing")
    if path.stat().st_size != entry["bytes"]:
        raise Corrupt(
            f"{path} was altered: it has {path.stat().st_size:,} bytes, not {entry['bytes']:,}"
        )
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    if digest != entry["sha256"]:
        raise Corrupt(f"{path} was altered: its SHA-256 is {digest}")
    with path.open("rb") as file:
        lines = sum(1 for _ in iter(lambda: file.readline(LINE_BYTES_MAX), b""))
    if lines != entry["records"]:
        raise Corrupt(f"{path} has {lines:,} records, not {entry['records']:,}")


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> dict[str, int | str]:
    digest, count, size = sha256(), 0, 0
    with path.open("xb") as file:
        for record in records:
            line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
            file.write(line)
            digest.update(line)
            count, size = count + 1, size + len(line)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": digest.hexdigest(), "records": count, "bytes": size}


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
