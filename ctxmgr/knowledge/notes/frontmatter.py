"""The YAML frontmatter of a note: split, read, change. Pure.

    ---
    type: topic          # comments, order and quoting stay as they are
    tags: [mail, work]
    ---
    The body.

Values are those of JSON: dates stay the text that the file has, since ``2026-11-18`` and
``2026-11-18T10:00:00Z`` mean different things to different readers. ``ruamel.yaml`` parses, and
nothing it could construct is constructed: a note comes from people, models and other repositories.

A change replaces the characters of one value. All other characters stay, and the result is read
again before it is returned.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ctxmgr.errors import InvalidNote, requires_extra

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"

FRONTMATTER_CHARS_MAX: Final = 32 * 1024
"""A page of settings has some 500 characters; YAML of this size takes half a second to parse."""

BRACKETS_MAX: Final = 200
"""Brackets that are open at once: the parser's time grows with their square."""

VALUES_MAX: Final = 10_000
"""Values of one frontmatter, each alias counted: nine lines of them can stand for a billion."""

DEPTH_MAX: Final = 20

PARSED_MAX: Final = 4_096
"""Frontmatters that are kept parsed: more notes than most people have."""

_FENCE: Final = re.compile(r"---[ \t]*\r?\n")
_END: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_KEY_LINE: Final = re.compile(r"(?:#.*|['\"]?[A-Za-z_][\w .-]*['\"]?[ \t]*:(?:\s.*)?)")
_PLAIN: Final = re.compile(r"[A-Za-z/][\w/.@+-]*(?: [\w/.@+-]+)*")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A note's text, split. The parts joined are the text."""

    opening: str
    """``---`` and its line end, or nothing."""
    yaml: str
    closing: str
    body: str

    @property
    def present(self) -> bool:
        return bool(self.opening)


def split(text: str) -> Parts:
    """Split a text into frontmatter and body.

    A first line ``---`` that nothing closes is a rule in the body, unless a field follows it:
    then it is a frontmatter that was cut off, and ``InvalidNote``.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    opening = _FENCE.match(text, len(mark))
    if opening is None:
        return Parts(opening="", yaml="", closing="", body=text)
    closing = _END.search(text, opening.end())
    if closing is None:
        following = text[opening.end() :].partition("\n")[0].rstrip("\r")
        if following and _KEY_LINE.fullmatch(following) and not following.startswith("#"):
            raise InvalidNote("the frontmatter has no closing --- line", line=1)
        return Parts(opening="", yaml="", closing="", body=text)
    return Parts(
        opening=text[: opening.end()],
        yaml=text[opening.end() : closing.start()],
        closing=closing.group(),
        body=text[closing.end() :],
    )


def fields_of(text: str) -> dict[str, Value]:
    """Return the fields of a note's frontmatter, none if it has no frontmatter."""
    return _copied(_fields(split(text).yaml))


def field_lines(text: str) -> dict[str, int]:
    """Return the line of each field in the text, from 1."""
    parts = split(text)
    root = _composed(parts.yaml) if parts.yaml.strip() else None
    if root is None:
        return {}
    return {str(key.value): key.start_mark.line + 2 for key, _ in root.value}


def set_fields(text: str, fields: Mapping[str, Value]) -> str:
    """Return the text with these fields changed or added, and nothing else.

    A text without frontmatter gets one. A new field is the last. ``InvalidNote`` if the
    frontmatter cannot be read.
    """
    parts = split(text)
    if not parts.present and fields:
        line_end = "\r\n" if "\r\n" in text else "\n"
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        fence = f"---{line_end}"
        parts = Parts(
            opening=mark + fence, yaml="", closing=fence, body=text.removeprefix("\ufeff")
        )
    yaml = parts.yaml
    for name, value in fields.items():
        yaml = _with_field(yaml, name, value, line_end="\r\n" if "\r\n" in text else "\n")
    closing = parts.closing if yaml == parts.yaml or parts.closing.endswith("\n") else "---"
    changed = parts.opening + yaml + closing + parts.body
    wanted = {**_fields(parts.yaml), **{name: _plain(value) for name, value in fields.items()}}
    if fields_of(changed) != wanted:
        raise InvalidNote(
            f"{', '.join(fields)} cannot be changed in this frontmatter: edit it by hand", line=1
        )
    return changed


def _with_field(yaml: str, name: str, value: Value, *, line_end: str) -> str:
    """Return the YAML with one field changed. Tries the smallest change first."""
    fields = _fields(yaml)
    value = _plain(value)
    if name in fields and fields[name] == value and type(fields[name]) is type(value):
        return yaml
    wanted = {**fields, name: value}
    for changed in _candidates(yaml, name, value, line_end):
        try:
            if _fields(changed) == wanted:
                return changed
        except InvalidNote:
            continue
    raise InvalidNote(f"the field {name!r:.80} cannot be changed: edit it by hand", line=1)


def _candidates(yaml: str, name: str, value: Value, line_end: str) -> Iterator[str]:
    root = _composed(yaml) if yaml.strip() else None
    rendered = [_line(name, value, line_end)]
    found = next((pair for pair in root.value if pair[0].value == name), None) if root else None
    if found is None:
        gap = "" if not yaml or yaml.endswith("\n") else line_end
        yield yaml + gap + line_end.join(rendered) + line_end
        return
    key, node = found
    start, end = node.start_mark.index, _content_end(node)
    if isinstance(value, list) and isinstance(node.value, list):
        yield from _appended(yaml, node, value, line_end)
    if not isinstance(value, list | dict) and not isinstance(node.value, list):
        style = node.style if isinstance(value, str) and node.style in ("'", '"') else None
        scalar = _quoted(str(value), style) if style else _scalar(value)
        gap = " " if start == end and yaml[start - 1 : start] == ":" else ""
        yield yaml[:start] + gap + scalar + yaml[end:]
        if node.style in ("|", ">"):
            yield yaml[:start] + scalar + line_end + yaml[end:]
    else:
        yield yaml[:start] + _flow(value) + yaml[end:]
    # The whole entry, comments inside of it included: the last resort.
    whole_end = node.end_mark.index if isinstance(node.value, list) else end
    yield (
        yaml[: key.start_mark.index]
        + _line(name, value, line_end)
        + line_end
        + yaml[whole_end:].removeprefix(line_end)
    )


def _appended(yaml: str, node: Any, value: Sequence[Value], line_end: str) -> Iterator[str]:
    """Yield the YAML with items added to the end of a list, comments and all else kept."""
    before = [_value(item, budget=[VALUES_MAX]) for item in node.value]
    if not before or list(value[: len(before)]) != before:
        return
    added = [_flow(item) for item in value[len(before) :]]
    end = _content_end(node)
    if node.flow_style:
        last = _content_end(node.value[-1])
        yield yaml[:last] + "".join(f", {item}" for item in added) + yaml[last:]
        return
    line_start = yaml.rfind("\n", 0, node.value[0].start_mark.index) + 1
    indent = yaml[line_start : yaml.find("-", line_start)]
    end = yaml.find("\n", end)
    end = len(yaml) if end < 0 else end + 1
    gap = "" if yaml[:end].endswith("\n") else line_end
    yield (yaml[:end] + gap + "".join(f"{indent}- {item}{line_end}" for item in added) + yaml[end:])


def _content_end(node: Any) -> int:
    """Return where the characters of a value end; a block's own mark is after its comments."""
    if isinstance(node.value, list) and not node.flow_style and node.value:
        last = node.value[-1]
        return _content_end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _line(name: str, value: Value, line_end: str) -> str:
    key = name if _is_plain(name) else _quoted(name, '"')
    if isinstance(value, list) and value and all(not isinstance(v, list | dict) for v in value):
        return f"{key}:" + "".join(f"{line_end}- {_scalar(item)}" for item in value)
    return f"{key}: {_flow(value)}"


def _flow(value: Value) -> str:
    """Render a value on one line."""
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{_quoted(key, chr(34))}: {_flow(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return _scalar(value)


_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?")


def _scalar(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    text = str(value)
    if _DATE.fullmatch(text) or _is_plain(text):
        return text
    return _quoted(text, '"')


def _quoted(text: str, style: str) -> str:
    if style == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    escaped = json.dumps(text, ensure_ascii=False)
    # YAML ends a line at these, and JSON does not.
    for character in "\x7f\x85\u2028\u2029\ufeff":
        escaped = escaped.replace(character, f"\\u{ord(character):04x}")
    return "".join(
        f"\\u{ord(c):04x}" if "\x80" <= c < "\xa0" or c in "\ufffe\uffff" else c for c in escaped
    )


def _is_plain(text: str) -> bool:
    """Whether a text needs no quotes; other readers of YAML take ``yes`` as true."""
    return bool(_PLAIN.fullmatch(text)) and text.casefold() not in _WORDS


def _plain(value: Value) -> Value:
    """Return a value as JSON has it: tuples become lists. ``InvalidNote`` for anything else."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is not None and not isinstance(value, str | int | float | bool):
        raise InvalidNote(f"a field holds JSON values, not {type(value).__name__}", line=1)
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):  # noqa: PLR0124
        raise InvalidNote(f"a field cannot hold {value}", line=1)
    return str(value) if isinstance(value, str) else value


def _copied(value: dict[str, Value]) -> dict[str, Value]:
    """Return a copy that a caller may change; the parsed form is shared."""
    return {key: _copy(item) for key, item in value.items()}


def _copy(value: Value) -> Value:
    if isinstance(value, dict):
        return _copied(value)
    return [_copy(item) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=PARSED_MAX)
def _fields(yaml: str) -> dict[str, Value]:
    root = _composed(yaml) if yaml.strip() else None
    if root is None:
        return {}
    try:
        value = _value(root, budget=[VALUES_MAX])
    except RecursionError:
        raise InvalidNote("the frontmatter is nested too deeply", line=2) from None
    assert isinstance(value, dict)
    return value


def require_yaml() -> None:
    """Raise ``ExtraMissing`` if frontmatter cannot be read on this machine."""
    with requires_extra("knowledge", "ruamel"):
        import ruamel.yaml  # noqa: F401, PLC0415


def _composed(yaml: str) -> Any:
    """Parse YAML into nodes; None if there are only comments. Errors name the note's line."""
    with requires_extra("knowledge", "ruamel"):
        from ruamel.yaml import YAML  # noqa: PLC0415 (an extra)
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415
        from ruamel.yaml.nodes import MappingNode  # noqa: PLC0415
    if len(yaml) > FRONTMATTER_CHARS_MAX:
        raise InvalidNote(
            f"the frontmatter has {len(yaml):,} characters; at most {FRONTMATTER_CHARS_MAX:,}",
            line=1,
        )
    if _brackets(yaml) > BRACKETS_MAX:
        raise InvalidNote("the frontmatter is nested too deeply to be read as YAML", line=2)
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(yaml)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        line = 2 + (mark.line if mark is not None else 0)
        raise InvalidNote(f"the frontmatter is not YAML: {problem}", line=line) from error
    except (RecursionError, ValueError) as error:
        raise InvalidNote(
            f"the frontmatter is not YAML that can be read: {error!s:.80}", line=2
        ) from error
    if root is None:
        return None
    if not isinstance(root, MappingNode):
        raise InvalidNote("the frontmatter is not a list of fields", line=2)
    return root


def _brackets(yaml: str) -> int:
    """Return how many brackets are open at once, at most; those in quotes are counted as well."""
    steps = (1 if character in "[{" else -1 for character in re.findall(r"[\[\]{}]", yaml))
    return max(accumulate(steps), default=0)


def _value(node: Any, *, budget: list[int], depth: int = 0) -> Value:
    """Return a node as a JSON value."""
    from ruamel.yaml.nodes import MappingNode, SequenceNode  # noqa: PLC0415 (an extra)

    budget[0] -= 1
    line = node.start_mark.line + 2
    if budget[0] < 0:
        raise InvalidNote(f"the frontmatter has more than {VALUES_MAX:,} values", line=line)
    if depth > DEPTH_MAX:
        raise InvalidNote(f"the frontmatter is nested more than {DEPTH_MAX} deep", line=line)
    if isinstance(node, SequenceNode):
        return [_value(item, budget=budget, depth=depth + 1) for item in node.value]
    if not isinstance(node, MappingNode):
        return _scalar_value(str(node.tag), str(node.value), line=line)
    fields: dict[str, Value] = {}
    for key, item in node.value:
        if not isinstance(key.value, str):
            raise InvalidNote("a field's name has to be text", line=key.start_mark.line + 2)
        if key.value in fields:
            raise InvalidNote(
                f"the field {key.value!r:.80} is there twice", line=key.start_mark.line + 2
            )
        fields[key.value] = _value(item, budget=budget, depth=depth + 1)
    return fields


def _scalar_value(tag: str, text: str, *, line: int) -> Value:
    kind = tag.removeprefix(_TAG)
    try:
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("true", "yes", "on")
        if kind == "int":
            return _integer(text.replace("_", ""))
        if kind == "float":
            number = float(text.replace("_", "").lower().replace(".inf", "inf"))
            return number if number - number == 0 else text  # .inf and .nan have no JSON
    except ValueError as error:
        raise InvalidNote(f"{text!r:.80} cannot be read as {kind}", line=line) from error
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2].lower(), 10)
    number = int(digits[2:] if base != 10 else digits, base)  # noqa: PLR2004
    return -number if text.startswith("-") else number
