"""Edits of JSON files that people write: comments, order and spacing stay. Pure.

JSON with comments and trailing commas is accepted. An edit inserts or removes the text of one
member or item, and what was inserted is removed without a trace.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from ctxmgr.errors import Incorrect

DEPTH_MAX: Final = 64
"""Levels of nesting: settings have some five."""

Path = tuple[str, ...]
"""The keys that lead to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value, and where it stands in the text."""

    start: int
    end: int
    value: Any
    children: "tuple[Child, ...]" = ()
    is_object: bool = False
    is_array: bool = False

    def child(self, key: str) -> "Child | None":
        return next((child for child in self.children if child.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A member of an object, or an item of an array."""

    key: str | None
    start: int
    """Where the key begins, or the item."""
    node: Node


@dataclass(frozen=True, slots=True)
class JsonText:
    """The text of a JSON file, which was checked."""

    text: str
    root: Node

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a file; ``Incorrect`` says where it is damaged. An empty one is an object."""
        text = text if text.strip() else "{}\n"
        reader = _Reader(text)
        root = reader.document()
        if not root.is_object:
            raise Incorrect("the file must contain a JSON object")
        return cls(text, root)

    def get(self, path: Path) -> Node | None:
        """Return the value at a path; None if there is none."""
        node = self.root
        for key in path:
            child = node.child(key)
            if child is None:
                return None
            node = child.node
        return node

    def set(self, path: Path, value: Any) -> Self:
        """Add a member, and the objects around it, or replace the value that it has."""
        found = self.get(path)
        if found is not None:
            start = self.text.rfind("\n", 0, found.start) + 1
            indent = self.text[start : found.start]
            indent = indent[: len(indent) - len(indent.lstrip())]
            return self._edited(found.start, found.end, self._dumped(value, indent))
        missing = path
        while self.get(missing[:-1]) is None:
            value, missing = {missing[-1]: value}, missing[:-1]
        parent = self.get(missing[:-1])
        if parent is None or not parent.is_object:
            raise Incorrect(f"{'.'.join(missing[:-1])} must be an object")
        return self._insert(parent, missing[-1], value)

    def append(self, path: Path, item: Any) -> Self:
        """Add an item to an array, which is created if it is missing."""
        found = self.get(path)
        if found is None:
            return self.set(path, [item])
        if not found.is_array:
            raise Incorrect(f"{'.'.join(path)} must be an array")
        return self._insert(found, None, item)

    def remove(self, path: Path) -> Self:
        """Remove a member."""
        parent, found = self.get(path[:-1]), self.get(path)
        if parent is None or found is None:
            return self
        number = next(n for n, child in enumerate(parent.children) if child.key == path[-1])
        return self._remove(parent, number)

    def remove_item(self, path: Path, number: int) -> Self:
        """Remove an item of an array."""
        parent = self.get(path)
        assert parent is not None
        return self._remove(parent, number)

    def _insert(self, parent: Node, key: str | None, value: Any) -> Self:
        label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        if not parent.children:
            outer = self._indent_of(parent.start)
            indent = outer + self._unit
            new = f"{self._newline}{indent}{label}{self._dumped(value, indent)}"
            if self.text[parent.start + 1 : parent.end - 1].strip():  # a comment, which stays
                return self._edited(parent.start + 1, parent.start + 1, new)
            return self._edited(parent.start + 1, parent.end - 1, f"{new}{self._newline}{outer}")
        last = parent.children[-1]
        line = self.text.rfind("\n", 0, last.start) + 1
        indent = self.text[line : last.start]
        comma = self._comma_after(last.node.end)
        if indent.strip() or line == 0:  # all on one line
            tail = comma or last.node.end
            new = f" {label}{json.dumps(value, ensure_ascii=False)}"
            return self._edited(tail, tail, f"{new}," if comma else f",{new}")
        new = f"{self._newline}{indent}{label}{self._dumped(value, indent)}"
        if comma:
            after = self._line_end(comma)
            return self._edited(after, after, f"{new},")
        after = self._line_end(last.node.end)
        head, rest = self.text[: last.node.end], self.text[last.node.end : after]
        return type(self).parse(f"{head},{rest}{new}{self.text[after:]}")

    def _remove(self, parent: Node, number: int) -> Self:
        child = parent.children[number]
        comma = self._comma_after(child.node.end)
        end = comma or child.node.end
        line = self.text.rfind("\n", 0, child.start)
        own_line = line >= 0 and not self.text[line : child.start].strip()
        before = parent.children[number - 1].node.end if number else parent.start + 1
        before_comma = (self._comma_after(before) or before) if number else before
        start = line - (self.text[line - 1 : line] == "\r") if own_line else before_comma
        if number and not comma:  # the comma before it was for this one
            text = self.text[:before] + self.text[before_comma:start] + self.text[end:]
        else:
            text = self.text[:start] + self.text[end:]
        edited = type(self).parse(text)
        if len(parent.children) == 1:
            inside = edited.text[parent.start + 1 : parent.end - 1 - (end - start)]
            if not inside.strip():
                stop = parent.start + 1 + len(inside)
                return type(self).parse(edited.text[: parent.start + 1] + edited.text[stop:])
        return edited

    def _edited(self, start: int, end: int, new: str) -> Self:
        return type(self).parse(self.text[:start] + new + self.text[end:])

    def _comma_after(self, position: int) -> int | None:
        """Return where a comma that follows ends; None if none does."""
        position = skip_space(self.text, position)
        return position + 1 if self.text[position : position + 1] == "," else None

    def _line_end(self, position: int) -> int:
        """Return the end of the line, if nothing but a comment follows on it."""
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end - (self.text[end - 1] == "\r")
        rest = self.text[position:end].strip()
        is_comment = rest.startswith("//") or (rest.startswith("/*") and rest.endswith("*/"))
        return end if not rest or is_comment else position

    def _indent_of(self, position: int) -> str:
        line = self.text[self.text.rfind("\n", 0, position) + 1 : position]
        return line[: len(line) - len(line.lstrip())]

    def _dumped(self, value: Any, indent: str) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=self._unit)
        return text.replace("\n", self._newline + indent)

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _unit(self) -> str:
        """What the file indents by."""
        first = self.root.children[0].start if self.root.children else 0
        indent = self.text[self.text.rfind("\n", 0, first) + 1 : first]
        return indent if indent and not indent.strip() else "  "


def skip_space(text: str, position: int) -> int:
    """Return where the next character after spaces and comments is."""
    while position < len(text):
        if text[position] in " \t\r\n\ufeff":
            position += 1
        elif text.startswith("//", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            if end < 0:
                raise Incorrect(f"line {_line(text, position)}: a comment does not end")
            position = end + 2
        else:
            break
    return position


class _Reader:
    """Reads a document with the places of its values."""

    def __init__(self, text: str) -> None:
        self._text = text

    def document(self) -> Node:
        node = self._node(skip_space(self._text, 0), 0)
        end = skip_space(self._text, node.end)
        if end != len(self._text):
            raise self._error(end)
        return node

    def _node(self, start: int, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise Incorrect(f"line {_line(self._text, start)}: nested too deeply")
        match self._text[start : start + 1]:
            case "{":
                return self._container(start, depth, "}")
            case "[":
                return self._container(start, depth, "]")
            case '"':
                return self._string(start)
        end = start
        while end < len(self._text) and self._text[end] not in " \t\r\n,]}/":
            end += 1
        try:
            return Node(start=start, end=end, value=json.loads(self._text[start:end]))
        except ValueError:
            raise self._error(start) from None

    def _container(self, start: int, depth: int, closing: str) -> Node:
        children: list[Child] = []
        position = skip_space(self._text, start + 1)
        while self._text[position : position + 1] != closing:
            child = self._child(position, depth, is_member=closing == "}")
            children.append(child)
            position = skip_space(self._text, child.node.end)
            if self._text[position : position + 1] == ",":
                position = skip_space(self._text, position + 1)
            elif self._text[position : position + 1] != closing:
                raise self._error(position)
        value: Any = (
            {child.key: child.node.value for child in children}
            if closing == "}"
            else [child.node.value for child in children]
        )
        return Node(
            start=start,
            end=position + 1,
            value=value,
            children=tuple(children),
            is_object=closing == "}",
            is_array=closing == "]",
        )

    def _child(self, start: int, depth: int, *, is_member: bool) -> Child:
        if not is_member:
            return Child(key=None, start=start, node=self._node(start, depth + 1))
        if self._text[start : start + 1] != '"':
            raise self._error(start)
        key = self._string(start)
        colon = skip_space(self._text, key.end)
        if self._text[colon : colon + 1] != ":":
            raise self._error(colon)
        node = self._node(skip_space(self._text, colon + 1), depth + 1)
        return Child(key=key.value, start=start, node=node)

    def _string(self, start: int) -> Node:
        end = start + 1
        while end < len(self._text) and self._text[end] not in '"\n':
            end += 2 if self._text[end] == "\\" else 1
        try:
            value = json.loads(self._text[start : end + 1])
        except ValueError:
            raise self._error(start) from None
        return Node(start=start, end=end + 1, value=value)

    def _error(self, position: int) -> Incorrect:
        found = self._text[position : position + 20].partition("\n")[0]
        what = repr(found) if found else "the end of the file"
        return Incorrect(f"line {_line(self._text, position)}: {what} is not valid JSON here")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
