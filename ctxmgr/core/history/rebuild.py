"""Rebuild the prompts of a session from their turn records, each proven by its hash. Pure.

    join      read the record of the next turn, without building its prompt
    build     build the prompt of the record that was joined last, in rows of counted blocks
    context   build it as the ``Context`` that was rendered then

Nothing of the machine that sent the prompts is needed: display paths and file states are in the
records. A prompt whose hash is not the recorded one is ``Corrupt``.

Building a prompt from its records alone costs its length, so that building each of a thousand would
cost the square. The walk builds each prompt from the one before: a step costs what is new, and a
comparison of the blocks that are not. Every line and every text is rendered and counted once,
however many prompts show it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ctxmgr.core.append_only import TextHash
from ctxmgr.core.context.assembly import (
    RENDERERS,
    ActiveBlock,
    Block,
    Context,
    PieceKind,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
    hash_sections,
)
from ctxmgr.core.context.compact import COMPACT_RENDERERS, compact
from ctxmgr.core.context.lines import (
    ended,
    file_content,
    file_line,
    line_id,
    toolcall_line,
    user_message,
)
from ctxmgr.core.economy.folding import TextView
from ctxmgr.core.economy.records import Masks, compaction_of, masked
from ctxmgr.core.economy.stream_turns import (
    COMPACTED,
    COMPACTED_TURN,
    DIGEST,
    ECONOMY_RENDERERS,
    HeldTurn,
    Notice,
    StreamTurn,
    TurnPiece,
    held_turn,
    turn_number,
)
from ctxmgr.core.economy.turn_masks import masked_turn, masked_turn_number, user_key
from ctxmgr.core.history.context_masks import masked_context
from ctxmgr.core.history.prompt_rows import (
    JOINED,
    Count,
    CountedBlock,
    Prompt,
    PromptRow,
)
from ctxmgr.core.history.shown_versions import PromptVersion, Versions, require_version
from ctxmgr.core.history.turn_records import ShownVersion, TurnRecord, masks_at
from ctxmgr.core.objects.answers import AnswerCall, CallRef
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.envelope import TOOLCALL, chat_id, system_prompt_id
from ctxmgr.core.objects.hashes import is_hash, sha256
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect, Purged

if TYPE_CHECKING:
    from ctxmgr.core.economy.summary import Summary

HASHED_BLOCKS: Final = 16
"""Blocks between two kept states of a hash: at most so many unchanged blocks are hashed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The parts of a context that the two layouts build differently."""

    pool: Pool
    transcript: Transcript
    user: str
    active: tuple[ActiveBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockText:
    """A text that a block shows in full or in part."""

    what: str
    """output, notice, or the path of an argument of a call, such as ``/newText``."""
    content: str = field(repr=False)
    shown: tuple[tuple[int, int, str | None], ...]
    """Start and end of what the prompt shows of it; a name: it is shown there, and referred to."""


class PromptWalk:
    """Builds the prompts of a session in the order of its turns."""

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        """Take the session's turns, every version its prompts showed, and a token counter."""
        self._turns = turns
        self._versions = versions
        self._count = count
        self._plain = PlainWalk(turns, versions, count=count)
        self._economy = EconomyWalk(turns, versions, count=count)
        self._has_purged = any(version.purge is not None for version in versions.values())
        self._record: TurnRecord | None = None
        self._built: TurnRecord | None = None
        self._shown: dict[str, ShownVersion] = {}
        self._masks: Mapping[str, Masks] = {}
        self._paragraphs: dict[tuple[Section, str | None, str], CountedBlock] = {}
        self._rows = {section: PromptRow(section) for section in Section}
        self._hashes = {section: RowHash(section) for section in JOINED}

    def join(self, record: TurnRecord) -> None:
        """Read the record of the next turn."""
        plain = (*RENDERERS, *sorted(COMPACT_RENDERERS))
        renderers = plain if record.policy is None else ECONOMY_RENDERERS
        if record.renderer.removesuffix(COMPACTED) not in renderers:
            known = " or ".join(renderers)
            raise Incorrect(f"{record.object_id} was rendered by {record.renderer}, not {known}")
        previous, self._record = self._record, record
        if record.snapshot == record.n:
            self._shown = {}
        elif previous is None or not _follows(record, previous):
            raise Corrupt(f"{record.object_id} does not continue the record before it")
        self._shown.update((version.object_id, version) for version in record.shown)
        self._masks = masks_at(record, previous=previous, before=self._masks)
        if record.policy is not None:
            whole = record.snapshot == record.n or previous is None or previous.policy is None
            self._economy.join(record.policy, whole=whole)

    def build(self) -> Prompt:
        """Return the prompt; ``Corrupt`` unless it hashes to what was sent.

        What was purged of it is shown as such, and then its hash proves nothing.
        """
        record = self._record
        assert record is not None, "a record was joined"
        if record.n > len(self._turns):
            raise Incorrect(f"{record.object_id}: the chat has only {len(self._turns)} turns")
        if record.policy is not None:
            rows = self._economy.rows(record, self._shown)
        elif record.renderer in COMPACT_RENDERERS:
            rows = self._compact_rows(record)
        else:
            built = self._built
            whole = built is None or not _is_plain(built) or not _follows(record, built)
            rows = self._plain.rows(record, self._shown, whole=whole)
        self._built = record
        paragraphs = self._whole_paragraphs(record)
        for section, blocks in paragraphs.items():
            rows[section] = [block for block in blocks if block.text]
        self._rows = {
            section: row.become(rows.get(section, ())) for section, row in self._rows.items()
        }
        computed = self._prompt_hash(paragraphs)
        if computed != record.prompt_hash and self.purge is None:
            raise HashMismatch(record.object_id, "prompt_hash", record.prompt_hash, computed)
        return Prompt(tuple(row for row in self._rows.values() if row.blocks))

    def context(self) -> Context:
        """Return the prompt of the record that was joined last, as it was rendered then.

        ``Purged`` if something that it showed was removed for good. ``Corrupt`` unless it hashes to
        what was sent, and unless the chat is the recorded one: other forms of the prompt show parts
        of an answer that the hash of the text does not cover.
        """
        record = self._record
        assert record is not None, "a record was joined"
        if record.n > len(self._turns):
            raise Incorrect(f"{record.object_id}: the chat has only {len(self._turns)} turns")
        if self.purge is not None:
            raise Purged(
                f"the prompt of turn {record.n} of session {record.session} cannot be rebuilt and "
                "proven: something that it showed was removed for good",
                self.purge,
            )
        self._check_chat(record)
        context = self._context(record)
        computed = context.prompt_hash()
        if computed != record.prompt_hash:
            raise HashMismatch(record.object_id, "prompt_hash", record.prompt_hash, computed)
        return context

    def _context(self, record: TurnRecord) -> Context:
        if record.policy is None:
            layout = self._plain.layout(record, self._shown)
        else:
            layout = self._economy.layout(record, self._shown)
        context = Context(
            session_id=record.session,
            system_prompt=self._system_prompt(record).content or "",
            pool=layout.pool,
            transcript=layout.transcript,
            user=layout.user,
            active=layout.active,
            contributions=record.contributions,
        )
        if record.renderer not in COMPACT_RENDERERS:
            return context
        return compact(masked_context(context, self._masks))

    @property
    def purge(self) -> int | None:
        """The purge that removed something that the prompt showed; None if there is none."""
        if not self._has_purged:
            return None
        shown = ((version.object_id, version.object_hash) for version in self._shown.values())
        versions = (self._versions[key] for key in shown if key in self._versions)
        return next((version.purge for version in versions if version.purge is not None), None)

    def _compact_rows(self, record: TurnRecord) -> dict[Section, Sequence[CountedBlock]]:
        """Return the blocks of a compact prompt. Each costs the length of its prompt."""
        context = self._context(record)
        return {
            section: [self._compact_block(block) for block in context.section(section)]
            for section in (Section.POOL, Section.CHAT, Section.ACTIVE)
        }

    def _compact_block(self, block: Block) -> CountedBlock:
        active = block.section is Section.ACTIVE
        of_file = active and block.object_id is not None and is_hash(block.object_id)
        is_last = block.section is Section.CHAT and block.object_id is None
        return CountedBlock.of(
            block.section,
            block.object_id,
            block.text,
            count=self._count,
            hashed=sha256(block.text.encode()) if active else None,
            kind=PieceKind.FILE if of_file else PieceKind.USER if is_last else None,
        )

    def texts(self, block: CountedBlock) -> list[BlockText]:
        """Return the whole texts that a block of the prompt built last shows or hides.

        Empty: the block is all there is.
        """
        assert self._built is not None, "a prompt was built"
        return self._economy.texts(self._built, block.key) if block.key else []

    def _check_chat(self, record: TurnRecord) -> None:
        chat = Chat(session_id=record.session, turns=tuple(self._turns[: record.n - 1]))
        recorded = _require_shown(self._shown, chat.object_id).object_hash
        if chat.object_hash != recorded:
            raise HashMismatch(chat.object_id, "object_hash", recorded, chat.object_hash)

    def _system_prompt(self, record: TurnRecord) -> PromptVersion:
        shown = _require_shown(self._shown, system_prompt_id(record.session))
        return require_version(self._versions, shown)

    def _whole_paragraphs(self, record: TurnRecord) -> dict[Section, list[CountedBlock]]:
        """Return the system prompt and the contributions, empty ones included."""
        system = self._system_prompt(record)
        paragraphs = {
            Section.SYSTEM: [
                self._paragraph(Section.SYSTEM, system.object_id, system.content or "")
            ]
        }
        for contribution in record.contributions:
            block = self._paragraph(contribution.slot, None, contribution.text)
            paragraphs.setdefault(contribution.slot, []).append(block)
        return paragraphs

    def _paragraph(self, section: Section, object_id: str | None, text: str) -> CountedBlock:
        key = (section, object_id, ended(text))
        if key not in self._paragraphs:
            hashed = sha256(key[2].encode())
            self._paragraphs[key] = CountedBlock.of(*key, count=self._count, hashed=hashed)
        return self._paragraphs[key]

    def _prompt_hash(self, paragraphs: Mapping[Section, Sequence[CountedBlock]]) -> str:
        hashes = {section: _hashes(blocks) for section, blocks in paragraphs.items()}
        hashes[Section.ACTIVE] = _hashes(self._rows[Section.ACTIVE].blocks)
        for section in JOINED:
            hashes[section] = [self._hashes[section].of(self._rows[section])]
        return hash_sections(hashes)


class PlainWalk:
    """Builds the pool, chat and active content of plain prompts."""

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        self._turns = turns
        self._versions = versions
        self._count = count
        self._lines: dict[str, tuple[ShownVersion, CountedBlock]] = {}
        """Object → the version that was shown last, and its line."""
        self._active: dict[ShownVersion, CountedBlock] = {}
        self._pool: dict[str, CountedBlock] = {}
        self._shown_turns: list[ShownTurn] = []
        self._chat: list[CountedBlock] = []
        """Of the shown turns, without empty ones."""
        self._session = ""

    def rows(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion], *, whole: bool
    ) -> dict[Section, Sequence[CountedBlock]]:
        """Return the blocks of a prompt.

        With ``whole``, everything that is shown is compared, not only what the record lists: the
        prompt built before was not a plain one, or belongs to another chain of records.
        """
        return {
            Section.POOL: self._pool_blocks(record, shown, whole=whole),
            Section.CHAT: self._chat_blocks(record, shown),
            Section.ACTIVE: [self._active_block(object_id, shown) for object_id in record.active],
        }

    def layout(self, record: TurnRecord, shown: Mapping[str, ShownVersion]) -> _Layout:
        """Return the parts of a context, without counting them."""
        not_pooled = (chat_id(record.session), system_prompt_id(record.session))
        return _Layout(
            pool=Pool(
                PoolEntry(
                    object_id=version.object_id,
                    line=_pool_line(require_version(self._versions, version), version),
                )
                for version in shown.values()
                if version.object_id not in not_pooled
            ),
            transcript=Transcript(
                ShownTurn.of(turn, calls=self._calls(turn, shown))
                for turn in self._turns[: record.n - 1]
            ),
            user=self._turns[record.n - 1].user,
            active=tuple(
                _active_block(require_version(self._versions, version), version)
                for version in (_require_shown(shown, object_id) for object_id in record.active)
            ),
        )

    def _pool_blocks(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion], *, whole: bool
    ) -> tuple[CountedBlock, ...]:
        not_pooled = (chat_id(record.session), system_prompt_id(record.session))
        lines = {
            version.object_id: self._line(version)
            for version in (shown.values() if whole else record.shown)
            if version.object_id not in not_pooled
        }
        if whole:
            self._pool = lines
        else:
            self._pool.update(lines)
        return tuple(self._pool.values())

    def _chat_blocks(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion]
    ) -> list[CountedBlock]:
        if record.session != self._session:  # the chat of a fork has another id
            self._chat, self._shown_turns, self._session = [], [], record.session
        for turn in self._turns[len(self._shown_turns) : record.n - 1]:
            shown_turn = ShownTurn.of(turn, calls=self._calls(turn, shown))
            self._shown_turns.append(shown_turn)
            chat, said = chat_id(record.session), user_message(shown_turn.user)
            answered = shown_turn.text.removeprefix(said)
            if said:
                self._chat.append(self._counted(Section.CHAT, chat, said, PieceKind.USER))
            if answered:
                self._chat.append(self._counted(Section.CHAT, chat, answered))
        user = user_message(self._turns[record.n - 1].user)
        if not user:
            return self._chat
        return [*self._chat, self._counted(Section.CHAT, None, user, PieceKind.USER)]

    def _calls(self, turn: Turn, shown: Mapping[str, ShownVersion]) -> dict[str, CallRef]:
        versions = (
            require_version(self._versions, shown[object_id])
            for object_id in turn.toolcall_ids
            if object_id in shown
        )
        return {version.object_id: version.call for version in versions if version.call is not None}

    def _line(self, shown: ShownVersion) -> CountedBlock:
        previous = self._lines.get(shown.object_id)
        if previous is not None and previous[0] is shown:
            return previous[1]
        line = _pool_line(require_version(self._versions, shown), shown)
        if previous is not None and previous[1].text == line:
            block = previous[1]  # another version with the same line
        else:
            block = self._counted(Section.POOL, shown.object_id, line)
        self._lines[shown.object_id] = (shown, block)
        return block

    def _active_block(self, object_id: str, shown: Mapping[str, ShownVersion]) -> CountedBlock:
        if object_id not in shown:
            raise Corrupt(f"{object_id}: the record does not say which version was active")
        version = shown[object_id]
        counted = self._active.get(version)
        if counted is None:
            stored = require_version(self._versions, version)
            block = _active_block(stored, version)
            counted = self._active[version] = CountedBlock.of(
                Section.ACTIVE,
                object_id,
                block.text,
                count=self._count,
                hashed=block.hash,
                kind=PieceKind.OUTPUT if stored.kind == TOOLCALL else PieceKind.FILE,
            )
        return counted

    def _counted(
        self, section: Section, object_id: str | None, text: str, kind: PieceKind | None = None
    ) -> CountedBlock:
        return CountedBlock.of(section, object_id, text, count=self._count, kind=kind)


class EconomyWalk:
    """Builds the pool and the stream of economy prompts.

    Only turns of which something changed are rendered again. A record that begins a chain repeats
    everything; what it repeats unchanged is not rendered again either.
    """

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        self._turns = turns
        self._versions = versions
        self._count = count
        self._values: dict[str, dict[str, Any]] = {"views": {}, "notices": {}, "masks": {}}
        """As the records store them; the three fields below hold what was read from them."""
        self._views: dict[str, TextView] = {}
        self._notices: dict[int, tuple[Notice, ...]] = {}
        self._masks: dict[str, Masks] = {}
        self._summary: Summary | None = None
        self._pool: tuple[str, ...] = ()
        self._pool_blocks: list[CountedBlock] = []
        self._session = ""
        self._held: list[HeldTurn] = []
        self._handles: set[str] = set()
        self._turn_of_call: dict[str, int] = {}
        """Tool call → its turn, of the held turns."""
        self._turn_blocks: list[list[CountedBlock]] = []
        """The blocks of each held turn."""

    def join(self, policy: Mapping[str, Any], *, whole: bool) -> None:
        """Read what a record says of its policy; with ``whole``, nothing before it counts."""
        try:
            views, notices, masks = (
                self._changed(name, policy, whole=whole) for name in ("views", "notices", "masks")
            )
            if whole or policy["pool"] is not None:
                self._pool, self._pool_blocks = tuple(policy["pool"] or ()), []
            self._read(views, notices, masks)
            before, self._summary = self._summary, compaction_of(policy, self._summary)
            folded = {turn_number(key) for key in views}
            folded |= {turn_number(key) + 1 for key in views if key[-1:] == DIGEST}
            masked_calls = masks & self._turn_of_call.keys()
            stale = {*map(int, notices), *(self._turn_of_call[call] for call in masked_calls)}
            stale |= {number for key in masks if (number := masked_turn_number(key)) is not None}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"a turn record does not say how its prompt was made: {error}") from error
        if before != self._summary:
            # The turns between the two boundaries, and those that begin with a summary.
            low, high = sorted((0 if before is None else before.turns, self._compacted))
            folded |= set(range(low + 1, high + 2))
        self._release_from(min(stale, default=len(self._held) + 1))
        for number in folded:
            if number <= len(self._turn_blocks):
                self._turn_blocks[number - 1] = self._blocks(number - 1)

    def rows(
        self, record: TurnRecord, shown: Mapping[str, ShownVersion]
    ) -> dict[Section, Sequence[CountedBlock]]:
        """Return the blocks of the prompt whose record was joined last."""
        if record.session != self._session:  # the chat of a fork has another id
            self._session, self._turn_blocks = record.session, []
        if not self._pool_blocks:
            self._pool_blocks = [
                self._counted(Section.POOL, line_id(line), line) for line in self._pool
            ]
        self._hold_until(record, shown)
        for index in range(len(self._turn_blocks), len(self._held)):
            self._turn_blocks.append(self._blocks(index))
        chat = list(chain.from_iterable(self._turn_blocks))
        chat += (self._piece(piece, None) for piece in self._open(record).user_pieces(self._views))
        return {Section.POOL: self._pool_blocks, Section.CHAT: chat}

    def texts(self, record: TurnRecord, key: str) -> list[BlockText]:
        """Return the whole texts of a block, and what the prompt shows of each."""
        number = turn_number(key)
        turn = self._open(record) if number == record.n else self._held[number - 1]
        return [
            BlockText(
                what=slot.key.removeprefix(key) or ("notice" if "!" in key else "output"),
                content=slot.content,
                shown=_shown_spans(slot.content, self._views.get(slot.key)),
            )
            for slot in (turn.digest_slots() if key.endswith(DIGEST) else turn.slots())
            if slot.content and (slot.key == key or slot.key.startswith(f"{key}/"))
        ]

    def layout(self, record: TurnRecord, shown: Mapping[str, ShownVersion]) -> _Layout:
        """Return the parts of the context whose record was joined last, without counting them."""
        self._hold_until(record, shown)
        return _Layout(
            pool=Pool(PoolEntry(object_id=line_id(line), line=line) for line in self._pool),
            transcript=Transcript(map(self._shown, range(len(self._held)))),
            user=self._open(record).shown_user(self._views),
        )

    @property
    def _compacted(self) -> int:
        """How many turns are shown as a summary."""
        return 0 if self._summary is None else self._summary.turns

    def _changed(self, name: str, policy: Mapping[str, Any], *, whole: bool) -> set[str]:
        """Update one of the maps; return the keys whose values changed."""
        current, listed = self._values[name], policy[name]
        changed = {key for key, value in listed.items() if current.get(key) != value}
        if whole:
            changed |= current.keys() - listed.keys()
            self._values[name] = dict(listed)
        else:
            current.update(listed)
        return changed

    def _read(self, views: Iterable[str], notices: Iterable[str], masks: Iterable[str]) -> None:
        """Read the values of the changed keys, and drop those that are gone."""
        for key in views:
            value = self._values["views"].get(key)
            if value is None:
                del self._views[key]
            else:
                self._views[key] = TextView.from_value(value)
        for turn in notices:
            values = self._values["notices"].get(turn, ())
            self._notices[int(turn)] = tuple(map(Notice.from_value, values))
        for object_id in masks:
            values = self._values["masks"].get(object_id, ())
            self._masks[object_id] = tuple((start, end, text) for start, end, text in values)

    def _release_from(self, number: int) -> None:
        """Forget the turns from this one on: their notices or masks have changed."""
        if number > len(self._held):
            return
        del self._held[number - 1 :]
        del self._turn_blocks[number - 1 :]
        self._turn_of_call = {
            call: turn for call, turn in self._turn_of_call.items() if turn < number
        }
        notices = (notice.handle for turn in self._held for notice in turn.notices)
        calls = (part for turn in self._held for part in turn.parts if isinstance(part, AnswerCall))
        self._handles = {*notices, *(call.handle for call in calls)}

    def _hold_until(self, record: TurnRecord, shown: Mapping[str, ShownVersion]) -> None:
        for number in range(len(self._held) + 1, record.n):
            turn = masked_turn(self._turns[number - 1], number=number, masks=self._masks)
            self._held.append(self._hold(turn, number, shown))
            self._turn_of_call.update(dict.fromkeys(turn.toolcall_ids, number))
        if self._compacted and self._compacted >= len(self._held):
            raise Corrupt(f"{record.object_id} has a summary of turns that come after it")

    def _hold(self, turn: Turn, number: int, shown: Mapping[str, ShownVersion]) -> HeldTurn:
        refs: dict[str, CallRef] = {}
        outputs: dict[str, str] = {}
        for object_id in turn.toolcall_ids:
            version = require_version(self._versions, _require_shown(shown, object_id))
            if version.call is None:
                raise Corrupt(f"{object_id} is a {version.kind}, not a {TOOLCALL}")
            refs[object_id] = version.call
            outputs[object_id] = masked(version.content or "", self._masks.get(object_id, ()))
        return held_turn(
            turn,
            number=number,
            calls=refs,
            outputs=outputs,
            notices=self._notices.get(number, ()),
            handles=self._handles,
        )

    def _open(self, record: TurnRecord) -> HeldTurn:
        """Return the turn that the prompt is for: its notices, and the new message of the user."""
        said, masks = self._turns[record.n - 1].user, self._masks.get(user_key(record.n), ())
        notices, user = self._notices.get(record.n, ()), masked(said, masks)
        return HeldTurn(number=record.n, notices=notices, user=user)

    def _shown(self, index: int) -> StreamTurn:
        if index < self._compacted:
            return COMPACTED_TURN
        if self._summary is not None and index == self._compacted:
            return self._held[index].shown(self._views, before=self._summary.text)
        before = self._held[index - 1].digest(self._views) if index else ""
        return self._held[index].shown(self._views, before=before)

    def _blocks(self, index: int) -> list[CountedBlock]:
        if index < self._compacted:
            return []
        chat, before = chat_id(self._session), self._held[index - 1] if index else None
        if self._summary is not None and index == self._compacted:
            pieces = self._held[index].pieces(self._views, summary=self._summary.text)
        else:
            pieces = self._held[index].pieces(self._views, before=before)
        return [self._piece(piece, chat) for piece in pieces if piece.text]

    def _piece(self, piece: TurnPiece, chat: str | None) -> CountedBlock:
        return CountedBlock.of(
            Section.CHAT,
            piece.object_id or chat,
            piece.text,
            count=self._count,
            kind=piece.kind,
            key=piece.key,
            hidden_tokens=piece.hidden_tokens,
        )

    def _counted(self, section: Section, object_id: str | None, text: str) -> CountedBlock:
        return CountedBlock.of(section, object_id, text, count=self._count)


class RowHash:
    """SHA-256 of a row's text, for rows that mostly grow at their end."""

    def __init__(self, section: Section) -> None:
        self._row = PromptRow(section)
        self._states: list[TextHash] = [TextHash()]
        """After every ``HASHED_BLOCKS`` blocks."""

    def of(self, row: PromptRow) -> str:
        """Return the hash of the row; blocks shared with the last row are not hashed again."""
        kept, blocks = row.shared(self._row) // HASHED_BLOCKS, row.blocks
        del self._states[kept + 1 :]
        self._row = row
        for start in range(kept * HASHED_BLOCKS, len(blocks), HASHED_BLOCKS):
            text = "".join([block.text for block in blocks[start : start + HASHED_BLOCKS]])
            self._states.append(self._states[-1].append(text))
        last = self._states[-1].hexdigest()
        if len(blocks) % HASHED_BLOCKS:
            del self._states[-1]
        return last


def _pool_line(version: PromptVersion, shown: ShownVersion) -> str:
    if version.call is not None:
        return toolcall_line(version.call)
    if shown.display_path is None:
        raise Corrupt(f"{shown.object_id}: the record has no display path for it")
    return file_line(version, display_path=shown.display_path, state=version.state(shown))


def _active_block(version: PromptVersion, shown: ShownVersion) -> ActiveBlock:
    if version.kind == TOOLCALL:
        return ActiveBlock(version.object_id, version.content or "")
    return ActiveBlock(version.object_id, file_content(version, state=version.state(shown)))


def _shown_spans(content: str, view: TextView | None) -> tuple[tuple[int, int, str | None], ...]:
    if view is None:
        return ((0, len(content), None),)
    return tuple((span.start, span.end, span.as_in) for span in view.spans)


def _require_shown(shown: Mapping[str, ShownVersion], object_id: str) -> ShownVersion:
    if object_id not in shown:
        raise Corrupt(f"{object_id}: the record does not say which version was shown")
    return shown[object_id]


def _hashes(blocks: Iterable[CountedBlock]) -> list[str]:
    return [block.hash for block in blocks if block.hash is not None]


def _is_plain(record: TurnRecord) -> bool:
    return record.policy is None and record.renderer not in COMPACT_RENDERERS


def _follows(record: TurnRecord, previous: TurnRecord) -> bool:
    """Whether a record continues the previous one: same chain, next turn."""
    same = (record.session, record.snapshot) == (previous.session, previous.snapshot)
    return same and record.n == previous.n + 1
