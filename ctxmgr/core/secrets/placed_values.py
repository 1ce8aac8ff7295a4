"""Secrets that are recognised by their place: arguments of commands, columns, blocks. Pure.

    commands   curl -u, mysql -p, sshpass -p, docker login -p, openssl -passin and others
    lines      .pgpass, PASS … of FTP, requirepass … of Redis
    pairs      name: DB_PASSWORD, value: …  on two lines, or as two attributes
    blocks     password: |, data of a Kubernetes secret, the inside of a private key
    columns    of a table whose header names a password or a token

As everywhere here, expressions begin with a literal or at the start of a line, their quantifiers
are bounded or possessive, and they are tried only on texts with one of their hints.
"""

import re
from collections.abc import Generator, Iterator
from typing import Final

from ctxmgr.core.secrets.known_forms import PRIVATE_KEY, SecretForm, SecretSpan
from ctxmgr.core.secrets.named_values import (
    KEY_CHARS_MIN,
    is_key,
    is_password,
    is_placeholder,
)

ARGUMENTS_CHARS_MAX: Final = 200
"""Between the name of a command and its password; longer command lines are scripts."""

COLUMNS_MAX: Final = 64
"""Columns of a table; wider ones are data, not credentials."""

BLOCK_LINES_MAX: Final = 400
"""Lines of one block or table column that is masked at once; a private key has about 50."""

_RANK: Final = 3
_NAME_HINTS: Final = ("pass", "pwd", "secret", "token", "key", "credential")
_ARGS: Final = rf"[^\n;|&]{{0,{ARGUMENTS_CHARS_MAX}}}?"
_WORD: Final = r"[ \t]+[^\s\"'|;&]{1,128}"
_VALUE: Final = r"""["']?(?!["'\s$<%{(…-])([^\s"'`|;&<>]{3,128})"""


def _command(names: str, option: str) -> str:
    """An option of one of some programs, whose value is the secret."""
    return rf"(?<![\w/.-])(?:{names})[ \t]{_ARGS}(?<=[ \t]){option}{_VALUE}"


COMMANDS: Final = tuple(
    SecretForm("password", tuple(hints.split(",")), expression, _RANK)
    for hints, expression in (
        ("curl", _command("curl", r"(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,64}:")),
        (
            "--auth,http -a,https -a",
            _command("https?|wget", r"(?:-a|--auth)[ =]?[\"']?[^\s:\"']{1,64}:"),
        ),
        (
            "mysql,mariadb",
            _command(r"mysql\w{0,8}|mariadb[\w-]{0,8}", r"-p(?!ass(?:in|out)?\b)(?=[^ ])"),
        ),
        ("sshpass", rf"\bsshpass[ \t]{{1,4}}-p[ ]?{_VALUE}"),
        (
            "login",
            _command(r"(?:docker|podman|helm registry|oc|az|nerdctl|oras) login", "-p[ =]"),
        ),
        ("redis-cli", _command("redis-cli", "(?:-a|--pass) ")),
        ("mongo", _command(r"mongo\w{0,8}", "-p ")),
        ("ldap", _command(r"ldap\w{1,8}", "-w ?")),
        ("smbclient", _command("smbclient", r"-U ?[\"']?[^\s%\"']{1,64}%")),
        ("7z", _command("7z[ar]?", "-p(?=[^ ])")),
        ("zip -P,zip -r -P", _command("zip|unzip", "-P ")),
        ("sqlplus", rf"\bsqlplus[ \t]{_ARGS}\w{{1,64}}/([^\s@/\"']{{3,128}})@"),
        ("pass:", rf"(?<=[ \t])-pass(?:in|out)?[ \t]+[\"']?pass:{_VALUE}"),
        (
            "htpasswd",
            r"\bhtpasswd[ \t]+-[a-zA-Z]{0,4}b[a-zA-Z]{0,4}[ \t]+\S+[ \t]+\S+[ \t]+(\S{3,128})",
        ),
        ("requirepass,masterauth", rf"(?m)^[ \t]*(?:requirepass|masterauth)[ \t]+{_VALUE}"),
        ("PASS ", r"(?m)^(?:[>C][: ]{1,2})?PASS ([^\s:]{4,128})$"),
    )
)

PAIRS: Final = re.compile(
    r"""(?aix) (?:name|key|id) ["']? [ \t]{0,4} [:=] [ \t]{0,4} ["']?
        (?P<name> [\w.-]{0,64} ) ["']? [ \t]{0,4} ,? \s{1,40}
        ["']? value ["']? [ \t]{0,4} [:=] [ \t]{0,4}
        (?: ["'] (?P<quoted> [^"'\n]{1,256} ) ["'] | (?P<bare> [^\s"',}<>]{1,256} ) )"""
)
_PASSWORD_NAME: Final = re.compile(r"(?i)(?:passw(?:or)?d|passphrase|passwd|pwd|(?<![a-z])pass)\Z")
_KEY_NAME: Final = re.compile(r"(?i)(?:secret|token|api[_-]?key|access[_-]?key|credentials?)\Z")

_PGPASS: Final = re.compile(
    r"(?m)^(?![\w.-]{1,255}\.(?:py|[jt]sx?|[ch]pp|[ch]|go|rs|java|rb|md|txt|php|sh|css|html|json|ya?ml):)"
    r"[\w.*-]{1,255}:(?:\d{4,5}|\*):(?!\d+:)[^:\s]{1,64}:[^:\s]{1,64}:([^\s:]{4,128})$"
)
_BLOCK_SCALAR: Final = re.compile(
    r"(?m)^([ \t-]{0,64})[\"']?([\w.-]{1,64})[\"']?:[ \t]{1,8}[|>][-+0-9]{0,2}[ \t]{0,8}\n"
)
_KUBERNETES: Final = re.compile(r"(?m)^kind:[ \t]{1,4}[\"']?Secret\b")
_DATA: Final = re.compile(r"(?m)^(data|stringData):[ \t]{0,8}\n")
_ENTRY: Final = re.compile(
    r"[ \t]{1,16}[\"']?[\w.-]{1,128}[\"']?:[ \t]{1,8}(\S[^\n]{0,8191})(?:\n|\Z)"
)
_KEY_TAIL: Final = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES: Final = re.compile(
    r"(?m)^[A-Za-z0-9+/]{64}\n(?:[A-Za-z0-9+/]{64}\n){1,400}+[A-Za-z0-9+/]{0,64}={0,2}"
    r"|^[A-Za-z0-9+/]{70}\n(?:[A-Za-z0-9+/]{70}\n){1,400}+[A-Za-z0-9+/]{0,70}={0,2}"
)
_OTHER_PEM: Final = re.compile(r"-----(?:BEGIN|END) (?!(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY)")
_BASE64_LINE: Final = re.compile(r"[ \t]{0,16}[A-Za-z0-9+/]{1,80}={0,2}[ \t\r]{0,4}\Z")
_PRIVATE_NUMBER: Final = re.compile(
    r"(?m)^(?:privateExponent|prime1|prime2|exponent1|exponent2|coefficient|priv):[ \t]{0,4}\n"
    r"((?:[ \t]{1,8}(?:[0-9a-f]{2}:?){1,20}\n?){1,400}+)"
)
_HEADER_HINTS: Final = ("passw", "secret", "token", "api_key", "apikey", "api key")
_HEADER_CHARS_MAX: Final = 2_000
_CELL_NAME: Final = re.compile(
    r"[ \t]{0,64}[\"'*`]{0,2}[\w][\w ./-]{0,63}[\"'*`]{0,2}\s{0,64}\Z|\s*\Z"
)
"""A column's name: words. Code has brackets and operators between its commas."""
_RULE: Final = re.compile(r"[\s|+:=-]+\Z")


def placed_spans(text: str) -> Iterator[SecretSpan]:
    """Yield every value whose place says that it is a secret."""
    for form in COMMANDS:
        for span in form.spans(text):
            if not is_placeholder(text[span.start : span.end]):
                yield span
    if any(hint in text for hint in (":5432:", ":*:", "pgpass")):
        for match in _PGPASS.finditer(text):
            if is_password(match[1], quoted=False) and not is_placeholder(match[1]):
                yield SecretSpan(match.start(1), _RANK, match.end(1), "password")
    yield from _blocks(text)
    yield from _key_material(text)
    lower = text.replace("İ", "I").lower()  # the only character that is longer in lower case
    if any(hint in lower for hint in _NAME_HINTS):
        yield from _pairs(text)
        yield from _columns(text, lower)


def _pairs(text: str) -> Iterator[SecretSpan]:
    for match in PAIRS.finditer(text):
        group = "quoted" if match["quoted"] is not None else "bare"
        kind = _kind(match["name"], match[group])
        if kind is not None:
            yield SecretSpan(match.start(group), _RANK, match.end(group), kind)


def _blocks(text: str) -> Iterator[SecretSpan]:
    scalars = _BLOCK_SCALAR.finditer(text) if ": |" in text or ": >" in text else ()
    for match in scalars:
        indent = len(match[1])
        lines = list(_lines(text, match.end(), deeper_than=indent))
        if lines and _kind(match[2], text[lines[0][0] : lines[0][1]]) is not None:
            for start, end in lines:
                yield SecretSpan(start, _RANK, end, "password")
    if "Secret" in text and _KUBERNETES.search(text):
        for data in _DATA.finditer(text):
            entry = _ENTRY.match(text, data.end())
            while entry is not None:
                if not is_placeholder(entry[1]):
                    yield SecretSpan(entry.start(1), _RANK, entry.end(1), "kubernetes-secret")
                entry = _ENTRY.match(text, entry.end())


def _lines(text: str, start: int, *, deeper_than: int) -> Iterator[tuple[int, int]]:
    """Yield the words of the lines that are indented more, without their indentation."""
    for _ in range(BLOCK_LINES_MAX):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        stripped = line.strip()
        if not stripped or len(line) - len(line.lstrip()) <= deeper_than:
            return
        first = start + line.index(stripped)
        yield first, first + len(stripped)
        start = end + 1


def _key_material(text: str) -> Iterator[SecretSpan]:
    """Yield the inside of a private key whose beginning is missing."""
    for tail in _KEY_TAIL.finditer(text) if "-----END" in text else ():
        end = text.rfind("\n", 0, tail.start()) + 1
        start = end
        for _ in range(BLOCK_LINES_MAX):
            before = text.rfind("\n", 0, start - 1) + 1 if start > 0 else 0
            if start <= 0 or not _BASE64_LINE.match(text[before : start - 1]):
                break
            start = before
        if start < end:
            yield SecretSpan(start, _RANK, end - 1, PRIVATE_KEY)
    if not _OTHER_PEM.search(text):
        for lines in _KEY_LINES.finditer(text):
            if is_key(lines[0][:64]):
                yield SecretSpan(lines.start(), _RANK, lines.end(), PRIVATE_KEY)
    dumped = "privateExponent:" in text or "priv:" in text
    for number in _PRIVATE_NUMBER.finditer(text) if dumped else ():
        yield SecretSpan(number.start(1), _RANK, number.end(1), PRIVATE_KEY)


def _columns(text: str, lower: str) -> Iterator[SecretSpan]:
    """Yield the cells below a column that is named for a secret."""
    end = 0
    for start in sorted(_line_starts(lower)):
        stop = text.find("\n", start)
        header = text[start : len(text) if stop < 0 else stop]
        if start < end or stop < 0 or len(header) > _HEADER_CHARS_MAX:
            continue
        for separator in _SEPARATORS:
            names = separator.split(header)
            if 1 < len(names) <= COLUMNS_MAX:
                if _is_header(header, names, separator):
                    end = yield from _table(text, stop + 1, names, separator)
                break


def _is_header(header: str, names: list[str], separator: re.Pattern[str]) -> bool:
    """Return whether a line names columns; a line of code has commas and aligned words, too."""
    if not all(map(_CELL_NAME.match, names)):
        return False
    if separator is _SPACES:
        return header.isupper()
    return separator is _BARS or (all(names) and not header[0].isspace())


def _line_starts(lower: str) -> set[int]:
    """Return the starts of the lines that contain the name of a secret."""
    starts = set()
    for hint in _HEADER_HINTS:
        found = lower.find(hint)
        while found >= 0:
            starts.add(lower.rfind("\n", 0, found) + 1)
            stop = lower.find("\n", found)
            found = lower.find(hint, stop) if stop >= 0 else -1
    return starts


_SPACES: Final = re.compile(r"[ ]{2,}")
_BARS: Final = re.compile(r"\|")
_SEPARATORS: Final = (_BARS, *map(re.compile, ("\t", ",", ";")), _SPACES)


def _table(
    text: str, start: int, names: list[str], separator: re.Pattern[str]
) -> Generator[SecretSpan, None, int]:
    """Yield the secrets of a table below its header; return where it ends."""
    kinds = [_column_kind(name) for name in names]
    if not any(kinds):
        return start
    for _ in range(10 * BLOCK_LINES_MAX):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if not line.strip() or start > len(text):
            break
        if not _RULE.match(line):
            cells = list(_cells(line, separator))
            if len(cells) != len(names):
                break
            for kind, (first, last) in zip(kinds, cells, strict=True):
                value = line[first:last]
                if kind is not None and _is_secret(kind, value):
                    yield SecretSpan(start + first, _RANK, start + last, kind)
        start = end + 1
    return start


def _cells(line: str, separator: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield where the cells of a line are, without spaces and quotes around them."""
    position = 0
    for end, after in [*((m.start(), m.end()) for m in separator.finditer(line)), (len(line), 0)]:
        cell = line[position:end]
        kept = cell.strip().strip("\"'")
        first = position + (cell.index(kept) if kept else 0)
        yield first, first + len(kept)
        position = after


def _column_kind(name: str) -> str | None:
    name = name.strip().strip("\"'*_`").replace(" ", "_")
    if _PASSWORD_NAME.search(name):
        return "password"
    return "key" if _KEY_NAME.search(name) else None


def _kind(name: str, value: str) -> str | None:
    """Return the kind of a value by its name; None if it is not a secret."""
    kind = _column_kind(name)
    return kind if kind is not None and _is_secret(kind, value) else None


def _is_secret(kind: str, value: str) -> bool:
    if is_placeholder(value):
        return False
    if kind == "key":
        return len(value) >= KEY_CHARS_MIN and is_key(value)
    return is_password(value, quoted=True)
