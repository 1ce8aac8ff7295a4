"""The paths under which an agent knows its files, and where these files are now. Reads the store.

A session may be resumed where its files lie elsewhere: on another machine, or with another folder
of the host mounted at the same place. Its turn records say what the agent was shown then.

    a file on a mount          the path of the mount, as ever
    out of reach               the path that the last record has of it, or the one that the mounts
                               of that record give
    neither                    a mark and the name: a host's path is never shown to a model

    Relocation                 old folder → new folder; the files of the one are those of the other
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from ctxmgr.core.files.mounts import FileLocation, MountMapping, Mounts
from ctxmgr.core.history.turn_records import ShownReader, TurnRecord, shown_at
from ctxmgr.core.objects.envelope import turn_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.sessions.lineage import lineage, owner
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Corrupt, Incorrect

OUT_OF_REACH: Final = "[out of reach]"
"""Begins the path of a file that the agent never saw under one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPaths:
    """What a session's last turn record says of its files."""

    shown: Mapping[str, str] = field(default_factory=dict, repr=False)
    """File → the path that the agent was shown."""
    mounts: tuple[MountMapping, ...] = ()
    """The mounts of the turn."""

    @classmethod
    async def read(cls, store: Store, session_id: str, *, turn: int) -> Self:
        """Read the record of a turn, and those that it continues."""
        if turn < 1:
            return cls()
        holder = owner(await lineage(store, session_id), turn)
        version = await store.get(turn_id(holder, number=turn))
        if version is None:
            return cls()
        last = TurnRecord.from_document(version.document)
        versions = await store.get_many(last.needed())
        if len(versions) < len(last.needed()):
            raise Corrupt(f"a record that {last.object_id} continues is missing")
        reader = ShownReader()
        chain = [
            TurnRecord.from_document(version.document, shown=reader)
            for version in versions.values()
        ]
        paths = {
            shown.object_id: shown.display_path
            for shown in shown_at(chain).values()
            if shown.display_path is not None
        }
        return cls(shown=paths, mounts=tuple(map(_mapping, last.mounts)))

    def path_of(self, file: File, *, mounts: Mounts) -> str:
        """Return the path of a file that a client with these mounts does not reach."""
        source = file.source
        assert isinstance(source, FilesystemSource), "the only source type there is"
        if not mounts.sandboxed:  # the agent's paths are those of hosts
            return self.shown.get(file.object_id, source.path)
        path = self.shown.get(file.object_id)
        if path is not None and path != source.path:
            return path
        location = _location(source)
        then = Mounts.of_sandbox(self.mounts, own_id=mounts.default_filesystem_id)
        on_mount = then.reached_at(location)
        if on_mount is not None:
            return on_mount
        hosts = {mapping.filesystem_id for mapping in (*self.mounts, *mounts.mappings)}
        if path is not None and source.filesystem_id not in hosts:
            return path  # of a sandbox's own filesystem, where it is the agent's path
        return f"{OUT_OF_REACH}/{source.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """A folder whose files are elsewhere now."""

    old: MountMapping
    """With ``ANY_FILESYSTEM``, the folder of whichever filesystem."""
    new: MountMapping

    def moved(self, source: FilesystemSource) -> FilesystemSource | None:
        """Return where a file is now; None if it was not in the folder."""
        if self.old.filesystem_id not in {ANY_FILESYSTEM, source.filesystem_id}:
            return None
        relative = _relative(source.path, self.old.canonical_prefix)
        if relative is None:
            return None
        path = f"{self.new.canonical_prefix.rstrip('/')}/{relative}".rstrip("/") or "/"
        return FilesystemSource(filesystem_id=self.new.filesystem_id, path=path)


ANY_FILESYSTEM: Final = "*"
"""The filesystem of a folder that was named by its path alone."""


def remounted(known: KnownPaths, mounts: Mounts) -> tuple[Relocation, ...]:
    """Return the folders in whose place another one is mounted now, the more specific ones first.

    The agent knows a file by its path, and finds there what is mounted now.
    """
    now = {mapping.agent_prefix: mapping for mapping in mounts.mappings}
    folders = [
        Relocation(old=old, new=now[old.agent_prefix])
        for old in known.mounts
        if old.agent_prefix in now
        and old != now[old.agent_prefix]
        and mounts.is_on_host(now[old.agent_prefix])
    ]
    return _most_specific_first(folders)


def named_folders(relocate: Mapping[str, str], mounts: Mounts) -> tuple[Relocation, ...]:
    """Return the folders that the harness names: that of the old host → that of this one."""
    return _most_specific_first(_named(old, new, mounts) for old, new in relocate.items())


def moved(source: FilesystemSource, folders: Iterable[Relocation]) -> FilesystemSource | None:
    """Return where a file is now; None if none of the folders contains it."""
    for folder in folders:
        found = folder.moved(source)
        if found is not None and found != source:
            return found
    return None


def _most_specific_first(folders: Iterable[Relocation]) -> tuple[Relocation, ...]:
    return tuple(sorted(folders, key=lambda folder: -len(folder.old.canonical_prefix)))


def _named(old: str, new: str, mounts: Mounts) -> Relocation:
    before = MountMapping(agent_prefix="/", canonical_prefix=old, filesystem_id=ANY_FILESYSTEM)
    within = [
        mapping
        for mapping in mounts.mappings
        if mounts.is_on_host(mapping) and _relative(new, mapping.canonical_prefix) is not None
    ]
    if within:
        filesystem_id = max(within, key=lambda mapping: len(mapping.canonical_prefix)).filesystem_id
    elif not mounts.sandboxed:
        filesystem_id = mounts.default_filesystem_id
    else:
        raise Incorrect(f"relocate: {new!r:.200} is not on a mount of this client")
    after = MountMapping(agent_prefix="/", canonical_prefix=new, filesystem_id=filesystem_id)
    return Relocation(old=before, new=after)


def _relative(path: str, prefix: str) -> str | None:
    if path == prefix:
        return ""
    below = prefix.rstrip("/") + "/"
    return path.removeprefix(below) if path.startswith(below) else None


def _mapping(value: Mapping[str, str]) -> MountMapping:
    return MountMapping(
        agent_prefix=value["agentPrefix"],
        canonical_prefix=value["canonicalPrefix"],
        filesystem_id=value["filesystemId"],
    )


def _location(source: FilesystemSource) -> FileLocation:
    return FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
