"""Reads EDN: complete texts, and lists that arrive in chunks. Pure.

A text is split at its quotes where that is safe, which is fast and nearly always possible, and
otherwise into tokens by one regular expression; ``forms`` builds the values.

A truncated number or name at the top level cannot be detected: ``12`` may have been ``123``.
"""

import codecs
from typing import Any, Final, TypeAlias

from ctxmgr.stores.edn.forms import ADD, Builder, Step, steps_of
from ctxmgr.stores.edn.tokens import QUOTES, TOKENS, body_end, is_open_text, read_tag, read_text
from ctxmgr.stores.edn.values import EdnError, EdnTruncated

PIECES_MAX: Final = 4_096
"""Cached pieces between strings: some hundred are common, the others contain numbers."""

PIECE_LENGTH_MAX: Final = 256
"""Characters of a piece that is cached: longer ones are vectors of numbers."""

_Piece: TypeAlias = tuple[tuple[Any, ...], tuple[Step, ...], bool]


def loads(text: str | bytes) -> Any:
    """Read a text with one form. Raises ``EdnError``, or ``EdnTruncated`` if it ends early."""
    if not isinstance(text, str):
        text = _decode(text)
    try:
        return _read_by_quotes(text)
    except (_Unusual, EdnError):
        return _read_by_tokens(text)


class ListReader:
    """Reads one list or vector as it arrives, element by element."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._builder = Builder()
        self._rest = ""
        self._open_text: list[str] = []

    def feed(self, data: bytes) -> list[Any]:
        """Take the next bytes and return the elements they completed."""
        try:
            text = self._join_open_text(self._decoder.decode(data))
        except UnicodeDecodeError as error:
            raise EdnError(f"not UTF-8: {error.reason}") from error
        if text is None:
            return []
        self._builder.take(steps_of(self._whole_tokens(text)))
        return self._builder.take_elements()

    def finish(self) -> None:
        """Signal the end of the input. Raises ``EdnTruncated`` if the list is still open."""
        if self._open_text or self._decoder.getstate()[0] or self._builder.stack:
            raise EdnTruncated("the text ends before the list does")
        self._builder.take(steps_of(TOKENS.findall(self._rest)))
        self._builder.take_elements()
        if not self._builder.items:
            raise EdnTruncated("no list")

    def _join_open_text(self, text: str) -> str | None:
        """Return the text kept so far and the new text, or None while a string is still open.

        A long string is scanned once: its chunks are joined when its end arrives.
        """
        text = self._rest + text
        if not self._open_text:
            return text
        end = body_end(text, 0)
        if end == len(text) or text[end] != '"':
            self._open_text.append(text[:end])
            self._rest = text[end:]
            return None
        whole = "".join([*self._open_text, text])
        self._open_text = []
        return whole

    def _whole_tokens(self, text: str) -> list[str]:
        """Split the text into tokens, holding back the last one if it may continue."""
        tokens: list[str] = TOKENS.findall(text)
        self._rest = ""
        if not tokens or tokens[-1] in "()[]{}":
            return tokens
        last = tokens.pop()
        if is_open_text(last):
            end = body_end(last, 1)
            self._open_text, self._rest = [last[:end]], last[end:]
        elif last[0] == '"':
            tokens.append(last)
        else:
            self._rest = text[text.rindex(last) :]
        return tokens


class _Unusual(Exception):  # noqa: N818 -- never leaves this module
    """A quote may be in a character, in a comment or after an escape: tokens are needed."""


def _read_by_quotes(text: str) -> Any:
    """Read a text in which every quote that is not escaped starts or ends a string.

    The text is split at the quotes, without scanning the strings. The short pieces between them,
    such as ``, :type ``, are repeated often, so their values are cached. Errors are reported by
    ``_read_by_tokens``, which reads everything.
    """
    *parts, last = QUOTES.split(text)
    if len(parts) % 2:
        raise _Unusual
    builder, cache, pairs = Builder(), _PIECES, iter(parts)
    for piece, value in zip(pairs, pairs, strict=True):
        atoms, steps, dated = cache[piece]
        if steps:
            builder.take(steps)
        else:
            builder.items.extend(atoms)
        if "\\" in value:
            value = _unescape(value)  # noqa: PLW2901 -- one name less in the hottest loop
        builder.items.append(read_tag("inst", value) if dated else value)
    builder.take(steps_of(TOKENS.findall(_check_plain(last))))
    return builder.only_form()


def _unescape(value: str) -> str:
    if value[-1] == "\\":
        raise _Unusual
    return read_text(f'"{value}"')


def _read_by_tokens(text: str) -> Any:
    tokens = TOKENS.findall(text)
    if tokens and is_open_text(tokens[-1]):
        raise EdnTruncated("the text ends inside a string")
    builder = Builder()
    builder.take(steps_of(tokens[:-1]))
    try:
        builder.take(steps_of(tokens[-1:]))
    except EdnError as error:
        if tokens[-1] not in ")]}" and (builder.stack or tokens[-1][0] in "#:\\"):
            raise EdnTruncated(f"the text ends inside a token: {error}") from error
        raise
    return builder.only_form()


def _decode(data: bytes) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise EdnTruncated("the text ends inside a character") from error
        raise EdnError(f"not UTF-8: {error.reason}") from error


class _PieceCache(dict[str, _Piece]):
    """The values of the pieces between strings; every document repeats the same few."""

    def __missing__(self, piece: str) -> _Piece:
        value = _read_piece(piece)
        if len(piece) <= PIECE_LENGTH_MAX:
            if len(self) >= PIECES_MAX:
                self.clear()
            self[piece] = value
        return value


_PIECES: Final = _PieceCache()


def _read_piece(piece: str) -> _Piece:
    """Return its values or, with brackets or tags, its steps; and whether it ends in ``#inst``."""
    tokens = TOKENS.findall(_check_plain(piece))
    dated = bool(tokens) and tokens[-1] == "#inst"
    steps = steps_of(tokens[:-1] if dated else tokens)
    if len(steps) == 1 and steps[0][0] == ADD:
        return tuple(steps[0][1]), (), dated
    return (), tuple(steps), dated


def _check_plain(piece: str) -> str:
    if "\\" in piece or ";" in piece:
        raise _Unusual
    return piece
