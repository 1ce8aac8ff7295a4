"""Secrets that are known by the name they are given: ``password = …``, ``API_KEY: …``. Pure.

    the name    ends with a word for a secret; ``max_tokens`` and ``token_count`` do not
    the value   password   characters of two kinds at least, no phrase; in a setting any word
                key        16 characters at least, letters and digits mixed, as random ones are

A value that stands for another one (``$TOKEN``, ``os.environ``, ``<your key>``) is none. The rules
lean to showing: a masked identifier costs the agent more than most of what they let pass.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from ctxmgr.core.secret_forms import Span

VALUE_CHARS_MAX: Final = 512
KEY_CHARS_MIN: Final = 16
PASSWORD_CHARS_MIN: Final = 6
ENTROPY_MIN: Final = 3.0
"""Bits a character. Random hex of 16 characters has some 3.2, words in a row less than 3."""

_NAMED: Final = re.compile(
    r"""(?ai:
        (?P<password> passw(?:or)?d | passphrase | passwd | pwd )
      | (?P<key> secret (?:[_-]?key (?:[_-]?base)?)? | token | api[_-]?key | auth[_-]?key
          | access[_-]?key | account[_-]?key | private[_-]?key | encryption[_-]?key
          | signing[_-]?key | credentials? )
    )
    (?P<by> \\{0,3}["']? [ \t]{0,8}
        (?: : [ ]? [\w.\[\]|, ]{1,40} = | => | := | = | : ) [ \t]{0,8} (?= \S )
      | > (?= [^\s<] )
      | [ ]{1,2} (?= [^\s=:-] ) )
    (?: [rbuf]{0,2} \\{0,3} (?P<quote> ["'`] )
          (?P<quoted> [^"'`\n\\]{1,MAX}+ ) \\{0,3} (?P=quote)
      | (?P<bare> [^\s"'`,;&<>(){}\[\]|\\]{1,MAX}+ ) )
    """.replace("MAX", str(VALUE_CHARS_MAX)),
    re.VERBOSE,
)
_HEADS: Final = (
    *("passw", "passp", "pwd", "secret", "token", "credential"),
    *("api", "auth", "access", "account", "private", "encryption", "signing"),
)
"""What the names begin with, to look for before the expression is tried."""
_ENVIRONMENT: Final = re.compile(r"(?:^|[\n ;\"'])(?:export +|set +|- +)?[A-Z][A-Z0-9_]*$")
_FLAG: Final = re.compile(r"(?:^|[\s\"'])--[a-z-]*$")
_LOGIN: Final = re.compile(r"login[ \t]\S{1,64}[ \t]$")
_NOT_SECRET_TOKEN: Final = re.compile(
    r"(?i:(?:page|next|continuation|cancel\w*|sync|cursor)[_-]?)$"
)

_PLACEHOLDER: Final = re.compile(
    r"""(?ix) \A (?: (.)\1* | \[secret: .* | [<$%{@&*] .* | .* [>*…] | \.{2} .* | .* \.{3}
      | (?:my|your|the|some|new|old|a|an)[ _-] .*
      | .* (?:example|placeholder|redacted|changeme|change_me) .*
      | x{3} .* | none | null | nil | true | false | undefined | required | optional | string
      | secret | password | passwd | token | test(?:ing)? | dummy | fake | sample | default | empty
      | hidden | masked | prompt | invalid | missing | expired ) \Z"""
)
_REFERENCE: Final = re.compile(r"[A-Za-z_][A-Za-z_]*(?:(?:\.|::|->)[A-Za-z_]\w*)*[!?]?\Z")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+\Z")
_OPENS: Final = frozenset("([{")
_KEY_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/=_.~:-]+\Z")
_WORDS: Final = re.compile(
    r"(?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,4})(?:[-_./:](?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,4}))*\Z"
)
_PATH: Final = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:|[a-z][a-z0-9+.-]*://)")


def named_spans(text: str) -> Iterator[Span]:
    """Give every value that stands beside a name for a secret and looks like one."""
    end = 0
    for start in _heads(text):
        found = _NAMED.match(text, start) if start >= end else None
        if found is None:
            continue
        end = found.end()
        group = "quoted" if found["quoted"] is not None else "bare"
        if _is_secret(found, text, found[group], quoted=group == "quoted"):
            kind = "password" if found["password"] else "key"
            yield Span(found.start(group), 2, found.end(group), kind)


def _heads(text: str) -> list[int]:
    lower = text.replace("İ", "I").lower()  # the one character that grows in lower case
    return sorted(chain.from_iterable(_occurrences(lower, head) for head in _HEADS))


def _occurrences(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _is_secret(found: re.Match[str], text: str, value: str, *, quoted: bool) -> bool:
    before = text[max(0, found.start() - 64) : found.start()]
    if _stands_for_another(found, text, value, quoted=quoted):
        return False
    if found["key"]:
        return not _NOT_SECRET_TOKEN.search(before) and _is_key(value)
    if found["by"].isspace() and _FLAG.search(before):
        return _is_password(value, quoted=quoted)
    if found["by"].isspace():
        return _LOGIN.search(before) is not None
    if _ENVIRONMENT.search(before + found["password"]):
        return len(value) >= PASSWORD_CHARS_MIN and " " not in value
    return _is_password(value, quoted=quoted)


def _stands_for_another(found: re.Match[str], text: str, value: str, *, quoted: bool) -> bool:
    is_code = _DOTTED.match(value) or text[found.end() : found.end() + 1] in _OPENS
    return (
        text.startswith("[secret:", max(0, found.start() - 1))
        or (not quoted and bool(is_code))
        or _PLACEHOLDER.match(value) is not None
        or _PATH.match(value) is not None
        or not value.isprintable()
    )


def _is_key(value: str) -> bool:
    return (
        len(value) >= KEY_CHARS_MIN
        and _KEY_ALPHABET.match(value) is not None
        and _WORDS.match(value) is None
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and entropy(value) >= ENTROPY_MIN
    )


def _is_password(value: str, *, quoted: bool) -> bool:
    if len(value) < PASSWORD_CHARS_MIN or (not quoted and _REFERENCE.match(value)):
        return False
    kinds = {_kind_of(character) for character in value}
    return len(kinds) > 1 and " " not in value and (not kinds <= {"lower", "upper"})


def _kind_of(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.isalpha():
        return "upper" if character.isupper() else "lower"
    return "sign"


def entropy(value: str) -> float:
    """Return Shannon's entropy of the characters, in bits a character."""
    size = len(value)
    shares = (count / size for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)
