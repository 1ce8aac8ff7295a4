"""Whole sessions as pure values: everything a client does between reads and writes."""

import itertools
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.events.derive import compared, derive
from ctxmgr.core.events.events import Event, SetsChanged, TurnFinished
from ctxmgr.core.history.rebuild import PromptWalk
from ctxmgr.core.history.shown_versions import PromptVersion
from ctxmgr.core.history.turn_records import ShownVersion, TurnRecord, plan_shown, shown_at
from ctxmgr.core.objects.answers import CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.session_record import SETS, SystemPrompt
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.collapse import Activations, Window, plan_collapse
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Transaction, Write
from ctxmgr.core.store.documents import Document

PROMPT: Final = SystemPrompt(session_id="s1", content="Be careful.")
WINDOW: Final = Window(per_turn=2, turns_back=2)


@dataclass
class Agent:
    """A running session whose store is a dictionary."""

    session: Session = field(default_factory=lambda: Session(session_id="s1"))
    chat: Chat = field(default_factory=lambda: Chat(session_id="s1"))
    pool: Pool = field(default_factory=Pool)
    transcript: Transcript = field(default_factory=Transcript)
    chosen: Activations = field(default_factory=Activations)
    made: dict[int, tuple[str, ...]] = field(default_factory=dict)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    shown: dict[str, ShownVersion] = field(default_factory=dict)
    records: dict[str, TurnRecord] = field(default_factory=dict)
    snapshot: int = 0
    stored: dict[str, Document] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def context(self, user: str) -> Context:
        return Context(
            session_id="s1",
            system_prompt=PROMPT.content,
            pool=self.pool,
            transcript=self.transcript,
            user=user,
            active=tuple(ActiveBlock.of_toolcall(self.calls[e]) for e in self.session.active_set),
        )

    def turn(self, user: str, *, outputs: list[str], wanted: int | None) -> Context:
        """One model call that writes text, runs tools, and activates an earlier output."""
        n, sent = self.chat.turn_count + 1, self.context(user)
        record = self._record(n, sent)
        calls = [_call(f"{n}.{position}", output) for position, output in enumerate(outputs)]
        for call in calls:
            self._ran(call)
        if wanted is not None and self.calls:
            self._activate(sorted(self.calls)[wanted % len(self.calls)], n)
        self._finish(user, calls, record)
        return sent

    def _record(self, n: int, sent: Context) -> TurnRecord:
        versions = [PROMPT, self.chat, *(self.calls[entry] for entry in self.session.metadata_pool)]
        self.snapshot, listed = plan_shown(
            [ShownVersion.of(version) for version in versions],
            n=n,
            before=self.shown,
            snapshot=self.snapshot,
        )
        record = TurnRecord(
            session="s1",
            n=n,
            prompt_hash=sent.prompt_hash(),
            section_hashes=sent.section_hashes(),
            snapshot=self.snapshot,
            shown=listed,
            active=tuple(self.session.active_set),
            activations=self.chosen,
        )
        self.records[record.object_id] = record
        self.shown = shown_at(self.records[ref] for ref in record.needed())
        return record

    def _ran(self, call: ToolCall) -> None:
        self.calls[call.object_id] = call
        self.session = self.session.created(call.object_id)
        self.pool = self.pool.add([PoolEntry.of_toolcall(call)])
        self._commit(to_document(call), to_document(self.session.to_record()))

    def _activate(self, object_id: str, n: int) -> None:
        self.session = self.session.activate(object_id)
        self.chosen = self.chosen.activated(object_id, turn=n)

    def _finish(self, user: str, calls: list[ToolCall], record: TurnRecord) -> None:
        parts = [toolcall_part(e.object_id, call_id="call_0", tool=e.tool, args={}) for e in calls]
        ids = tuple(call.object_id for call in calls)
        turn = Turn(user=user, assistant=(text_part("ok"), *parts), toolcall_ids=ids)
        self.chat = self.chat.append(turn)
        refs = {call.object_id: CallRef.of(call) for call in calls}
        self.transcript = self.transcript.append(ShownTurn.of(turn, calls=refs))
        self.made[record.n] = ids
        folds = plan_collapse(
            self.session,
            calls=self.made,
            now_turn=record.n,
            activations=self.chosen,
            window=WINDOW,
        )
        self.session = self.session.collapse(folds)
        self.chosen = self.chosen.still_active(self.session)
        state = self.session.to_record()
        self._commit(to_document(self.chat), to_document(state), record.to_document())

    def _commit(self, *documents: Document) -> None:
        writes = tuple(
            Write(object_id=e["xt/id"], deleted=False, document=e, valid_from=1, valid_to=None)
            for e in documents
        )
        sequence = 1 + (self.events[-1].id.sequence if self.events else 0)
        done = Transaction(sequence=sequence, system_time=1, key="k", writes=writes)
        before = {
            comparison: self.stored[comparison]
            for comparison in compared(done)
            if comparison in self.stored
        }
        self.events.extend(derive(done, before=before))
        self.stored.update((document["xt/id"], document) for document in documents)


def _call(object_id: str, output: str) -> ToolCall:
    return ToolCall(
        toolcall_id=object_id,
        tool="bash",
        args={},
        status="ok",
        chat_ref="chat:s1",
        content=output,
    )


one_turn = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["", "go on"]),
        "outputs": st.lists(st.sampled_from(["", "one\n", "two"]), max_size=3),
        "wanted": st.none() | st.integers(0, 20),
    }
)


def _lived(turns: list[dict[str, Any]]) -> tuple[Agent, list[Context]]:
    agent = Agent()
    return agent, [agent.turn(**arguments) for arguments in turns]


@settings(max_examples=40)
@given(st.lists(one_turn, max_size=10))
def test_every_prompt_of_a_session_can_be_rebuilt(turns: list[dict[str, Any]]) -> None:
    """003-R005: from its record, the stored versions and the current chat."""
    agent, sent = _lived(turns)
    versions = {
        (version.object_id, version.object_hash): PromptVersion.from_document(to_document(version))
        for version in (PROMPT, *agent.calls.values())
    }

    for record, context in zip(agent.records.values(), sent, strict=True):
        walk = PromptWalk(agent.chat.turns, versions, count=len)
        for object_id in record.needed():
            walk.join(agent.records[object_id])
        walk.build()

        assert walk.context().text() == context.text()


@settings(max_examples=40)
@given(st.lists(one_turn, min_size=1, max_size=10))
def test_the_chat_of_a_session_only_grows(turns: list[dict[str, Any]]) -> None:
    """003-R137, 003-R012, 003-R126: so does the pool; only active content comes and goes."""
    _, sent = _lived(turns)

    for section in (Section.SYSTEM, Section.POOL, Section.CHAT):
        texts = ["".join(block.text for block in prompt.section(section)) for prompt in sent]
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))


@settings(max_examples=40)
@given(st.lists(one_turn, max_size=10))
def test_events_describe_a_session_completely(turns: list[dict[str, Any]]) -> None:
    """003-R004, PG-08: a listener can rebuild every turn and all four sets, in order."""
    agent, _ = _lived(turns)

    held: dict[str, set[str]] = {name: set() for name in SETS}
    for event in agent.events:
        if isinstance(event, SetsChanged):
            held[event.set_name] -= set(event.removed)
            held[event.set_name] |= set(event.added)
    finished = [event for event in agent.events if isinstance(event, TurnFinished)]
    assert held == {name: set(getattr(agent.session, name)) for name in SETS}
    assert [event.turn for event in finished] == [turn.value for turn in agent.chat.turns]
    assert [event.id for event in agent.events] == sorted(event.id for event in agent.events)


@settings(max_examples=40)
@given(st.lists(one_turn, max_size=12))
def test_active_content_stays_bounded(turns: list[dict[str, Any]]) -> None:
    """PG-04, 003-R139, 003-A05: by the window, and one activation per turn in it."""
    agent, _ = _lived(turns)

    chosen_at_most = WINDOW.turns_back
    assert len(agent.session.active_set) <= WINDOW.per_turn * WINDOW.turns_back + chosen_at_most
