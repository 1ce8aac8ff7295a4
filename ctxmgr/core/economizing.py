"""A live session under the economy policy: feeds its stream, turn by turn. Reads the store.

    system prompt     as it is
    pool              the files known when the epoch began, one line each
    stream            every turn, every output and file text once, where it became active

A new epoch begins where the provider has nothing cached anyway: at a resume, after a pause longer
than its time to live, with another model. Only then is the pool written anew. Files that are met
later stand in the outputs that named them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from ctxmgr.core.assembly import Context, Contribution, Pool, PoolEntry
from ctxmgr.core.contents import ToolCall
from ctxmgr.core.economy_records import Masks, Told, masked
from ctxmgr.core.folding import Count, View
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.notices import asked_back
from ctxmgr.core.objects import from_document
from ctxmgr.core.parts import shown_parts
from ctxmgr.core.policies import Economy
from ctxmgr.core.secrets import Secrets
from ctxmgr.core.session_state import SessionState
from ctxmgr.core.shown_files import ActiveFile, ShownFiles
from ctxmgr.core.signatures import signature_rows
from ctxmgr.core.store import BATCH_MAX
from ctxmgr.core.stream import Stream
from ctxmgr.core.stream_plans import Planning
from ctxmgr.core.stream_turns import Notice
from ctxmgr.core.tokens import MESSAGE_TOKENS
from ctxmgr.errors import Corrupt

POOL_TOKENS_MAX: Final = 4_000
"""Of the epoch's snapshot; where there are more files, the newest are named."""

Views: TypeAlias = Mapping[str, View]


@dataclass(frozen=True, slots=True, kw_only=True)
class Economized:
    """A prompt of the economy layout, and what its record needs."""

    context: Context
    told: Told


class Economizing:
    """The economy of one live session."""

    def __init__(
        self, state: SessionState, policy: Economy, *, count: Count, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._count = count
        self._clock = clock
        self._stream = Stream(policy, count=count, signatures=signature_rows)
        self._planning = Planning(self._stream)
        self._files = ShownFiles()
        self._notices: dict[int, tuple[Notice, ...]] = {}
        self._masks: dict[str, Masks] = {}
        self._touched: set[str] = set()
        self._asked: dict[str, None] = {}
        self._epoch = 0
        self._pool: tuple[PoolEntry, ...] = ()
        self._sent_at: float | None = None
        self.reactivations: int = 0
        """Texts that were folded and asked back."""

    async def restore(self, told: Told, *, turn: int) -> None:
        """Take over what the prompt of an earlier turn showed, byte for byte."""
        self._epoch, self._notices = told.epoch, dict(told.notices)
        self._masks = dict(told.masks)
        self._files.restore(told.files, chain.from_iterable(told.notices.values()))
        turns = self._state.chat.turns[: turn - 1]
        stored = await self._stored(turns)
        outputs = {each: masked(text, told.masks.get(each, ())) for each, text in stored.items()}
        for number, each in enumerate(turns, start=1):
            self._stream.open(told.notices.get(number, ()), views=told.views)
            self._close(each, outputs, views=told.views)
        self._stream.open(told.notices.get(turn, ()), views=told.views)

    def reported(self, tokens: int) -> None:
        """Learn from what the provider counted of the last prompt."""
        self._planning.reported(tokens)

    def touched(self, file_ids: Iterable[str]) -> None:
        """Note files that the agent has read or written by a tool call of its own."""
        self._touched.update(file_ids)

    def ask(self, object_id: str) -> None:
        """Note that an object is wanted in full."""
        self._asked[object_id] = None

    def object_id(self, handle: str) -> str | None:
        """Return what a handle stands for; None: it was never given."""
        return self._stream.handles.get(handle)

    async def prompt(
        self, user: str, policy: Economy, *, contributions: Sequence[Contribution]
    ) -> Economized:
        """Make the prompt of the next turn; ``WindowExceeded`` if it cannot fit."""
        await self._catch_up()
        cold = self._begin_call(policy)
        self._tell()
        session = self._state.view
        plan = self._planning.next_plan(
            fixed=lambda: self._fixed_tokens(user, contributions),
            put_away=self._put_away(),
            pinned=session.pinned_set,
            cold=cold,
        )
        context = Context(
            session_id=session.session_id,
            system_prompt=self._state.prompt.content,
            pool=Pool(self._pool),
            transcript=self._stream.transcript,
            user=self._stream.user(user),
            contributions=tuple(contributions),
            marks=self._planning.marks(),
        )
        told = Told(
            policy=policy,
            epoch=self._epoch,
            pool=tuple(entry.line for entry in self._pool),
            views=dict(self._stream.pieces.views),
            notices=dict(self._notices),
            masks=dict(self._masks),
            files=self._files.hashes(),
            plan=plan,
        )
        return Economized(context=context, told=told)

    def _begin_call(self, policy: Economy) -> bool:
        """Note the time and the policy; tell whether nothing is cached, and begin an epoch then."""
        now, before = self._clock(), self._sent_at
        other = policy.model != self._stream.policy.model
        cold = before is None or other or now - before > policy.prices.ttl_seconds
        self._sent_at = now
        self._stream.policy = policy
        if cold:
            self._epoch += 1
            self._pool = tuple(self._snapshot())
        return cold

    def _snapshot(self) -> Iterator[PoolEntry]:
        """Name the files of the pool, as many of the newest as there is room for."""
        cache, left = self._state.cache, POOL_TOKENS_MAX
        named: list[PoolEntry] = []
        for entry in reversed(cache.pool(self._state.view).entries):
            if cache.call(entry.object_id) is not None:
                continue
            left -= self._count(entry.line)
            if left < 0:
                break
            named.append(entry)
        return reversed(named)

    async def _catch_up(self) -> None:
        """Append the turns that were answered since."""
        turns = self._state.chat.turns[self._stream.number - 1 :]
        outputs = {
            each: self._safe(each, text) for each, text in (await self._stored(turns)).items()
        }
        for each in turns:
            self._close(each, outputs, views=None)

    def _close(self, turn: Turn, outputs: Mapping[str, str], *, views: Views | None) -> None:
        parts = tuple(shown_parts(turn, calls=self._state.cache.calls(turn.toolcall_ids)))
        away = self._put_away(turn.toolcall_ids)
        self._stream.close(turn.user, parts, outputs=outputs, put_away=away, views=views)

    def _safe(self, object_id: str, output: str) -> str:
        """Mask the secrets of an output, and note where they stood."""
        masker = self._state.surroundings.masker
        if masker.policy is Secrets.SHOW:
            return output
        found = masker.mask(output).found
        if found:
            self._masks[object_id] = tuple(
                (each.start, each.end, each.placeholder) for each in found
            )
        return masked(output, self._masks.get(object_id, ()))

    async def _stored(self, turns: Sequence[Turn]) -> dict[str, str]:
        """Return the outputs of the turns' tool calls: those that are active are at hand."""
        wanted = [each for turn in turns for each in turn.toolcall_ids]
        cache = self._state.cache
        outputs = {each: cache.content(each) for each in wanted}
        missing = [each for each, content in outputs.items() if content is None]
        found = {each: content for each, content in outputs.items() if content is not None}
        for at in range(0, len(missing), BATCH_MAX):
            stored = await self._state.surroundings.store.get_many(missing[at : at + BATCH_MAX])
            for object_id, version in stored.items():
                call = from_document(version.document)
                found[object_id] = (call.content or "") if isinstance(call, ToolCall) else ""
        lost = [each for each in wanted if each not in found]
        if lost:
            raise Corrupt(f"{lost[0]} is in the chat and not in its store")
        return found

    def _put_away(self, among: Iterable[str] | None = None) -> frozenset[str]:
        """Return the tool calls and files that were taken out of sight."""
        session = self._state.view
        known = self._stream.handles.values() if among is None else among
        return frozenset(
            each
            for each in known
            if each in session.session_index and each not in session.active_set
        )

    def _tell(self) -> None:
        """Append a notice for whatever the agent would not know otherwise."""
        asked, touched = list(self._asked), frozenset(self._touched)
        self._asked.clear()
        self._touched.clear()
        for object_id in asked:
            self._stream.open(self._again(object_id))
        active = self._active_files()
        for notice in self._files.notices(
            active, told=touched, next_handle=self._stream.next_handle
        ):
            self._stream.open([notice])
        if self._stream.notices:
            self._notices[self._stream.number] = self._stream.notices

    def _again(self, object_id: str) -> Iterator[Notice]:
        """Show again in full what is folded of an object."""
        folded = self._stream.pieces.folded(object_id)
        if not folded:
            return
        self.reactivations += 1
        self._stream.asked_back[folded[-1].place.kind] += 1
        place = folded[0].place
        content = "\n".join(each.place.content for each in folded)
        yield asked_back(place.handle, object_id, content=content)

    def _active_files(self) -> Iterator[ActiveFile]:
        state = self._state
        for object_id in state.view.active_set:
            known = state.cache.get(object_id)
            if known is None or known.call is not None:
                continue
            content = state.cache.content(object_id)
            path = known.shown.display_path
            assert content is not None
            assert path is not None
            safe = state.surroundings.masker.shown(content)
            yield ActiveFile(object_id=object_id, path=path, content=safe)

    def _fixed_tokens(self, user: str, contributions: Sequence[Contribution]) -> int:
        texts = [
            self._state.prompt.content,
            "".join(entry.line for entry in self._pool),
            self._stream.user(user),
            *(each.text for each in contributions),
        ]
        return sum(self._count(each) + MESSAGE_TOKENS for each in texts if each)
