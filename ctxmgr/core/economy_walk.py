"""The pool and the stream of economy prompts, one after the other. Pure.

    take   what a record adds: views, notices, masks, or all of them anew
    rows   the pieces of its prompt; only turns of which something changed are shown again

A record that begins a chain lists all again. What it says as before changes nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from ctxmgr.core.assembly import Section
from ctxmgr.core.economy_records import Masks, masked
from ctxmgr.core.envelopes import chat_id
from ctxmgr.core.folding import View
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lines import line_id, user_message
from ctxmgr.core.parts import CallRef, ShownCall
from ctxmgr.core.prompt_rows import Count, CountedBlock
from ctxmgr.core.seen_versions import Versions, seen
from ctxmgr.core.stream_turns import HeldTurn, Notice, held_turn
from ctxmgr.core.turns import ShownVersion, TurnRecord
from ctxmgr.errors import Corrupt

_AFTER_NUMBER: Final = re.compile("[.!]")
"""In the key of a view, what follows the number of its turn."""


class EconomyWalk:
    """Makes the rows of economy prompts."""

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        self._turns = turns
        self._versions = versions
        self._count = count
        self._told: dict[str, dict[str, Any]] = {"views": {}, "notices": {}, "masks": {}}
        """As the records say it; as values below."""
        self._views: dict[str, View] = {}
        self._notices: dict[int, tuple[Notice, ...]] = {}
        self._masks: dict[str, Masks] = {}
        self._pool: tuple[str, ...] = ()
        self._lines: list[CountedBlock] = []
        self._session = ""
        self._held: list[HeldTurn] = []
        self._handles: set[str] = set()
        self._made_in: dict[str, int] = {}
        """Tool call → its turn, of those that are held."""
        self._shown: list[list[CountedBlock]] = []
        """The pieces of each turn that is held."""

    def take(self, policy: Mapping[str, Any], *, whole: bool) -> None:
        """Take in what a record says of its policy; ``whole``: and of nothing else."""
        try:
            views, told, masks = (
                self._changed(name, policy, whole=whole) for name in ("views", "notices", "masks")
            )
            if whole or policy["pool"] is not None:
                self._pool, self._lines = tuple(policy["pool"] or ()), []
            self._read(views, told, masks)
            folded = {int(_AFTER_NUMBER.split(each)[0]) for each in views}
            stale = {*map(int, told), *(self._made_in[each] for each in masks & set(self._made_in))}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"a turn record does not say how its prompt was made: {error}") from error
        self._let_go(min(stale, default=len(self._held) + 1))
        self._show_again(folded)

    def rows(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion]
    ) -> dict[Section, Sequence[CountedBlock]]:
        """Return the pieces of the prompt whose record was taken last."""
        if record.session != self._session:  # a fork's own chat has another id
            self._session, self._shown = record.session, []
        if not self._lines:
            self._lines = [self._counted(Section.POOL, line_id(each), each) for each in self._pool]
        self._hold(record.n - 1, shown)
        return {Section.POOL: self._lines, Section.CHAT: self._chat(record)}

    def _changed(self, name: str, policy: Mapping[str, Any], *, whole: bool) -> set[str]:
        """Take in one of the maps; return the keys under which something else stands now."""
        known, given = self._told[name], policy[name]
        changed = {key for key, value in given.items() if known.get(key) != value}
        if whole:
            changed |= known.keys() - given.keys()
            self._told[name] = dict(given)
        else:
            known.update(given)
        return changed

    def _read(self, views: Iterable[str], told: Iterable[str], masks: Iterable[str]) -> None:
        """Read what has changed; what is not said any more is let go."""
        for key in views:
            value = self._told["views"].get(key)
            if value is None:
                del self._views[key]
            else:
                self._views[key] = View.from_value(value)
        for turn in told:
            notices = self._told["notices"].get(turn, ())
            self._notices[int(turn)] = tuple(map(Notice.from_value, notices))
        for object_id in masks:
            found = self._told["masks"].get(object_id, ())
            self._masks[object_id] = tuple((start, end, text) for start, end, text in found)

    def _show_again(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number <= len(self._shown):
                self._shown[number - 1] = self._pieces(self._held[number - 1])

    def _let_go(self, number: int) -> None:
        """Hold no turn from this one on: something was told in it that was not known before."""
        if number > len(self._held):
            return
        del self._held[number - 1 :]
        del self._shown[number - 1 :]
        self._made_in = {each: turn for each, turn in self._made_in.items() if turn < number}
        notices = (notice.handle for turn in self._held for notice in turn.notices)
        calls = (part for turn in self._held for part in turn.parts if isinstance(part, ShownCall))
        self._handles = {*notices, *(call.handle for call in calls)}

    def _hold(self, until: int, shown: Mapping[str, ShownVersion]) -> None:
        for number in range(len(self._held) + 1, until + 1):
            turn = self._turns[number - 1]
            self._held.append(self._held_turn(turn, number, shown))
            self._made_in.update(dict.fromkeys(turn.toolcall_ids, number))
        for held in self._held[len(self._shown) :]:
            self._shown.append(self._pieces(held))

    def _held_turn(self, turn: Turn, number: int, shown: Mapping[str, ShownVersion]) -> HeldTurn:
        refs: dict[str, CallRef] = {}
        outputs: dict[str, str] = {}
        for object_id in turn.toolcall_ids:
            if object_id not in shown:
                raise Corrupt(f"{object_id}: the record does not say which version was shown")
            version = seen(self._versions, shown[object_id])
            if version.call is None:
                raise Corrupt(f"{object_id} is no tool call")
            refs[object_id] = version.call
            masks = self._masks.get(object_id, ())
            outputs[object_id] = masked(version.content or "", masks)
        return held_turn(
            turn,
            number=number,
            calls=refs,
            outputs=outputs,
            notices=self._notices.get(number, ()),
            handles=self._handles,
        )

    def _chat(self, record: TurnRecord) -> list[CountedBlock]:
        n = record.n
        opened = HeldTurn(
            number=n, notices=self._notices.get(n, ()), user=self._turns[n - 1].user
        ).shown_user(self._views)
        asked = user_message(opened)
        said = list(chain.from_iterable(self._shown))
        return [*said, self._counted(Section.CHAT, None, asked)] if asked else said

    def _pieces(self, turn: HeldTurn) -> list[CountedBlock]:
        return list(self._shown_pieces(turn))

    def _shown_pieces(self, turn: HeldTurn) -> Iterator[CountedBlock]:
        for object_id, text in turn.shown(self._views).pieces(chat_id(self._session)):
            if text:
                yield self._counted(Section.CHAT, object_id, text)

    def _counted(self, section: Section, object_id: str | None, text: str) -> CountedBlock:
        return CountedBlock.of(section, object_id, text, count=self._count)
