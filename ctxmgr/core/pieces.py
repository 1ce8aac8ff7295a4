"""The texts of a prompt that may be folded, and what stands in it because of them. Pure.

    say      text that stays as it is
    arrive   a text comes in, short if it is long
    refold   it becomes shorter
    use      an action names things: what holds them is not idle

All keep count of the names and lines that stand in the prompt now, since what stays of a text
depends on what stands elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ctxmgr.core.folding import Count, Limits, Text, View, fold, shown, standing_lines
from ctxmgr.core.identifiers import identifiers
from ctxmgr.core.repeats import ShownLines
from ctxmgr.core.standing import Standing
from ctxmgr.core.stream_turns import Place

NAMES_USED_MIN: Final = 2
"""An action that names so many of a text's identifiers has used it. One is often chance."""

REPEAT_TOKENS_MIN: Final = 60
"""A shorter run of lines is shown again rather than referred to."""

TEXTS_MAX: Final = 256
"""Texts whose analysis is kept: the same one often comes twice in a row."""

Signatures: TypeAlias = Callable[[str, str], Collection[int]]
"""From a source file's text and its path to the lines, from 0, that say what is in it."""


@dataclass(slots=True, eq=False)
class Piece:
    """A text that may be folded, and how it stands now."""

    place: Place
    message: int
    """Of the whole stream."""
    text: Text = field(repr=False)
    used: int
    """The call that last used it, or brought it."""
    view: View | None = None
    tokens: int = 0
    """As it stands now."""
    settled: bool = False
    """As short as its age makes it."""

    def kept_tokens(self) -> int:
        """Return what the lines cost that stand in the prompt."""
        return sum(line.tokens for line in standing_lines(self.text, self.view))


class Pieces:
    """All texts of one stream."""

    def __init__(self, *, count: Count, signatures: Signatures) -> None:
        self.all: list[Piece] = []
        self.views: dict[str, View] = {}
        """By the key of the place; what has none is whole."""
        self._count = count
        self._signatures = signatures
        self._standing = Standing()
        self._lines = ShownLines()
        self._holding: defaultdict[str, list[Piece]] = defaultdict(list)
        self._texts: dict[tuple[str, str], Text] = {}

    def say(self, text: str) -> None:
        """Take in text that stays."""
        self._standing.enter([identifiers(text)])

    def analysed(self, place: Place) -> Text:
        """Return what is known of a place's text."""
        content, key = place.content, (place.content, place.path)
        if key not in self._texts:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            rows = self._signatures(content, place.path) if place.path else frozenset()
            self._texts[key] = Text.of(content, count=self._count, signatures=rows)
        return self._texts[key]

    def arrive(self, place: Place, *, message: int, call: int, limits: Limits | None) -> Piece:
        """Show a text for the first time; without limits, whole."""
        piece = self._new(place, message=message, call=call)
        view = None
        if limits is not None:
            view = fold(
                piece.text,
                limits=limits,
                standing=self._standing,
                repeats=self._lines.repeats(piece.text, tokens_min=REPEAT_TOKENS_MIN),
                count=self._count,
            )
        self._show(piece, view)
        return piece

    def restore(self, place: Place, *, message: int, call: int, view: View | None) -> Piece:
        """Show a text as it was shown before."""
        piece = self._new(place, message=message, call=call)
        self._show(piece, view)
        return piece

    def refold(self, piece: Piece, *, limits: Limits) -> None:
        """Make a text shorter; it stays as it is where that would make it longer."""
        before, tokens = piece.view, piece.tokens
        self._hide(piece)
        view = fold(piece.text, limits=limits, standing=self._standing, count=self._count)
        self._show(piece, view)
        if piece.tokens >= tokens:
            self._hide(piece)
            self._show(piece, before)

    def folded(self, object_id: str) -> list[Piece]:
        """Return the texts of an object that are not shown whole."""
        return [
            each for each in self.all if each.place.object_id == object_id and each.view is not None
        ]

    def use(self, action: str, *, call: int) -> None:
        """Note what an action names."""
        hits: Counter[int] = Counter()
        for name in identifiers(action):
            for piece in self._holding.get(name, ()):
                hits[id(piece)] += 1
                if hits[id(piece)] == NAMES_USED_MIN:
                    piece.used = call

    def _new(self, place: Place, *, message: int, call: int) -> Piece:
        text = self.analysed(place)
        names = identifiers(place.content)
        self._standing.met(names)
        piece = Piece(place=place, message=message, text=text, used=call)
        self.all.append(piece)
        for name in names:
            self._holding[name].append(piece)
        return piece

    def _show(self, piece: Piece, view: View | None) -> None:
        place, piece.view = piece.place, view
        lines = list(standing_lines(piece.text, view))
        names = view.names if view is not None else ()
        self._standing.enter((line.names for line in lines), names=names)
        self._lines.enter(place.key, place.content, lines, name=place.label)
        if view is None:
            self.views.pop(place.key, None)
            piece.tokens = piece.text.tokens
        else:
            self.views[place.key] = view
            text = shown(place.content, view, handle=place.handle, title=place.title)
            piece.tokens = self._count(text)

    def _hide(self, piece: Piece) -> None:
        names = piece.view.names if piece.view is not None else ()
        lines = standing_lines(piece.text, piece.view)
        self._standing.leave((line.names for line in lines), names=names)
        self._lines.leave(piece.place.key)
