r"""EDN tokens and their values. Pure.

This module reads strings, keywords, integers, ratios, floats, decimals, symbolic numbers, instants
and symbols of letters and digits. Everything else (other symbols, named and numbered characters,
hexadecimal integers) is read by edn-format, one token at a time, and cached: it takes
milliseconds for each.

edn-format is not used where it is wrong: it rounds decimals to 28 digits, reads ``\formfeed`` as
two forms, and accepts Python's escapes in strings.
"""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

import edn_format
import orjson

from ctxmgr.stores.edn.values import Char, EdnError, Inst, Keyword, Symbol, Tagged

KEYWORDS_MAX: Final = 4_096
"""Cached keywords: far more than there are field names."""

INSTANTS_MAX: Final = 1_024
"""Cached instants: all versions that a transaction wrote have the same one."""

DIGITS_MAX: Final = 4_300
"""Digits of an integer, beyond which Python refuses the conversion."""

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
"""Quotes, except those after a single backslash; after two, only the tokens decide."""

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_BODY: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:[trn\\"bf/]|u[0-9a-fA-F]{4}|([0-3]?[0-7]{1,2})|(.?))', re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(M?)")
_RATIO: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))/([1-9][0-9]*)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
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
    """The keywords of tokens that start with a colon."""

    def __missing__(self, token: str) -> Keyword:
        if not _KEYWORD.fullmatch(token):
            raise EdnError(f"invalid keyword {_excerpt(token)}")
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
    if _NAME.fullmatch(token):
        return Symbol(token)
    if ratio := _RATIO.fullmatch(token):
        return Fraction(_integer(ratio[1]), _integer(ratio[2]))
    if token[0] == "\\" and len(token) == 2:  # noqa: PLR2004 -- the backslash and its character
        return Char(token[1])
    return _read_primed_symbol(token) if "'" in token[1:] else _read_with_edn_format(token)


def read_text(token: str) -> str:
    """Return the text between the quotes, unescaped."""
    if "\\" not in token:
        return token[1:-1]
    try:
        return orjson.loads(token)  # type: ignore[no-any-return]  # JSON's escapes are EDN's, and \/
    except orjson.JSONDecodeError:
        return _read_escaped_text(token)


def read_tag(tag: str, value: Any) -> Any:
    """Return the value of a tagged form: an instant, or a ``Tagged``."""
    if tag != "inst":
        return Tagged(tag, value)
    if not isinstance(value, str):
        raise EdnError("an instant must be a string")
    return _instant(value)


def is_open_text(token: str) -> bool:
    """Whether this is a string without a closing quote. Only the last token can be one."""
    return token[0] == '"' and not _STRING.fullmatch(token)


def body_end(text: str, start: int) -> int:
    """Return where the body of a string ends: at its quote, at half an escape, or at the end."""
    body = _STRING_BODY.match(text, start)
    assert body is not None, "the pattern matches the empty text"
    return body.end()


@lru_cache(maxsize=INSTANTS_MAX)
def _instant(text: str) -> Inst | Tagged:
    try:
        return Inst.from_iso(text if _PRINTED.fullmatch(text) else _complete_instant(text))
    except (ValueError, OverflowError):
        return Tagged("inst", text)


def _integer(token: str) -> int:
    if len(token) > DIGITS_MAX:
        raise EdnError(f"an integer has at most {DIGITS_MAX} digits")
    return int(token.removesuffix("N"))


def _read_primed_symbol(token: str) -> Symbol:
    """Read a symbol such as ``x'``. edn-format refuses primes, so it checks it without them."""
    if not isinstance(_read_with_edn_format(token[0] + token[1:].replace("'", "_")), Symbol):
        raise EdnError(f"{_excerpt(token)} is not EDN")
    return Symbol(token)


def _decimal(token: str) -> Decimal:
    try:
        return Decimal(token[:-1])
    except InvalidOperation as error:
        raise EdnError(f"invalid decimal {_excerpt(token)}") from error


def _complete_instant(instant: str) -> str:
    parts = _INSTANT.fullmatch(instant)
    if parts is None:
        raise EdnError(f"invalid instant {_excerpt(instant)}")
    year, month, day, hour, minute, second, fraction, zone = parts.groups()
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{fraction or '0':0<6.6}"
    return f"{year}-{month or '01'}-{day or '01'}T{clock}{zone or 'Z'}"


def _read_escaped_text(token: str) -> str:
    """Read a string with raw control characters, octal escapes or surrogates."""
    text, _end = scanstring(_ESCAPE.sub(_json_escape, token), 1, False)
    try:
        return str(text.encode("utf-16", "surrogatepass"), "utf-16")
    except UnicodeDecodeError as error:
        raise EdnError("a string contains a lone surrogate") from error


def _json_escape(escape: re.Match[str]) -> str:
    if escape[2] is not None:
        raise EdnError(f"invalid escape \\{escape[2]} in a string")
    return f"\\u{int(escape[1], 8):04x}" if escape[1] else escape[0]


@lru_cache(maxsize=KEYWORDS_MAX)
def _read_with_edn_format(token: str) -> Any:
    try:
        forms = edn_format.loads_all(token, write_ply_tables=False)
    except (ValueError, ArithmeticError, NotImplementedError) as error:
        raise EdnError(f"{_excerpt(token)} is not EDN") from error
    if len(forms) != 1:
        raise EdnError(f"{_excerpt(token)} is not EDN")
    value = forms[0]
    if isinstance(value, edn_format.Symbol):
        if _NUMBER_START.match(value.name):
            raise EdnError(f"invalid number {_excerpt(value.name)}")
        return Symbol(value.name)
    if isinstance(value, edn_format.Char):
        return Char(str(value))
    if isinstance(value, int | Fraction):
        return value
    raise EdnError(f"{_excerpt(token)} is not EDN")


def _excerpt(token: str) -> str:
    return token if len(token) <= 40 else f"{token[:40]}…"  # noqa: PLR2004 -- enough to find it
