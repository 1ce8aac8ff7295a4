"""EDN cut into tokens, and what a single token means. Pure.

Ours: texts, keywords, integers, floats, decimals, symbolic numbers, instants. Everything else —
symbols, ratios, named and numbered characters, hexadecimal integers — is read by edn-format, token
by token, and remembered.

Where edn-format is wrong it is not asked: it rounds decimals to 28 digits, reads ``\\formfeed`` as
two forms and takes Python's own escapes in texts.
"""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

import edn_format
import orjson

from ctxmgr.stores.edn import Char, EdnError, Inst, Keyword, Symbol, Tagged

KEYWORDS_MAX: Final = 4_096
"""Keywords remembered between texts: far more than there are field names."""

INSTANTS_MAX: Final = 1_024
"""Instants remembered: what one transaction wrote begins at the same one."""

DIGITS_MAX: Final = 4_300
"""Digits of an integer: where Python itself refuses a slow conversion."""

_END: Final = r'\s,\x1c-\x1f()\[\]{}";^\\'

TOKENS: Final = re.compile(
    rf"""
      "[^"\\]*+(?:\\.[^"\\]*+)*+"        # text
    | :[^{_END}]++                       # keyword
    | [()\[\]{{}}]
    | [^{_END}\#:][^{_END}]*+            # number, symbol
    | \#inst[ ]*+"[^"\\]*+"              # an instant in one piece, as the server prints it
    | \#:[^{_END}]++[\s,]*+\{{           # map with a namespace
    | \#\{{
    | \#_
    | \#[^{_END}]*+                      # tag, symbolic number
    | \\.[^{_END}]*+                     # character
    | ;[^\n]*+
    | ".*+                               # text that never ends
    | [^\s,\x1c-\x1f]
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
QUOTES: Final = re.compile(r'"(?<![^\\]\\")')
"""Quotes, but for those behind a single backslash; behind two, what they are is open."""

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_BODY: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:[trn\\"bf/]|u[0-9a-fA-F]{4}|([0-3]?[0-7]{1,2})|(.?))', re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(M?)")
_NUMBER_START: Final = re.compile(r"[+-]?[0-9]")
_KEYWORD: Final = re.compile(r":(?!:)(?:/|[^/].*)(?<!:)", re.DOTALL)
_INSTANT: Final = re.compile(
    r"([0-9]{4,9})(?:-([0-9]{2})(?:-([0-9]{2})"
    r"(?:T([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?)?)?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_PRINTED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-00:00", re.ASCII)
_NAMED: Final[dict[str, Any]] = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": float("inf"),
    "##-Inf": float("-inf"),
    "##NaN": float("nan"),
    "\\formfeed": Char("\f"),
    "\\backspace": Char("\b"),
}


class Keywords(dict[str, Keyword]):
    """The keywords of tokens that begin with a colon."""

    def __missing__(self, token: str) -> Keyword:
        if not _KEYWORD.fullmatch(token):
            raise EdnError(f"{_shown(token)} is no keyword")
        keyword = Keyword(token[1:])
        if len(self) < KEYWORDS_MAX:
            self[token] = keyword
        return keyword


KEYWORDS: Final = Keywords()


def read_atom(token: str) -> Any:
    """Return the value of a number, symbol, character or named constant."""
    if token.isdecimal() and token.isascii() and token[0] != "0" and len(token) < DIGITS_MAX:
        return int(token)
    if token in _NAMED:
        return _NAMED[token]
    if _INTEGER.fullmatch(token):
        return _integer(token)
    number = _FLOAT.fullmatch(token)
    if number:
        return _decimal(token) if number[1] else float(token)
    if token[0] == "\\" and len(token) == 2:  # noqa: PLR2004 -- the backslash and its character
        return Char(token[1])
    return _primed(token) if "'" in token[1:] else _read_elsewhere(token)


def read_text(token: str) -> str:
    """Return the text between the quotes, with its escapes undone."""
    if "\\" not in token:
        return token[1:-1]
    try:
        return orjson.loads(token)  # type: ignore[no-any-return]  # JSON's escapes are EDN's, and \/
    except orjson.JSONDecodeError:
        return _unusual_text(token)


def read_tag(tag: str, value: Any) -> Any:
    """Return what a tag makes of the value: an instant, or the two together."""
    if tag != "inst":
        return Tagged(tag, value)
    if not isinstance(value, str):
        raise EdnError("an instant is a string")
    return _instant(value)


def is_open_text(token: str) -> bool:
    """Say whether this is a string whose closing quote is missing. Only a last token can be."""
    return token[0] == '"' and not _STRING.fullmatch(token)


def body_end(text: str, start: int) -> int:
    """Return where the body of a string stops: at its quote, at half an escape, or at the end."""
    found = _STRING_BODY.match(text, start)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


@lru_cache(maxsize=INSTANTS_MAX)
def _instant(text: str) -> Inst | Tagged:
    try:
        return Inst.from_iso(text if _PRINTED.fullmatch(text) else _completed(text))
    except (ValueError, OverflowError):
        return Tagged("inst", text)


def _integer(token: str) -> int:
    if len(token) > DIGITS_MAX:
        raise EdnError(f"an integer has {DIGITS_MAX} digits at most")
    return int(token.removesuffix("N"))


def _primed(token: str) -> Symbol:
    """Read a symbol such as ``x'``, which edn-format does not know, as if without its primes."""
    if not isinstance(_read_elsewhere(token[0] + token[1:].replace("'", "_")), Symbol):
        raise EdnError(f"{_shown(token)} is no EDN")
    return Symbol(token)


def _decimal(token: str) -> Decimal:
    try:
        return Decimal(token[:-1])
    except InvalidOperation as error:
        raise EdnError(f"{_shown(token)} is no decimal") from error


def _completed(instant: str) -> str:
    parts = _INSTANT.fullmatch(instant)
    if parts is None:
        raise EdnError(f"{_shown(instant)} is no instant")
    year, month, day, hour, minute, second, fraction, zone = parts.groups()
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{fraction or '0':0<6.6}"
    return f"{year}-{month or '01'}-{day or '01'}T{clock}{zone or 'Z'}"


def _unusual_text(token: str) -> str:
    """Read a text with raw control characters, octal escapes or halves of characters."""
    text, _end = scanstring(_ESCAPE.sub(_json_escape, token), 1, False)
    try:
        return str(text.encode("utf-16", "surrogatepass"), "utf-16")
    except UnicodeDecodeError as error:
        raise EdnError("a string holds a lone surrogate, which is no character") from error


def _json_escape(found: re.Match[str]) -> str:
    if found[2] is not None:
        raise EdnError(f"\\{found[2]} is no escape of a string")
    return f"\\u{int(found[1], 8):04x}" if found[1] else found[0]


@lru_cache(maxsize=KEYWORDS_MAX)
def _read_elsewhere(token: str) -> Any:
    try:
        found = edn_format.loads_all(token, write_ply_tables=False)
    except (ValueError, ArithmeticError, NotImplementedError) as error:
        raise EdnError(f"{_shown(token)} is no EDN") from error
    if len(found) != 1:
        raise EdnError(f"{_shown(token)} is no EDN")
    if isinstance(found[0], edn_format.Symbol):
        return _symbol(found[0].name)
    if isinstance(found[0], edn_format.Char):
        return Char(str(found[0]))
    if isinstance(found[0], int | Fraction):
        return found[0]
    raise EdnError(f"{_shown(token)} is no EDN")


def _symbol(name: str) -> Symbol:
    if _NUMBER_START.match(name):
        raise EdnError(f"{_shown(name)} is no number")
    return Symbol(name)


def _shown(token: str) -> str:
    return token if len(token) <= 40 else f"{token[:40]}…"  # noqa: PLR2004 -- enough to find it
