"""Which file texts the stream holds, and what has to be told of them next. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ctxmgr.core.hashes import sha256
from ctxmgr.core.notices import changed, entered, left
from ctxmgr.core.stream_turns import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveFile:
    """A file that the agent is to see in full."""

    object_id: str
    path: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Text:
    hash: str
    content: str | None
    """None: shown by an earlier client, and only its hash is known here."""
    path: str


class ShownFiles:
    """The texts of active files as they were last shown."""

    def __init__(self) -> None:
        self._shown: dict[str, _Text] = {}
        self._handles: dict[str, str] = {}

    def hashes(self) -> dict[str, str]:
        """Return what a record keeps: the hash of each text."""
        return {object_id: text.hash for object_id, text in self._shown.items()}

    def restore(self, hashes: Mapping[str, str], notices: Iterable[Notice]) -> None:
        """Take over what a record says was shown."""
        self._shown = {each: _Text(hashed, None, each) for each, hashed in hashes.items()}
        self._handles.update((each.object_id, each.handle) for each in notices)

    def notices(
        self,
        active: Iterable[ActiveFile],
        *,
        told: Collection[str],
        next_handle: Callable[[], str],
    ) -> Iterator[Notice]:
        """Tell of every file that entered, changed or left, one by one.

        ``told`` are files that the agent has just read or written itself: its own tool calls show
        them. ``next_handle`` is asked once per new file, after the notice before was taken.
        """
        current = {each.object_id: each for each in active}
        for object_id in [each for each in self._shown if each not in current]:
            gone = self._shown.pop(object_id)
            if object_id in self._handles:
                yield left(self._handles[object_id], object_id, path=gone.path)
        for file in current.values():
            before = self._shown.get(file.object_id)
            hashed = sha256(file.content.encode())
            self._shown[file.object_id] = _Text(hashed, file.content, file.path)
            if file.object_id in told or (before is not None and before.hash == hashed):
                continue
            handle = self._handles.get(file.object_id) or next_handle()
            self._handles[file.object_id] = handle
            if before is None:
                yield entered(handle, file.object_id, path=file.path, content=file.content)
            else:
                yield changed(
                    handle,
                    file.object_id,
                    path=file.path,
                    before=before.content,
                    content=file.content,
                )
