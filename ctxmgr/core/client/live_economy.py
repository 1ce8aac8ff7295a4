"""The economy layout of one live session: feeds its stream, turn by turn. Reads the store.

    system prompt     unchanged
    pool              the files known when the epoch began, one line each
    stream            every turn, and every output and file text once, where it became active

A new epoch begins when nothing is cached at the provider: after a pause that is longer than the
cache's time to live, or with another model. Only then is the pool written again; files that are
discovered later are visible in the outputs that named them.

A session that is resumed continues from its last turn record, and renders what it would have
rendered without the interruption.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from ctxmgr.core.client.session_state import SessionState
from ctxmgr.core.context.assembly import Context, Contribution, Pool, PoolEntry
from ctxmgr.core.context.lines import line_id
from ctxmgr.core.context.pressure import PressureStep
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import TextView
from ctxmgr.core.economy.notices import (
    ActiveFile,
    ShownFiles,
    asked_back,
    interrupted_call,
    shown_again,
)
from ctxmgr.core.economy.planner import FoldPlanner
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.records import EconomyRecord, Masks, masked
from ctxmgr.core.economy.signatures import signature_rows
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.economy.stream_turns import HeldTurn, Notice, held_turn
from ctxmgr.core.economy.turn_masks import masked_turn, masked_turn_number, turn_texts, user_key
from ctxmgr.core.history.compactions import Compactions, last_compaction, requested_after
from ctxmgr.core.history.reading import read_economy
from ctxmgr.core.objects.answers import answer_parts
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.compaction import CompactionRecord, CompactionTrigger
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.secrets.masking import Secrets
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import BATCH_MAX
from ctxmgr.errors import Corrupt

if TYPE_CHECKING:
    from ctxmgr.core.economy.summary import Summary

POOL_TOKENS_MAX: Final = 4_000
"""For the pool of an epoch; of more files, the newest are listed."""

POOL_SHARE: Final = 0.1
"""The share of a small window that the pool may take."""

EARLIER_VERSIONS_MAX: Final = 100
"""Versions of a file among which the one that was last shown is looked for: a page of history."""

Views: TypeAlias = Mapping[str, TextView]


class LiveEconomy:
    """The economy layout of one live session, from the first prompt under a policy."""

    def __init__(self, state: SessionState, policy: Economy) -> None:
        self._state = state
        self._count = state.runtime.count
        self._stream = Stream(
            policy,
            count=self._count,
            signatures=signature_rows,
            mask=state.runtime.masker.shown,
        )
        self._planner = FoldPlanner(self._stream)
        self._files = ShownFiles()
        self._notices: dict[int, tuple[Notice, ...]] = {}
        self._masks: dict[str, Masks] = {}
        self.touched: set[str] = set()
        """Files that tool calls have read or written since the last prompt."""
        self._requested: dict[str, None] = {}
        self._answering: tuple[int, frozenset[str]] = (0, frozenset())
        """A turn, and what was requested for its prompt."""
        self._epoch = 0
        self._pool: tuple[PoolEntry, ...] = ()
        self._sent_at: float | None = None
        self._said: str | None = None
        """The user's text that was rendered last; None: by another client."""
        self._interrupted: tuple[str, ...] = ()
        """Calls of a turn that did not end, which are not shown yet."""
        self._adopted: Summary | None = None
        """The summary of a compaction that was requested before this client opened the session."""
        self._inherited = 0
        """The turns that earlier prompts showed as a summary with handles of another stream."""
        runtime = state.runtime
        self.compactions = Compactions(
            session_id=state.session.session_id,
            flushers=runtime.flushers,
            summariser=runtime.summariser,
            mask=runtime.masker.shown,
            clock=runtime.clock,
        )
        """Those that are not stored yet."""

    @classmethod
    async def open(
        cls, state: SessionState, policy: Economy, *, pending: Iterable[str] = ()
    ) -> Self:
        """Continue from the last prompt of the session, if it was rendered under a policy.

        ``pending`` are calls that belong to no stored turn: the process that ran them was killed.
        """
        store, session_id = state.runtime.store, state.session.session_id
        turn = state.chat.turn_count
        record = await read_economy(store, session_id, turn=turn)
        shown = 0
        if record is None:  # of the compactions before, none is shown in the next prompt
            requested = await last_compaction(store, session_id)
        else:
            shown = 0 if record.summary is None else record.summary.number
            requested = await requested_after(store, session_id, count=shown)
        if record is not None:
            economy = cls(state, record.policy)
            await economy._restore(record, turn=turn)
            economy._adopted = requested
        else:
            economy = cls(state, policy)
            if requested is not None:  # its handles are those of an earlier stream
                economy._inherited = requested.turns
                economy._stream.earlier_compactions = requested.number
        economy._interrupted = tuple(pending)
        economy.compactions.count = requested.number if requested else shown
        return economy

    async def _restore(self, record: EconomyRecord, *, turn: int) -> None:
        """Restore what the prompt of an earlier turn showed, byte for byte."""
        if record.summary is not None and record.stream is None:
            raise Corrupt(f"the record of turn {turn} has a summary without its stream")
        self._epoch, self._notices = record.epoch, dict(record.notices)
        self._masks = dict(record.masks)
        past, last = self._state.chat.turns[: turn - 1], self._state.chat.turns[turn - 1]
        compacted = 0 if record.summary is None else record.summary.turns
        stored = await self._outputs(past[compacted:])
        outputs = {
            object_id: masked(text, masks) if (masks := record.masks.get(object_id)) else text
            for object_id, text in stored.items()
        }
        await self._restore_files(record)
        if record.stream is None:
            for number, closed in enumerate(past, start=1):
                shown = masked_turn(closed, number=number, masks=record.masks)
                self._stream.open(record.notices.get(number, ()), views=record.views)
                self._close(shown, outputs, views=record.views)
            self._stream.open(record.notices.get(turn, ()), views=record.views)
            return
        opened = HeldTurn(number=turn, notices=record.notices.get(turn, ()))
        gone = chain.from_iterable(turn.toolcall_ids for turn in past[:compacted])
        outputs = {**dict.fromkeys(gone, ""), **outputs}  # what is compacted is not shown
        turns = self._held(past, outputs, record.notices)
        self._stream.restore(
            turns, opened, views=record.views, state=record.stream, summary=record.summary
        )
        self._planner.restore(record.stream)
        self._sent_at = record.stream.sent_at
        self._pool = tuple(PoolEntry(object_id=line_id(line), line=line) for line in record.pool)
        self.touched.update(record.stream.touched)
        self._requested = dict.fromkeys(record.stream.requested)
        self.answered(last)

    def _held(
        self,
        turns: Sequence[Turn],
        outputs: Mapping[str, str],
        notices: Mapping[int, tuple[Notice, ...]],
    ) -> Iterator[HeldTurn]:
        handles: set[str] = set()
        with_masks = set(map(masked_turn_number, self._masks))
        for number, turn in enumerate(turns, start=1):
            is_masked = number in with_masks
            yield held_turn(
                masked_turn(turn, number=number, masks=self._masks) if is_masked else turn,
                number=number,
                calls=self._state.cache.calls(turn.toolcall_ids),
                outputs=outputs,
                notices=notices.get(number, ()),
                handles=handles,
            )

    async def _restore_files(self, record: EconomyRecord) -> None:
        """Restore which texts of files were last shown; one that has changed since is read."""
        cache, texts = self._state.cache, dict[str, str]()
        paths = {
            object_id: self._state.runtime.masker.shown(cached.shown.display_path or object_id)
            for object_id in record.files
            if (cached := cache.get(object_id)) is not None
        }
        for object_id, shown_hash in record.files.items():
            content = cache.content(object_id)
            if content is None or self._shown_hash(content) != shown_hash:
                content = await self._earlier(object_id, shown_hash)
            if content is not None:
                texts[object_id] = self._state.runtime.masker.shown(content)
        notices = chain.from_iterable(record.notices.values())
        self._files.restore(record.files, notices, texts=texts, paths=paths)

    async def _earlier(self, object_id: str, shown_hash: str) -> str | None:
        """Return the newest text of a file that was shown with this hash; None if there is none."""
        page = await self._state.runtime.store.history(
            object_id, newest_first=True, corrections=True, limit=EARLIER_VERSIONS_MAX
        )
        for entry in page.entries:
            content = None if entry.document is None else entry.document.get("content")
            if isinstance(content, str) and self._shown_hash(content) == shown_hash:
                return content
        return None

    def _shown_hash(self, content: str) -> str:
        return sha256(self._state.runtime.masker.shown(content).encode())

    def answered(self, turn: Turn) -> None:
        """Adapt to the tokens that the provider counted in the last prompt."""
        reported = turn.assistant_meta.usage
        if reported is None:
            return
        from ctxmgr.core.model import read_usage

        usage = read_usage(reported)
        if usage is not None:
            self._planner.reported(usage.prompt_tokens)

    def ended(self, record: EconomyRecord) -> EconomyRecord:
        """Return the record of the last prompt with what has happened since, for the next one."""
        if record.stream is None:
            return record
        touched, requested = tuple(sorted(self.touched)), tuple(self._requested)
        stream = replace(record.stream, touched=touched, requested=requested)
        return replace(record, stream=stream)

    def request(self, object_id: str) -> None:
        """Show an object in full in the next prompt."""
        self._requested[object_id] = None

    @property
    def handles(self) -> Mapping[str, str]:
        """The object of each handle so far."""
        return self._stream.handles

    async def prompt(
        self, user: str, policy: Economy, *, contributions: Sequence[Contribution]
    ) -> tuple[Context, EconomyRecord]:
        """Return the next prompt and its record; ``WindowExceeded`` if it cannot fit."""
        await self._catch_up()
        interrupted = await self._interrupted_calls()
        self._said = user
        self._masks.pop(user_key(self._stream.number), None)  # of a prompt that was not sent
        user = self._mask(user_key(self._stream.number), user)
        cold = self._begin_call(policy)
        session = self._state.view

        def fixed() -> int:
            return self._fixed_tokens(user, contributions)

        requested = self._requested_now()
        self._keep_files(requested)
        self._continue_compaction(fixed)  # first: it may hide what is requested
        self._add_notices(interrupted, await self._texts_asked_back())
        self._keep_files(requested)
        planning = self._planner.planning(
            fixed=fixed,
            put_away=self._put_away(),
            pinned={*session.pinned_set, *requested, *self._stream.showing_kept_files()},
            cold=cold,
        )
        plan = await self.compactions.follow(planning)
        self._note_compactions(CompactionTrigger.CONTEXT_FULL)
        context = Context(
            session_id=session.session_id,
            system_prompt=self._state.prompt.content,
            pool=Pool(self._pool),
            transcript=self._stream.transcript,
            user=self._stream.user(user),
            contributions=tuple(contributions),
            marks=self._planner.marks(),
        )
        record = EconomyRecord(
            policy=policy,
            epoch=self._epoch,
            pool=tuple(entry.line for entry in self._pool),
            views=dict(self._stream.slots.views),
            viewed=self._stream.slots.viewed,
            notices=dict(self._notices),
            masks=dict(self._masks),
            files=self._files.hashes(),
            plan=plan,
            stream=self._planner.state(self._sent_at or 0.0),
            summary=self._stream.summary,
        )
        return context, record

    async def compact(self) -> CompactionRecord | None:
        """Show the oldest half of the stream as a summary; None if there is too little of it.

        The next prompt shows it; its record is one of the pending ``compactions``.
        """
        await self._catch_up()
        self._keep_files(frozenset())

        def fixed() -> int:
            return self._fixed_tokens("", ())

        self._continue_compaction(fixed)
        due = self._planner.due(fixed)
        if due is None:
            return None
        await self.compactions.handle(PressureStep.FLUSH, due)
        notes = await self.compactions.handle(PressureStep.COMPACT, due)
        self._planner.compact(due, fixed=fixed, notes=notes, pinned=self._state.view.pinned_set)
        self._note_compactions(CompactionTrigger.MANUAL)
        return self.compactions.pending[-1][1]

    def _continue_compaction(self, fixed: Callable[[], int]) -> None:
        """Show the summary that was requested earlier, or make the one again that was shown."""
        adopted, self._adopted = self._adopted, None
        inherited, self._inherited = self._inherited, 0
        pinned = self._state.view.pinned_set
        if adopted is not None:
            self._planner.adopt(adopted, pinned=pinned)
        due = self._planner.due(fixed, until=inherited) if inherited else None
        if due is not None:
            self._planner.compact(due, fixed=fixed, pinned=pinned)

    def _requested_now(self) -> frozenset[str]:
        """Return what was requested for the prompt of the open turn, also if it is rendered again.

        A compaction must not hide it in that very prompt.
        """
        number, requested = self._answering
        earlier = requested if number == self._stream.number else frozenset()
        self._answering = (self._stream.number, earlier | self._requested.keys())
        return self._answering[1]

    def _keep_files(self, requested: Collection[str]) -> None:
        """Let compactions show files again that are pinned or requested.

        If the agent has read a file itself, its text is in the output of that call.
        """
        kept = {*self._state.view.pinned_set, *requested}
        self._stream.kept_files = tuple(filter(self._files.is_shown, self._active_files(kept)))

    def _note_compactions(self, trigger: CompactionTrigger) -> None:
        for done in self._planner.compactions:
            self.compactions.add(done, trigger=trigger)
        self._planner.compactions.clear()
        if self._stream.notices:  # what is pinned was shown again
            self._notices[self._stream.number] = self._stream.notices
            self._files.learn(self._stream.notices)

    async def _texts_asked_back(self) -> dict[str, Notice]:
        """Return notices with objects that are requested, and of which nothing is shown any more.

        Only a compaction hides an object so: everything else leaves a part of it in the stream.
        """
        if self._stream.summary is None or not self._requested:
            return {}
        handles = {object_id: handle for handle, object_id in self._stream.handles.items()}
        shown = {text.slot.object_id for text in self._stream.slots.all()}
        gone = [item for item in self._requested if item in handles and item not in shown]
        notices: dict[str, Notice] = {}
        mask = self._state.runtime.masker.shown
        for object_id, version in (await self._state.runtime.store.get_many(gone)).items():
            stored, handle = from_document(version.document), handles[object_id]
            if isinstance(stored, ToolCall):
                args, output = canonical(dict(stored.args)).decode(), stored.content or ""
                notices[object_id] = shown_again(
                    handle, stored, args=mask(args), output=self._mask(object_id, output)
                )
            elif isinstance(stored, File) and stored.content is not None:
                notices[object_id] = asked_back(handle, object_id, content=mask(stored.content))
        return notices

    def _begin_call(self, policy: Economy) -> bool:
        """Return whether the provider has nothing cached; an epoch then begins."""
        now, before = self._state.runtime.clock(), self._sent_at
        other_model = policy.model != self._stream.policy.model
        cold = before is None or other_model or not 0 <= now - before <= policy.prices.ttl_seconds
        self._sent_at = now
        self._stream.policy = policy
        if cold:
            self._epoch += 1
            self._pool = tuple(self._snapshot())
        return cold

    def _snapshot(self) -> Iterator[PoolEntry]:
        """Return the lines of the newest files that fit into ``POOL_TOKENS_MAX``."""
        window = self._stream.policy.window_tokens
        cache, left = self._state.cache, min(POOL_TOKENS_MAX, int(POOL_SHARE * window))
        newest: list[PoolEntry] = []
        for entry in reversed(cache.pool(self._state.view).entries):
            if cache.call(entry.object_id) is not None:
                continue
            start, path, rest = entry.line.partition(" path=")
            line = start + path + self._state.runtime.masker.shown(rest)  # a name can be a secret
            left -= self._count(line)
            if left < 0:
                break
            newest.append(PoolEntry(object_id=entry.object_id, line=line))
        return reversed(newest)

    async def _catch_up(self) -> None:
        """Append the turns that have ended since the last prompt."""
        turns = self._state.chat.turns[self._stream.number - 1 :]
        stored = await self._outputs(turns)
        outputs = {object_id: self._mask(object_id, text) for object_id, text in stored.items()}
        for turn in turns:
            number = self._stream.number
            if self._said not in {None, turn.user}:  # its prompt was rendered without a policy
                self._masks.pop(user_key(number), None)
            for key, text in turn_texts(turn, number=number):
                self._mask(key, text)
            shown = masked_turn(turn, number=number, masks=self._masks)
            self._close(shown, outputs, views=None)

    def _close(self, turn: Turn, outputs: Mapping[str, str], *, views: Views | None) -> None:
        parts = tuple(answer_parts(turn, calls=self._state.cache.calls(turn.toolcall_ids)))
        away = self._put_away(turn.toolcall_ids)
        self._stream.close(turn.user, parts, outputs=outputs, put_away=away, views=views)

    def _mask(self, object_id: str, output: str) -> str:
        """Mask the secrets of an output or of what was said, and remember their positions.

        What was masked in an earlier prompt stays as it was: its bytes are in the cache.
        """
        masker = self._state.runtime.masker
        if masker.policy is Secrets.SHOW:
            return output
        secrets = () if object_id in self._masks else masker.positions(output)
        if secrets:
            self._masks[object_id] = secrets
        return masked(output, self._masks.get(object_id, ()))

    async def _outputs(self, turns: Sequence[Turn]) -> dict[str, str]:
        """Return the outputs of the turns' tool calls, from the cache or the store."""
        outputs: dict[str, str] = {}
        missing: list[str] = []
        for toolcall_id in dict.fromkeys(chain.from_iterable(turn.toolcall_ids for turn in turns)):
            content = self._state.cache.content(toolcall_id)
            if content is None:
                missing.append(toolcall_id)
            else:
                outputs[toolcall_id] = content
        for start in range(0, len(missing), BATCH_MAX):
            stored = await self._state.runtime.store.get_many(missing[start : start + BATCH_MAX])
            for object_id, version in stored.items():
                call = from_document(version.document)
                outputs[object_id] = (call.content or "") if isinstance(call, ToolCall) else ""
        lost = [toolcall_id for toolcall_id in missing if toolcall_id not in outputs]
        if lost:
            raise Corrupt(f"tool call {lost[0]} is in the chat but not in the store")
        return outputs

    def _put_away(self, among: Iterable[str] | None = None) -> frozenset[str]:
        """Return the tool calls and files that are not active any more."""
        session = self._state.view
        return frozenset(
            object_id
            for object_id in (self._stream.handles.values() if among is None else among)
            if object_id in session.session_index and object_id not in session.active_set
        )

    async def _interrupted_calls(self) -> list[ToolCall]:
        """Return the calls of a turn that did not end."""
        ids, self._interrupted = self._interrupted, ()
        versions = await self._state.runtime.store.get_many(ids) if ids else {}
        calls = (from_document(version.document) for version in versions.values())
        return [call for call in calls if isinstance(call, ToolCall)]

    def _add_notices(
        self, interrupted: Iterable[ToolCall], compacted: Mapping[str, Notice]
    ) -> None:
        """Append notices about what the agent could not know otherwise."""
        mask = self._state.runtime.masker.shown
        for call in interrupted:
            notice = interrupted_call(
                self._stream.next_handle(),
                call,
                args=mask(canonical(dict(call.args)).decode()),
                output=mask(call.content or ""),
            )
            self._stream.open([notice])
        requested, touched = list(self._requested), frozenset(self.touched)
        self._requested.clear()
        self.touched.clear()
        active = {file.object_id: file for file in self._active_files()}
        for object_id in requested:
            file = active.get(object_id)
            if object_id in compacted:
                self._stream.open([compacted[object_id]])
            elif file is not None and object_id not in touched and self._files.is_shown(file):
                self._stream.show(file)
            else:
                self._stream.open(self._again(object_id))
        for notice in self._files.notices(
            active.values(), touched=touched, next_handle=self._stream.next_handle
        ):
            self._stream.open([notice])
        if self._stream.notices:
            self._notices[self._stream.number] = self._stream.notices
            self._files.learn(self._stream.notices)

    def _again(self, object_id: str) -> Iterator[Notice]:
        """Show in full what is folded of an object."""
        folded = self._stream.slots.folded(object_id)
        if not folded:
            return
        self._stream.asked_back[folded[-1].slot.kind] += 1
        slot = folded[0].slot
        content = "\n".join(text.slot.content for text in folded)
        yield asked_back(slot.handle, object_id, content=content)

    def _active_files(self, among: Collection[str] | None = None) -> Iterator[ActiveFile]:
        state = self._state
        for object_id in state.view.active_set:
            if among is not None and object_id not in among:
                continue
            cached = state.cache.get(object_id)
            if cached is None or cached.call is not None:
                continue
            content = state.cache.content(object_id)
            path = cached.shown.display_path
            assert content is not None
            assert path is not None
            masked_content = state.runtime.masker.shown(content)
            shown_path = state.runtime.masker.shown(path)
            yield ActiveFile(object_id=object_id, path=shown_path, content=masked_content)

    def _fixed_tokens(self, user: str, contributions: Sequence[Contribution]) -> int:
        texts = [
            self._state.prompt.content,
            "".join(entry.line for entry in self._pool),
            self._stream.user(user),
            *(contribution.text for contribution in contributions),
        ]
        return sum(self._count(text) + MESSAGE_TOKENS for text in texts if text)
