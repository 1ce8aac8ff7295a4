"""The pool, chat and active content of plain prompts, one after the other. Pure.

Every line and every text is made and counted once, however many prompts show it.
"""

from collections.abc import Mapping, Sequence

from ctxmgr.core.assembly import ActiveBlock, Section, ShownTurn
from ctxmgr.core.envelopes import TOOLCALL, chat_id, system_prompt_id
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lines import file_content, file_line, toolcall_line, user_message
from ctxmgr.core.parts import CallRef
from ctxmgr.core.prompt_rows import Count, CountedBlock
from ctxmgr.core.seen_versions import SeenVersion, Versions, seen
from ctxmgr.core.turns import ShownVersion, TurnRecord
from ctxmgr.errors import Corrupt


class PlainWalk:
    """Makes the rows of plain prompts."""

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        self._turns = turns
        self._versions = versions
        self._count = count
        self._lines: dict[str, tuple[ShownVersion, CountedBlock]] = {}
        """Object → what was shown of it last, and its line."""
        self._texts: dict[ShownVersion, CountedBlock] = {}
        self._pool: dict[str, CountedBlock] = {}
        self._said: list[CountedBlock] = []
        self._told = 0
        """So many turns are in what was said."""
        self._session = ""

    def rows(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion], *, whole: bool
    ) -> dict[Section, Sequence[CountedBlock]]:
        """Return the pieces of a prompt.

        ``whole`` says that what is shown has to be looked at from the beginning: the record before
        was no plain one, or of another chain.
        """
        return {
            Section.POOL: self._pool_pieces(record, shown, whole=whole),
            Section.CHAT: self._chat_pieces(record, shown),
            Section.ACTIVE: [self._text(each, shown) for each in record.active],
        }

    def _pool_pieces(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion], *, whole: bool
    ) -> tuple[CountedBlock, ...]:
        own = (chat_id(record.session), system_prompt_id(record.session))
        listed = shown.values() if whole else record.shown
        lines = {each.object_id: self._line(each) for each in listed if each.object_id not in own}
        if whole:
            self._pool = lines
        else:
            self._pool.update(lines)
        return tuple(self._pool.values())

    def _chat_pieces(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion]
    ) -> list[CountedBlock]:
        if record.session != self._session:  # a fork's own chat has another id
            self._said, self._told, self._session = [], 0, record.session
        for turn in self._turns[self._told : record.n - 1]:
            text = ShownTurn.of(turn, calls=self._calls(turn, shown)).text
            if text:
                self._said.append(self._counted(Section.CHAT, chat_id(record.session), text))
            self._told += 1
        asked = user_message(self._turns[record.n - 1].user)
        return [*self._said, self._counted(Section.CHAT, None, asked)] if asked else self._said

    def _calls(self, turn: Turn, shown: Mapping[str, ShownVersion]) -> dict[str, CallRef]:
        known = (self._seen(each, shown).call for each in turn.toolcall_ids if each in shown)
        return {call.object_id: call for call in known if call is not None}

    def _line(self, shown: ShownVersion) -> CountedBlock:
        before = self._lines.get(shown.object_id)
        if before is not None and before[0] is shown:
            return before[1]
        line = _line(seen(self._versions, shown), shown)
        if before is not None and before[1].text == line:
            piece = before[1]  # another version of which the line says the same
        else:
            piece = self._counted(Section.POOL, shown.object_id, line)
        self._lines[shown.object_id] = (shown, piece)
        return piece

    def _text(self, object_id: str, shown: Mapping[str, ShownVersion]) -> CountedBlock:
        if object_id not in shown:
            raise Corrupt(f"{object_id}: the record does not say which version was active")
        each = shown[object_id]
        known = self._texts.get(each)
        if known is None:
            block = _block(self._seen(object_id, shown), each)
            known = self._texts[each] = CountedBlock.of(
                Section.ACTIVE, object_id, block.text, count=self._count, hashed=block.hash
            )
        return known

    def _seen(self, object_id: str, shown: Mapping[str, ShownVersion]) -> SeenVersion:
        return seen(self._versions, shown[object_id])

    def _counted(self, section: Section, object_id: str | None, text: str) -> CountedBlock:
        return CountedBlock.of(section, object_id, text, count=self._count)


def _line(version: SeenVersion, shown: ShownVersion) -> str:
    if version.call is not None:
        return toolcall_line(version.call)
    if shown.display_path is None:
        raise Corrupt(f"{shown.object_id}: the record does not say by which path it was shown")
    return file_line(version, display_path=shown.display_path, state=version.state(shown))


def _block(version: SeenVersion, shown: ShownVersion) -> ActiveBlock:
    if version.kind == TOOLCALL:
        return ActiveBlock(version.object_id, version.content or "")
    return ActiveBlock(version.object_id, file_content(version, state=version.state(shown)))
