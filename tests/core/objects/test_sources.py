"""Source bindings: a tagged union whose type decides its fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given

from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import (
    FILESYSTEM,
    SOURCE_TYPES,
    FilesystemSource,
    HashOrigin,
    Source,
    SourceType,
    file_type,
    parse_source,
)
from ctxmgr.errors import Incorrect
from tests.core.builders.values import sources

BOUND: Mapping[str, Any] = {"type": "filesystem", "filesystemId": "h", "path": "/a/b.md"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _S3Source:
    kind: ClassVar[str] = "s3"
    bucket: str
    key: str

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def to_value(self) -> dict[str, str]:
        return {"type": "s3", "bucket": self.bucket, "key": self.key}


S3 = SourceType(
    kind="s3",
    fields=("bucket", "key"),
    build=lambda value: _S3Source(bucket=value["bucket"], key=value["key"]),
    hash_origin=HashOrigin.ETAG,
    tracker="s3",
)


@given(sources)
def test_a_binding_is_read_back_unchanged(source: Source) -> None:
    """003-R036, 003-R038: the stored form is complete."""
    assert parse_source(source.to_value()) == source


def test_a_filesystem_binding_has_exactly_three_fields() -> None:
    """003-R037, 003-R043: they are part of the id, so they never change."""
    source = FilesystemSource(filesystem_id="h", path="/a/b.md")

    assert source.to_value() == BOUND


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a source must be a map, not None"),
        ({}, r"unknown source type None \(one of: filesystem\)"),
        ({**BOUND, "type": "ftp"}, r"unknown source type 'ftp' \(one of: filesystem\)"),
        ({"type": "filesystem", "path": "/a"}, "a filesystem source needs filesystemId"),
        ({"type": "filesystem", "filesystemId": "h"}, "a filesystem source needs path"),
        ({**BOUND, "inode": "7"}, "a filesystem source has no field 'inode'"),
        ({**BOUND, "filesystemId": ""}, "source filesystemId must be a non-empty string, not ''"),
        ({**BOUND, "path": 7}, "source path must be a non-empty string, not 7"),
        ({**BOUND, "path": "/\udcff"}, "source path: the text contains a lone surrogate"),
    ],
)
def test_a_binding_with_other_fields_is_refused(value: object, message: str) -> None:
    """003-R036, 003-R037: a wrong binding would permanently be another object."""
    with pytest.raises(Incorrect, match=message):
        parse_source(value)


@pytest.mark.parametrize("path", ["a.md", "./a", "~/a", "C:\\a"])
def test_a_relative_path_is_refused(path: str) -> None:
    """003-R039: the next client cannot know what it is relative to."""
    with pytest.raises(Incorrect, match="is not absolute"):
        FilesystemSource(filesystem_id="h", path=path)


@pytest.mark.parametrize("path", ["/", "//a", "/a/", "/a//b", "/a/./b", "/a/../b", "/..", "/a\0b"])
def test_a_path_that_is_not_canonical_is_refused(path: str) -> None:
    """003-R039, 003-R044: two spellings of one file would be two objects."""
    with pytest.raises(Incorrect, match="is not canonical"):
        FilesystemSource(filesystem_id="h", path=path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/main.ts", "ts"),
        ("/a/README.MD", "MD"),
        ("/a/x.tar.gz", "gz"),
        ("/a.d/Makefile", ""),
        ("/a/.bashrc", ""),
        ("/a/.config.json", "json"),
        ("/a/name.", ""),
        ("/a/é.日本", "日本"),
    ],
)
def test_the_file_type_is_what_follows_the_last_dot(path: str, expected: str) -> None:
    """003-R068, 003-A32: case is kept; empty if the name has no dot or starts with its only one."""
    assert file_type(FilesystemSource(filesystem_id="h", path=path)) == expected


def test_every_source_type_declares_how_it_is_hashed_and_followed() -> None:
    """003-R042: a client needs both before it binds objects."""
    assert SOURCE_TYPES == {"filesystem": FILESYSTEM}
    assert FILESYSTEM.fields == ("filesystemId", "path")
    assert (FILESYSTEM.hash_origin, FILESYSTEM.tracker) == (HashOrigin.BYTES, "filesystem")


def test_a_file_is_hashed_as_its_source_type_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-R042: hashing the bytes of an object that is compared by its ETag would be wrong."""
    monkeypatch.setattr("ctxmgr.core.objects.file.source_type", lambda _: S3)

    with pytest.raises(Incorrect, match="file_hash of a s3 source is not that of its bytes"):
        File.read(_S3Source(bucket="b", key="a.md"), data=b"text")


def test_a_new_source_type_is_one_entry_and_changes_no_file() -> None:
    """003-R040, 003-R041: new kinds of sources need no change of schemas."""
    value = {"type": "s3", "bucket": "b", "key": "docs/a.md"}

    source = parse_source(value, types={**SOURCE_TYPES, "s3": S3})

    assert source.to_value() == value
    assert File.stub(source).file_type == "md"
