"""Benchmark of the EDN reader against edn-format, on documents as a store reads them."""

from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Final

import edn_format

from ctxmgr.bench.report import Figure, at_least
from ctxmgr.bench.stores.saved_session import saved_turns
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.documents import Document
from ctxmgr.stores.edn.reader import loads
from ctxmgr.stores.edn.values import Keyword, dumps

_FILE_BYTES: Final = 100_000
_CHAT_TURNS: Final = 200
_LINE: Final = '    return compute(first, second)  # näher, \\ "quoted"\n'


def edn_figures(*, quick: bool) -> list[Figure]:
    """Decode a file document and a chat as XTDB sends them."""
    rounds = 3 if quick else 9
    *_, last = saved_turns("edn", turns=_CHAT_TURNS)
    chat = _edn(last.puts[0].document)
    return [
        _compare("EDN decode, file document of 100 KB", _file(), bound=20, rounds=rounds),
        _compare("EDN decode, chat of 200 turns", chat, bound=6, rounds=rounds),
    ]


def _compare(what: str, text: str, *, bound: float, rounds: int) -> Figure:
    ours = min(_seconds(lambda: loads(text)) for _ in range(rounds * 3))
    theirs = min(_seconds(lambda: edn_format.loads(text)) for _ in range(max(rounds // 3, 1)))
    megabytes = len(text.encode()) / 1e6
    note = f"{megabytes / ours:.0f} MB/s, edn-format {megabytes / theirs:.1f} MB/s"
    return at_least(what, theirs / ours, bound=bound, against="edn-format", note=note)


def _file() -> str:
    random = Random(1)  # noqa: S311 - filler
    lines: list[str] = []
    size = 0
    while size < _FILE_BYTES:
        lines.append(f"def f{random.getrandbits(30)}(first, second):\n{_LINE}")
        size += len(lines[-1])
    source = FilesystemSource(filesystem_id="a" * 64, path="/project/module.py")
    return _edn(to_document(File.read(source, data="".join(lines).encode())))


def _edn(document: Document) -> str:
    return dumps({Keyword(name): value for name, value in document.items()})


def _seconds(run: Callable[[], object]) -> float:
    started = perf_counter()
    run()
    return perf_counter() - started
