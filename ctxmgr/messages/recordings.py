"""Files of recorded sessions: which format one is in, and what it tells. Pure.

    pi, claude-code, codex   one JSON value a line
    openhands                an array of events, or an object with ``history``, or one a line
    anthropic, openai        an array of messages, or a request around one, or one a line

Nothing is guessed at: a line that is no JSON, or not as its format writes it, is ``Incorrect`` and
named, and nothing is read of such a file.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.messages import (
    recorded_arrays,
    recorded_claude_code,
    recorded_codex,
    recorded_openhands,
    recorded_pi,
)
from ctxmgr.messages.recorded import Recorder, Recording

RECORDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of one file: it is read as a whole."""

_AROUND: Final = ("messages", "history", "trajectory", "events")
"""Names that an object around the entries gives them."""

_RECOGNISED_BY: Final = 50
"""Entries that are looked at to tell the format."""


@dataclass(frozen=True, slots=True)
class Format:
    """How one harness writes."""

    name: str
    recognises: Callable[[Sequence[Mapping[str, Any]]], bool]
    wanted: Callable[[Sequence[Mapping[str, Any]]], set[int]]
    """Which entries are part of the conversation, by position."""
    read: Callable[[Mapping[str, Any], Recorder], None]


FORMATS: Final = {
    each.name: each
    for each in (
        *(
            Format(module.NAME, module.recognises, module.wanted, module.read)
            for module in (recorded_pi, recorded_claude_code, recorded_codex, recorded_openhands)
        ),
        Format(
            recorded_arrays.ANTHROPIC,
            recorded_arrays.recognises_anthropic,
            recorded_arrays.wanted,
            recorded_arrays.read,
        ),
        Format(
            recorded_arrays.OPENAI,
            recorded_arrays.recognises_openai,
            recorded_arrays.wanted,
            recorded_arrays.read,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    values: tuple[Mapping[str, Any], ...]
    places: tuple[str, ...]
    """Where each stands, for whoever must mend it."""
    around: Mapping[str, Any]


def read_recording(data: bytes, *, form: str | None = None) -> Recording:
    """Read a whole file; ``form`` is one of ``FORMATS``, and None tells by what is in it."""
    if len(data) > RECORDING_BYTES_MAX:
        raise Incorrect(f"{len(data):,} bytes; a recording has {RECORDING_BYTES_MAX:,} at most")
    entries = _entries(_text(data))
    known = _format(entries.values, form)
    recorder = Recorder()
    _read_around(entries.around, recorder)
    wanted = _wanted(known, entries.values)
    for n, (entry, place) in enumerate(zip(entries.values, entries.places, strict=True)):
        if n in wanted:
            _read(known, entry, place, recorder)
    return recorder.finished(known.name)


def _read(known: Format, entry: Mapping[str, Any], place: str, recorder: Recorder) -> None:
    try:
        known.read(entry, recorder)
    except KeyError as error:
        raise Incorrect(f"{place}: {known.name} writes {error} there, and it is missing") from error
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise Incorrect(f"{place}: not as {known.name} writes it: {error}") from error
    except Incorrect as error:
        raise Incorrect(f"{place}: {error}") from error


def _wanted(known: Format, entries: Sequence[Mapping[str, Any]]) -> set[int]:
    try:
        return known.wanted(entries)
    except (KeyError, TypeError) as error:
        raise Incorrect(
            f"the entries do not join up as {known.name} writes them: {error}"
        ) from error


def _format(entries: Sequence[Mapping[str, Any]], form: str | None) -> Format:
    if form is not None:
        if form not in FORMATS:
            raise Incorrect(f"{form!r:.80} is no format of recordings; known: {', '.join(FORMATS)}")
        return FORMATS[form]
    first = entries[:_RECOGNISED_BY]
    for known in FORMATS.values():
        if known.recognises(first):
            return known
    raise Incorrect(f"this is no recording in a known format; known: {', '.join(FORMATS)}")


def _read_around(around: Mapping[str, Any], recorder: Recorder) -> None:
    model, name = around.get("model"), around.get("id") or around.get("session_id")
    recorder.model = model if isinstance(model, str) else None
    recorder.recorded_id = name if isinstance(name, str) else None
    if "system" in around:
        recorded_arrays.read({"role": "system", "content": around["system"]}, recorder)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Incorrect(f"line {line}: no UTF-8 text ({error.reason})") from error


def _entries(text: str) -> _Entries:
    start = text.lstrip()[:1]
    if start not in {"[", "{"}:
        raise Incorrect("line 1: a recording begins with { or [: it is JSON, or JSON line by line")
    try:
        whole = json.loads(text)
    except ValueError as error:
        if start == "[":
            raise Incorrect(f"line {getattr(error, 'lineno', 1)}: no JSON: {error}") from error
        return _lines(text)
    if isinstance(whole, dict):
        name = next((each for each in _AROUND if isinstance(whole.get(each), list)), None)
        return _array(whole[name] if name else [whole], around=whole if name else {})
    return _array(whole, around={})


def _lines(text: str) -> _Entries:
    values, places = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            values.append(_line(line, number))
            places.append(f"line {number}")
    return _Entries(values=tuple(values), places=tuple(places), around={})


def _line(line: str, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise Incorrect(f"line {number}: no JSON: {error}") from error
    return _entry(value, f"line {number}")


def _array(values: Sequence[Any], *, around: Mapping[str, Any]) -> _Entries:
    places = tuple(f"entry {number}" for number in range(1, len(values) + 1))
    checked = tuple(map(_entry, values, places))
    return _Entries(values=checked, places=places, around=around)


def _entry(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Incorrect(f"{place}: an entry is an object, not {value!r:.80}")
    return value
