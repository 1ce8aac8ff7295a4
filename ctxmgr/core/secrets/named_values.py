"""Secrets that are recognised by their name: ``password = …``, ``API_KEY: …``. Pure.

    the name    ends with a word for a secret; ``max_tokens`` and ``token_count`` do not
    the value   password   two kinds of characters and no spaces; in a setting, any word
                key        at least 16 characters that look random, with letters and digits

A reference (``$TOKEN``, ``os.environ``) or a placeholder (``<your key>``) is not a secret. The
rules are tuned for precision over recall: masking an ordinary identifier hurts the agent more than
missing most of these values.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from ctxmgr.core.secrets.known_forms import SecretSpan

VALUE_CHARS_MAX: Final = 512
KEY_CHARS_MIN: Final = 16
PASSWORD_CHARS_MIN: Final = 6
ENTROPY_MIN: Final = 3.0
"""Bits per character. 16 random hexadecimal digits have about 3.2, words less than 3."""

_NAMED: Final = re.compile(
    r"""(?ai:
        (?P<password> passw(?:or)?d | passphrase | passwd | pwd | passcode
          | (?P<short> pass | psk ) (?! [a-z] ) )
      | (?P<key> secret (?:[_-]?key (?:[_-]?base)?)? | token | api[_-]?key | auth[_-]?key
          | access[_-]?key | account[_-]?key | private[_-]?key | encryption[_-]?key
          | signing[_-]?key | credentials? | (?:aes|hmac|master|shared|jwt|deploy|cookie)[_-]?key
          | _auth )
    )
    (?P<by> \\{0,3}["']? [ \t]{0,8}
        (?: : [ ]? [\w.\[\]|, ]{1,40} = | => | := | = | : ) [ \t]{0,8} (?= \S )
      | ["'] [ \t]{0,4} , [ \t]{0,4} (?= ["'] )
      | > (?= [^\s<] )
      | [ ]{1,2} (?= [^\s=:-] ) )
    (?: [rbuf]{0,2} \\{0,3} (?P<quote> \"{3} | '{3} | ["'`] )
          (?P<quoted> [^"'`\n\\]{1,MAX}+ ) \\{0,3} (?P=quote)
      | (?P<bare> [^\s"'`,;&<>(){}\[\]|\\]{1,MAX}+ ) )
    """.replace("MAX", str(VALUE_CHARS_MAX)),
    re.VERBOSE,
)
_HEADS: Final = (
    *("pass", "psk", "pwd", "secret", "token", "credential"),
    *("api", "auth", "access", "account", "private", "encryption", "signing"),
    *("aes", "hmac", "master", "shared", "jwt", "deploy", "cookie", "_auth"),
)
"""The beginnings of the names; the expression is tried only where one occurs."""
_ENVIRONMENT: Final = re.compile(r"(?:^|[\n ;\"'])(?:export +|set +|- +)?[A-Z][A-Z0-9_]*$")
_FLAG: Final = re.compile(r"(?:^|[\s\"'])--[a-z-]*$")
_LOGIN: Final = re.compile(r"login[ \t]\S{1,64}\s{1,16}$")
_WHOLE_WORD: Final = re.compile(r"(?:^|[^A-Za-z])$")
_PART_OF_NAME: Final = re.compile(r"[A-Za-z0-9][_-]$")
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


def named_spans(text: str) -> Iterator[SecretSpan]:
    """Yield every value that has the name of a secret and looks like one."""
    lower = text.replace("İ", "I").lower()  # the only character that is longer in lower case
    end = 0
    for start in sorted(chain.from_iterable(_occurrences(lower, head) for head in _HEADS)):
        match = _NAMED.match(text, start) if start >= end else None
        if match is None:
            continue
        end = match.end()
        group = "quoted" if match["quoted"] is not None else "bare"
        if _is_secret(match, text, match[group], quoted=group == "quoted"):
            kind = "password" if match["password"] else "key"
            yield SecretSpan(match.start(group), 2, match.end(group), kind)


def _occurrences(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _is_secret(match: re.Match[str], text: str, value: str, *, quoted: bool) -> bool:
    before = text[max(0, match.start() - 64) : match.start()]
    if _is_reference(match, text, value, quoted=quoted):
        return False
    if "," in match["by"] and not (match["password"] or match["key"]).isupper():
        return False  # a list of words; a constant that is defined has its name in capitals
    if match["key"]:
        return not _NOT_SECRET_TOKEN.search(before) and is_key(value)
    if match["short"] and not _is_short_name(match, before, value, quoted=quoted):
        return False
    if match["by"].isspace() and _FLAG.search(before):
        return is_password(value, quoted=quoted)
    if match["by"].isspace():
        return _LOGIN.search(before) is not None
    if not match["short"] and _ENVIRONMENT.search(before + match["password"]):
        return len(value) >= PASSWORD_CHARS_MIN and " " not in value
    return is_password(value, quoted=quoted)


def _is_short_name(match: re.Match[str], before: str, value: str, *, quoted: bool) -> bool:
    """Return whether ``pass`` names a setting; test reports use the word for something else."""
    camel = match["short"][0].isupper() and before[-1:].islower()
    if not camel and not _WHOLE_WORD.search(before):
        return False
    assigned = "=" in match["by"] or quoted or match["by"].isspace()
    named = camel or _PART_OF_NAME.search(before) is not None
    return (assigned or named) and "/" not in value and any(map(str.isalpha, value))


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret, or refers to one, rather than being it."""
    return _PLACEHOLDER.match(value) is not None or _PATH.match(value) is not None


def _is_reference(match: re.Match[str], text: str, value: str, *, quoted: bool) -> bool:
    is_code = _DOTTED.match(value) or text[match.end() : match.end() + 1] in _OPENS
    return (
        text.startswith("[secret:", max(0, match.start() - 1))
        or (not quoted and bool(is_code))
        or _PLACEHOLDER.match(value) is not None
        or _PATH.match(value) is not None
        or not value.isprintable()
    )


def is_key(value: str) -> bool:
    """Return whether a value is long and random enough for a key."""
    return (
        len(value) >= KEY_CHARS_MIN
        and _KEY_ALPHABET.match(value) is not None
        and _WORDS.match(value) is None
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and entropy(value) >= ENTROPY_MIN
    )


def is_password(value: str, *, quoted: bool) -> bool:
    """Return whether a value has several kinds of characters, as passwords have."""
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
    """Return the Shannon entropy of a text in bits per character."""
    size = len(value)
    shares = (count / size for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)
