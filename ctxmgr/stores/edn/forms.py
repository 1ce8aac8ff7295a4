"""Builds EDN collections from tokens. Pure.

    step     add values │ open a bracket │ close it │ mark the next form

Reading does not recurse, and depth is bounded. Tags and discards are kept as marks among the items
of their collection until it is closed, so that collections without them, the usual case, cost
nothing extra.

A vector that is a key or in a set becomes a tuple, and a map an ``ImmutableDict``. Two keys
that are equal in Python (``1`` and ``1.0``) are an error, because one would be lost.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from edn_format import ImmutableDict

from ctxmgr.stores.edn.tokens import KEYWORDS, read_atom, read_tag, read_text
from ctxmgr.stores.edn.values import NESTING_MAX, EdnError, EdnTruncated, Keyword, Tagged

Step: TypeAlias = tuple[int, Any]
"""What to do, and its argument: values, an opening bracket, a closing bracket or a mark."""

ADD, OPEN, CLOSE, MARK = range(4)

_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "#": "}"}


class _Mark:
    """A tag, or a discard (``tag`` is None), of the next form."""

    __slots__ = ("tag",)

    def __init__(self, tag: str | None) -> None:
        self.tag = tag


class Builder:
    """The collections that are open, innermost last, and the items each has so far."""

    __slots__ = ("items", "marked", "opening", "stack")

    def __init__(self) -> None:
        self.stack: list[tuple[list[Any], str, bool]] = []
        self.items: list[Any] = []
        self.opening = ""
        self.marked = False

    def take(self, steps: Iterable[Step]) -> None:
        """Carry out steps: open and close collections, and add values."""
        stack, items = self.stack, self.items
        for kind, what in steps:
            if kind == ADD:
                items.extend(what)
            elif kind == OPEN:
                if len(stack) >= NESTING_MAX:
                    raise EdnError(f"nested more than {NESTING_MAX} levels deep")
                stack.append((items, self.opening, self.marked))
                self.items, self.opening, self.marked = items, _, _ = [], what, False
            elif kind == CLOSE:
                value = _close(self.opening, what, items, marked=self.marked)
                self.items, self.opening, self.marked = items, _, _ = stack.pop()
                items.append(value)
            else:
                items.append(what)
                self.marked = True

    def only_form(self) -> Any:
        """Return the form; there must be exactly one, and it must be complete."""
        if self.stack:
            raise EdnTruncated(f"the text ends before a {self.opening[0]} is closed")
        if self.marked and _complete_items(self.items) == 0:
            raise EdnTruncated("the text ends before the form of a tag")
        items = _apply_marks(self.items) if self.marked else self.items
        if len(items) != 1:
            raise EdnError("more than one form") if items else EdnTruncated("no form")
        return items[0]

    def take_elements(self) -> list[Any]:
        """Remove and return the complete elements of the outermost list."""
        frames = [*self.stack[:2], (self.items, self.opening, self.marked)]
        outside = frames[0][0]
        if len(frames) == 1:
            return _take_closed(outside)
        items, opening, marked = frames[1]
        if outside or opening not in ("(", "["):
            raise EdnError("expected a single list or vector")
        end = _complete_items(items) if marked else len(items)
        elements = items[:end]
        del items[:end]
        return _apply_marks(elements) if marked else elements


def steps_of(tokens: list[str]) -> list[Step]:
    """Return the steps of tokens."""
    steps: list[Step] = []
    values: list[Any] = []
    for token in tokens:
        first = token[0]
        if first == ":":
            values.append(KEYWORDS[token])
        elif first in "([{" or (first == "#" and token[-1] == "{"):
            values = _add_step(steps, OPEN, token, values)
        elif first in ")]}":
            values = _add_step(steps, CLOSE, token, values)
        elif first == "#" and token[-1] != '"' and token[1:2] != "#":
            values = _add_step(steps, MARK, _mark(token), values)
        elif first != ";":
            values.append(_value(token, first))
    if values:
        steps.append((ADD, values))
    return steps


def _add_step(steps: list[Step], kind: int, what: Any, values: list[Any]) -> list[Any]:
    if values:
        steps.append((ADD, values))
        values = []
    steps.append((kind, what))
    return values


def _value(token: str, first: str) -> Any:
    if first == '"':
        return read_text(token)
    if first == "#" and token[-1] == '"':
        return read_tag("inst", token[token.index('"') + 1 : -1])
    return read_atom(token)


def _mark(token: str) -> _Mark:
    if token == "#_":  # noqa: S105 -- a token of EDN
        return _Mark(None)
    if not token[1:2].isalpha():
        raise EdnError(f"invalid tag {token[:40]}")
    return _Mark(token[1:])


def _take_closed(forms: list[Any]) -> list[Any]:
    if not forms:
        return []
    if len(forms) > 1 or not isinstance(forms[0], tuple | list):
        raise EdnError("expected a single list or vector")
    elements = list(forms[0])
    forms[0] = ()
    return elements


def _close(opening: str, closing: str, items: list[Any], *, marked: bool) -> Any:
    if not opening or _CLOSING[opening[0]] != closing:
        raise EdnError(f"{closing} does not match an opening bracket")
    if marked:
        items = _apply_marks(items)
    if opening == "{":
        return _map(items)
    if opening == "[":
        return items
    if opening == "(":
        return tuple(items)
    return (
        _set(items) if opening == "#{" else _namespaced(opening[2:-1].rstrip(" ,\t\n\r\f\v"), items)
    )


def _map(items: list[Any]) -> dict[Any, Any]:
    pairs = iter(items)
    try:
        result = dict(zip(pairs, pairs, strict=True))
    except TypeError:  # a key that is not hashable
        if len(items) % 2:
            raise EdnError("a key of a map has no value") from None
        result = dict(zip(map(_freeze, items[::2]), items[1::2], strict=True))
    except ValueError as error:
        raise EdnError("a key of a map has no value") from error
    if 2 * len(result) != len(items):
        raise EdnError("a map has the same key twice")
    return result


def _set(items: list[Any]) -> frozenset[Any]:
    members = frozenset(map(_freeze, items))
    if len(members) != len(items):
        raise EdnError("a set has the same member twice")
    return members


def _namespaced(namespace: str, items: list[Any]) -> dict[Any, Any]:
    items[::2] = [_in_namespace(key, namespace) for key in items[::2]]
    return _map(items)


def _in_namespace(key: Any, namespace: str) -> Any:
    if not isinstance(key, Keyword):
        return key
    if "/" not in key.name:
        return Keyword(f"{namespace}/{key.name}")
    return Keyword(key.name[2:]) if key.name.startswith("_/") else key


def _freeze(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_freeze, value))
    if isinstance(value, dict):
        return ImmutableDict({key: _freeze(item) for key, item in value.items()})
    return Tagged(value.tag, _freeze(value.value)) if isinstance(value, Tagged) else value


def _complete_items(items: list[Any]) -> int:
    """Return how many items belong to complete forms; a discard belongs to the form after it."""
    complete, missing = 0, 1
    for position, item in enumerate(items, 1):
        if type(item) is not _Mark:
            missing -= 1
        elif item.tag is None:
            missing += 1
        if not missing:
            complete, missing = position, 1
    return complete


def _apply_marks(items: list[Any]) -> list[Any]:
    """Apply marks from the last to the first, so that each is followed by a complete form."""
    forms: list[Any] = []
    for item in reversed(items):
        if type(item) is not _Mark:
            forms.append(item)
        elif not forms:
            raise EdnError("a tag or a discard is not followed by a form")
        elif item.tag is None:
            forms.pop()
        else:
            forms.append(read_tag(item.tag, _check_tags(forms.pop())))
    forms.reverse()
    return forms


def _check_tags(value: Any) -> Any:
    """Refuse a third tag: ``#xtdb.http/entity-ref #uuid "…"`` has two, and nesting is bounded."""
    if isinstance(value, Tagged) and isinstance(value.value, Tagged):
        raise EdnError("a value has three tags")
    return value
