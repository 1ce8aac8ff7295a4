"""Detects the format of a recorded session and reads it. Pure.

    pi, claude-code, codex   one JSON object per line
    openhands                an array of events, an object with ``history``, or one event per line
    gemini                   one record per line; before version 0.50 or so an object
    opencode                 what ``opencode export`` writes: an object with ``info``
    anthropic, openai        an array of messages, a request with one, or one message per line

A line that is invalid JSON, or invalid in its format, raises ``Incorrect`` with its number; the
rest of such a file is not read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctxmgr.errors import Incorrect
from ctxmgr.recordings import (
    claude_code,
    codex,
    gemini,
    message_arrays,
    opencode,
    openhands,
    pi,
)
from ctxmgr.recordings.recorder import Recorder, Recording

RECORDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of one file, which is read into memory."""

ENTRIES_MAX: Final = 1_000_000
"""Entries of one file; a session of weeks has some ten thousand."""

_BOM: Final = b"\xef\xbb\xbf"

_BLANKS_MAX: Final = 65_536
"""White space that may precede a recording."""

_ENTRIES_FIELDS: Final = ("messages", "history", "trajectory", "events")
"""Fields that hold the entries if the file is one object."""

_ID_FIELDS: Final = ("id", "session_id", "sessionId")
"""Fields of such an object that may hold the session's id."""

_DETECTION_ENTRIES: Final = 50
"""Entries that are examined to detect the format."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of one harness."""

    name: str
    recognises: Callable[[Sequence[Mapping[str, Any]]], bool]
    selected: Callable[[Sequence[Mapping[str, Any]]], Iterable[tuple[int, Mapping[str, Any]]]]
    """Returns what belongs to the conversation, in its order, with the position of the entry."""
    read: Callable[[Mapping[str, Any], Recorder], None]


FORMATS: Final = {
    format_.name: format_
    for format_ in (
        *(
            Format(module.NAME, module.recognises, module.selected, module.read)
            for module in (pi, claude_code, codex, openhands, gemini, opencode)
        ),
        Format(
            message_arrays.ANTHROPIC,
            message_arrays.recognises_anthropic,
            message_arrays.selected,
            message_arrays.read,
        ),
        Format(
            message_arrays.OPENAI,
            message_arrays.recognises_openai,
            message_arrays.selected,
            message_arrays.read,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    values: tuple[Mapping[str, Any], ...]
    positions: tuple[str, ...]
    """The position of each value in the file, for error messages."""
    envelope: Mapping[str, Any]
    """The object that holds the entries; empty if there is none."""


def read_recording(data: bytes, *, form: str | None = None) -> Recording:
    """Read a file; ``form`` is one of ``FORMATS``, or None to detect the format."""
    if len(data) > RECORDING_BYTES_MAX:
        raise Incorrect(
            f"the recording has {len(data):,} bytes; at most {RECORDING_BYTES_MAX:,} are read"
        )
    entries = _parse(data)
    format_ = _find_format(entries.values, form)
    recorder = Recorder()
    envelope = entries.envelope
    model = envelope.get("model")
    recorded_id = next(filter(None, map(envelope.get, _ID_FIELDS)), None)
    recorder.model = model if isinstance(model, str) else None
    recorder.recorded_id = recorded_id if isinstance(recorded_id, str) else None
    values: Sequence[Mapping[str, Any]] = entries.values
    if format_.name == opencode.NAME:
        with _reporting("info", format_.name):
            opencode.read_info(envelope["info"], recorder)
            values = opencode.before_revert(values, envelope["info"])
    if "system" in envelope:
        with _reporting("the system prompt", format_.name):
            message_arrays.read({"role": "system", "content": envelope["system"]}, recorder)
    with _reporting("the links between the entries", format_.name):
        selected = format_.selected(values)
    for n, entry in selected:
        with _reporting(entries.positions[n], format_.name):
            format_.read(entry, recorder)
    with _reporting("the file", format_.name):
        return recorder.finished(format_.name)


def _find_format(entries: Sequence[Mapping[str, Any]], form: str | None) -> Format:
    names = ", ".join(FORMATS)
    if form is not None:
        if form not in FORMATS:
            raise Incorrect(f"unknown recording format {form!r:.80} (one of: {names})")
        return FORMATS[form]
    first = entries[:_DETECTION_ENTRIES]
    for format_ in FORMATS.values():
        if _recognises(format_, first):
            return format_
    raise Incorrect(f"the recording is in none of the known formats ({names})")


def _recognises(format_: Format, entries: Sequence[Mapping[str, Any]]) -> bool:
    try:
        return format_.recognises(entries)
    except _INVALID:  # such as a list where a format has a word
        return False


_INVALID: Final = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What reading a value raises that has another type or size than its format says."""


@contextmanager
def _reporting(position: str, name: str) -> Iterator[None]:
    """Report what is invalid as ``Incorrect``, with its position in the file."""
    try:
        yield
    except KeyError as error:
        raise Incorrect(f"{position}: the field {error} of {name} is missing") from error
    except _INVALID as error:
        raise Incorrect(f"{position}: invalid in {name}: {error!s:.200}") from error
    except Incorrect as error:
        raise Incorrect(f"{position}: {error}") from error


def _parse(data: bytes) -> _Entries:
    start = data[: len(_BOM) + _BLANKS_MAX].removeprefix(_BOM).lstrip()[:1]
    if start not in {b"[", b"{"}:
        raise Incorrect("line 1: a recording is JSON or JSON lines, and begins with { or [")
    if start == b"{" and _has_lines(data):
        return _parse_lines(data)
    text = _decoded(data)
    try:
        whole = _loads(text)
    except RecursionError as error:
        raise Incorrect("line 1: the JSON is nested too deeply") from error
    except ValueError as error:
        if start == b"[":
            raise Incorrect(f"line {getattr(error, 'lineno', 1)}: invalid JSON: {error}") from error
        return _parse_lines(data)
    envelope: Mapping[str, Any] = {}
    values = whole
    if isinstance(whole, dict):
        field = next((name for name in _ENTRIES_FIELDS if isinstance(whole.get(name), list)), None)
        values, envelope = (whole[field], whole) if field else ([whole], {})
    if len(values) > ENTRIES_MAX:
        raise Incorrect(f"a recording has at most {ENTRIES_MAX:,} entries, not {len(values):,}")
    positions = tuple(f"entry {number}" for number in range(1, len(values) + 1))
    checked = tuple(map(_check_entry, values, positions))
    return _Entries(values=checked, positions=positions, envelope=envelope)


def _has_lines(data: bytes) -> bool:
    """Whether the first line is a value of its own, and there are others."""
    end = data.find(b"\n")
    if end < 0 or data.find(b"{", end) < 0:
        return False
    try:
        return isinstance(_loads(data[:end].removeprefix(_BOM)), dict)
    except (ValueError, RecursionError):
        return False


def _parse_lines(data: bytes) -> _Entries:
    """Parse line by line, without another copy of the file: it may be large."""
    values: list[Mapping[str, Any]] = []
    positions: list[str] = []
    for number, line in enumerate(_lines(data), start=1):
        if not line.strip():
            continue
        position = f"line {number}"
        if len(values) == ENTRIES_MAX:
            raise Incorrect(f"{position}: a recording has at most {ENTRIES_MAX:,} entries")
        try:
            value = _loads(line)
        except UnicodeDecodeError as error:
            raise Incorrect(f"{position}: invalid UTF-8 ({error.reason})") from error
        except (ValueError, RecursionError) as error:
            raise Incorrect(f"{position}: invalid JSON: {error}") from error
        values.append(_check_entry(value, position))
        positions.append(position)
    return _Entries(values=tuple(values), positions=tuple(positions), envelope={})


def _lines(data: bytes) -> Iterator[bytes]:
    start = len(_BOM) if data.startswith(_BOM) else 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Incorrect(f"line {line}: invalid UTF-8 ({error.reason})") from error


def _loads(text: str | bytes) -> Any:
    """Parse JSON fast; what only the slower parser reads, such as lone surrogates, it reads."""
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text.decode() if isinstance(text, bytes) else text)


def _check_entry(value: object, position: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Incorrect(f"{position}: an entry is an object, not {value!r:.80}")
    return value
