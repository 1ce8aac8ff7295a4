"""EDN put together: steps become values, whatever is nested in whatever. Pure.

    step     add values │ open a bracket │ close it │ mark what follows

Nothing recurses while reading, and depth is bounded. Tags and discards wait as marks among the
items of their collection until it closes, so one without them, the usual case, pays nothing.

A key or a set's member that is a vector becomes a tuple, and a map there an ``ImmutableDict``.
Two keys that Python cannot tell apart (``1`` and ``1.0``) are an error, for one would be lost.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from edn_format import ImmutableDict

from ctxmgr.stores.edn import NESTING_MAX, EdnError, EdnTruncated, Keyword, Tagged
from ctxmgr.stores.edn_tokens import KEYWORDS, read_atom, read_tag, read_text

Step: TypeAlias = tuple[int, Any]
"""What to do, and with what: values, an opening bracket, a closing one, a mark."""

ADD, OPEN, CLOSE, MARK = range(4)

_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "#": "}"}


class _Mark:
    """A tag, or a discard (``tag`` is None), waiting for the form behind it."""

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
        """Open and close collections, and add what stands between."""
        stack, items = self.stack, self.items
        for kind, what in steps:
            if kind == ADD:
                items.extend(what)
            elif kind == OPEN:
                if len(stack) >= NESTING_MAX:
                    raise EdnError(f"nested deeper than {NESTING_MAX}")
                stack.append((items, self.opening, self.marked))
                self.items, self.opening, self.marked = items, _, _ = [], what, False
            elif kind == CLOSE:
                value = _closed(self.opening, what, items, marked=self.marked)
                self.items, self.opening, self.marked = items, _, _ = stack.pop()
                items.append(value)
            else:
                items.append(what)
                self.marked = True

    def only_form(self) -> Any:
        """Return the form, which must be whole and alone."""
        if self.stack:
            raise EdnTruncated(f"the text ends before a {self.opening[0]} is closed")
        if self.marked and _settled(self.items) == 0:
            raise EdnTruncated("the text ends before the form of a tag")
        items = _resolved(self.items) if self.marked else self.items
        if len(items) != 1:
            raise EdnError("more than one form") if items else EdnTruncated("no form")
        return items[0]

    def take_elements(self) -> list[Any]:
        """Return and forget the elements of the outermost list that are complete."""
        frames = [*self.stack[:2], (self.items, self.opening, self.marked)]
        outside = frames[0][0]
        if len(frames) == 1:
            return _take_closed(outside)
        items, opening, marked = frames[1]
        if outside or opening not in ("(", "["):
            raise EdnError("not one list or vector")
        end = _settled(items) if marked else len(items)
        done = items[:end]
        del items[:end]
        return _resolved(done) if marked else done


def steps_of(tokens: list[str]) -> list[Step]:
    """Return what the tokens ask for."""
    steps: list[Step] = []
    values: list[Any] = []
    for token in tokens:
        first = token[0]
        if first == ":":
            values.append(KEYWORDS[token])
        elif first in "([{" or (first == "#" and token[-1] == "{"):
            values = _begin(steps, OPEN, token, values)
        elif first in ")]}":
            values = _begin(steps, CLOSE, token, values)
        elif first == "#" and token[-1] != '"' and token[1:2] != "#":
            values = _begin(steps, MARK, _mark(token), values)
        elif first != ";":
            values.append(_value(token, first))
    if values:
        steps.append((ADD, values))
    return steps


def _begin(steps: list[Step], kind: int, what: Any, values: list[Any]) -> list[Any]:
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
        raise EdnError(f"{token[:40]} is no tag")
    return _Mark(token[1:])


def _take_closed(forms: list[Any]) -> list[Any]:
    if not forms:
        return []
    if len(forms) > 1 or not isinstance(forms[0], tuple | list):
        raise EdnError("not one list or vector")
    elements = list(forms[0])
    forms[0] = ()
    return elements


def _closed(opening: str, closing: str, items: list[Any], *, marked: bool) -> Any:
    if not opening or _CLOSING[opening[0]] != closing:
        raise EdnError(f"{closing} closes nothing")
    if marked:
        items = _resolved(items)
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
        found = dict(zip(pairs, pairs, strict=True))
    except TypeError:
        found = dict(zip(map(_frozen, items[::2]), items[1::2], strict=True))
    except ValueError as error:
        raise EdnError("a key of a map has no value") from error
    if 2 * len(found) != len(items):
        raise EdnError("a map has the same key twice")
    return found


def _set(items: list[Any]) -> frozenset[Any]:
    found = frozenset(map(_frozen, items))
    if len(found) != len(items):
        raise EdnError("a set has the same member twice")
    return found


def _namespaced(namespace: str, items: list[Any]) -> dict[Any, Any]:
    items[::2] = [_in_namespace(key, namespace) for key in items[::2]]
    return _map(items)


def _in_namespace(key: Any, namespace: str) -> Any:
    if not isinstance(key, Keyword):
        return key
    if "/" not in key.name:
        return Keyword(f"{namespace}/{key.name}")
    return Keyword(key.name[2:]) if key.name.startswith("_/") else key


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return ImmutableDict({key: _frozen(item) for key, item in value.items()})
    return Tagged(value.tag, _frozen(value.value)) if isinstance(value, Tagged) else value


def _settled(items: list[Any]) -> int:
    """Return how many of the items belong to complete forms; a discard goes with the next form."""
    settled, wanted = 0, 1
    for position, item in enumerate(items, 1):
        if type(item) is not _Mark:
            wanted -= 1
        elif item.tag is None:
            wanted += 1
        if not wanted:
            settled, wanted = position, 1
    return settled


def _resolved(items: list[Any]) -> list[Any]:
    """Apply the marks, last one first, so that each finds its form already whole."""
    forms: list[Any] = []
    for item in reversed(items):
        if type(item) is not _Mark:
            forms.append(item)
        elif not forms:
            raise EdnError("a tag or a discard has no form behind it")
        elif item.tag is None:
            forms.pop()
        else:
            forms.append(read_tag(item.tag, _few_tags(forms.pop())))
    forms.reverse()
    return forms


def _few_tags(value: Any) -> Any:
    """Refuse a third tag: ``#xtdb.http/entity-ref #uuid "…"`` has two, and chains need a bound."""
    if isinstance(value, Tagged) and isinstance(value.value, Tagged):
        raise EdnError("three tags stand before one value")
    return value
