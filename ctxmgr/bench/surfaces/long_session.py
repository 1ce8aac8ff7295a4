"""Builds a long session, with a record of every prompt, in a store in a few seconds. Commits.

    turn    2 KB of text, tool calls, and sometimes an edited file
    pool    these tool calls, and files: some with content that is edited, most without
    index   the pool, and objects outside it

Every prompt is assembled and recorded as a client does, so that each can be reproduced and the
session can be resumed. Only the transactions are larger: they hold several turns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ctxmgr.bench.core.built_session import Filler
from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.history.turn_records import SentPrompt, ShownVersion, TurnRecord, TurnRecorder
from ctxmgr.core.objects.answers import CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta, Chat, Turn
from ctxmgr.core.objects.codec import StoredObject, to_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.collapse import PER_TURN, TURNS_BACK, Activations
from ctxmgr.core.store.contract import Put, Store

MODEL: Final = "claude-sonnet-4-5"
USER_CHARS: Final = 248
ANSWER_CHARS: Final = 1_800
"""With the user's text, 2 KB per turn."""
FILE_CHARS: Final = 4_000

EDITED_EVERY: Final = 4
"""Turns between two edits of a file."""
READ_FILES: Final = 100
"""Files with content; they are edited one after another."""
ACTIVE_FILES: Final = 5

_COMMIT_OBJECTS: Final = 1_000
_HOST: Final = "built"
_WORDS: Final = 3_000
_WORDS_PER_LINE: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPlan:
    """The shape of a long session."""

    session_id: str = "long"
    turns: int = 1_000
    calls_per_turn: int = 1
    pool: int = 2_000
    """Objects in the pool at the end: the tool calls, and files for the rest."""
    objects: int = 10_000
    """Objects in the index."""
    turns_per_commit: int = 20
    """A client commits every turn, which takes three times as long."""

    def __post_init__(self) -> None:
        assert self.files >= READ_FILES
        assert self.pool <= self.objects
        assert self.turns_per_commit <= EDITED_EVERY * READ_FILES, "one put per file and commit"

    @property
    def files(self) -> int:
        return self.pool - self.turns * self.calls_per_turn


class Words(Filler):
    """Reproducible text of recurring words in lines, as a tokenizer sees in practice."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = [
            "".join(self._random.choices(letters, k=self._random.randint(2, 9)))
            for _ in range(_WORDS)
        ]

    def text(self, length: int) -> str:
        words = self._random.choices(self._words, k=length // 4)
        lines = (
            " ".join(words[at : at + _WORDS_PER_LINE])
            for at in range(0, len(words), _WORDS_PER_LINE)
        )
        return "\n".join(lines)[:length]


async def build_long_session(store: Store, plan: LongPlan) -> SessionRecord:
    """Store a session, several turns per transaction."""
    built = _Built(plan)
    await _put_all(store, built.unseen())
    await _put_all(store, built.files)
    sequence = await _put_all(store, [built.prompt, built.chat, built.session()])
    for first in range(1, plan.turns + 1, plan.turns_per_commit):
        numbers = range(first, min(first + plan.turns_per_commit, plan.turns + 1))
        turns = [built.turn(n) for n in numbers]
        after = await _put_all(store, [value for turn in turns for value in turn.objects])
        records = [
            replace(turn.record, sequence=sequence if turn is turns[0] else after) for turn in turns
        ]
        documents = [to_document(built.chat), to_document(built.session())]
        documents += [record.to_document() for record in records]
        sequence = (await store.commit([Put(document) for document in documents])).sequence
    return built.session()


@dataclass(frozen=True, slots=True)
class _BuiltTurn:
    record: TurnRecord
    objects: list[StoredObject]
    """The objects that the turn added or changed."""


class _Built:
    """The session as it grows."""

    def __init__(self, plan: LongPlan) -> None:
        self._plan = plan
        self._words = Words(plan.session_id)
        self.prompt = SystemPrompt(session_id=plan.session_id, content=self._words.text(1_000))
        self.chat = Chat(session_id=plan.session_id)
        self.files = [self._file(at) for at in range(plan.files)]
        self._unseen = [f"{plan.session_id}-unseen-{at}" for at in range(plan.objects - plan.pool)]
        self._saving = TurnRecorder(Mounts.of_host(_HOST))
        self._pool = Pool(map(_entry, self.files))
        self._shown = AppendOnly(map(_shown, self.files))
        self._transcript = Transcript()
        self._blocks: dict[str, ActiveBlock] = {}
        self._calls: list[tuple[str, ...]] = []

    def unseen(self) -> Iterator[ToolCall]:
        return (self._words.toolcall(call_id, chat_ref="chat:another") for call_id in self._unseen)

    def session(self) -> SessionRecord:
        pool = tuple(entry.object_id for entry in self._pool.entries)
        return SessionRecord(
            session_id=self._plan.session_id,
            session_index=(*self._unseen, *pool),
            metadata_pool=pool,
            active_set=tuple(self._blocks),
        )

    def turn(self, n: int) -> _BuiltTurn:
        """Record a prompt, its answer and the tool calls of the answer."""
        user = self._words.text(USER_CHARS)
        sent = self._sent(user)
        record = self._saving.record(sent, session_id=self._plan.session_id, n=n)
        self._saving.saved(record, sent)
        names = [f"{self._plan.session_id}-{n}-{at}" for at in range(self._plan.calls_per_turn)]
        calls = [self._words.toolcall(name, chat_ref=self.chat.object_id) for name in names]
        edited = [self._edit(n // EDITED_EVERY)] if n % EDITED_EVERY == 0 else []
        self._answer(user, calls, tokens=sum(map(len, sent.context.chunks())) // 4)
        self._collapse()
        return _BuiltTurn(record, [*calls, *edited])

    def _sent(self, user: str) -> SentPrompt:
        context = Context(
            session_id=self._plan.session_id,
            system_prompt=self.prompt.content,
            pool=self._pool,
            transcript=self._transcript,
            user=user,
            active=tuple(self._blocks.values()),
        )
        return SentPrompt(
            context=context,
            user=user,
            economy=None,
            prompt=self.prompt,
            chat=self.chat,
            pool=self._shown,
            active=tuple(self._blocks),
            activations=Activations(),
            sequence=None,
        )

    def _answer(self, user: str, calls: list[ToolCall], *, tokens: int) -> None:
        call_parts = [
            toolcall_part(call.object_id, call_id=call.object_id, tool=call.tool, args=call.args)
            for call in calls
        ]
        usage = {"input_tokens": tokens, "output_tokens": ANSWER_CHARS // 4}
        turn = Turn(
            user=user,
            assistant=(text_part(self._words.text(ANSWER_CHARS)), *call_parts),
            toolcall_ids=tuple(call.object_id for call in calls),
            assistant_meta=AssistantMeta(model=MODEL, usage=usage),
        )
        self.chat = self.chat.append(turn)
        refs = {call.object_id: CallRef.of(call) for call in calls}
        self._transcript = self._transcript.append(ShownTurn.of(turn, calls=refs))
        self._pool = self._pool.add(map(PoolEntry.of_toolcall, calls))
        self._shown = self._shown.add(map(ShownVersion.of, calls))
        self._blocks |= {call.object_id: ActiveBlock.of_toolcall(call) for call in calls}
        self._calls.append(turn.toolcall_ids)

    def _edit(self, number: int) -> File:
        """Change one of the files with content, and activate it."""
        at = number % READ_FILES
        file = self.files[at] = self._file(at)
        self._pool = self._pool.change({file.object_id: _entry(file)})
        shown = list(self._shown)
        shown[at] = _shown(file)
        self._shown = AppendOnly(shown)
        self._blocks.pop(file.object_id, None)
        self._blocks[file.object_id] = ActiveBlock.of_file(file, state=FileState.LIVE)
        return file

    def _collapse(self) -> None:
        """Keep what the default window keeps, and the files that were activated last."""
        recent = {call_id for calls in self._calls[-TURNS_BACK:] for call_id in calls[-PER_TURN:]}
        session_id = self._plan.session_id
        files = [object_id for object_id in self._blocks if not object_id.startswith(session_id)]
        kept = recent | set(files[-ACTIVE_FILES:])
        self._blocks = {name: block for name, block in self._blocks.items() if name in kept}

    def _file(self, at: int) -> File:
        source = FilesystemSource(filesystem_id=_HOST, path=f"/src/part{at % 40}/module{at}.py")
        if at >= READ_FILES:
            return File.stub(source)
        return File.read(source, data=self._words.text(FILE_CHARS).encode())


def _entry(file: File) -> PoolEntry:
    return PoolEntry.of_file(file, display_path=_path(file), state=file.state())


def _shown(file: File) -> ShownVersion:
    return ShownVersion.of(file, display_path=_path(file), state=file.state())


def _path(file: File) -> str:
    assert isinstance(file.source, FilesystemSource)
    return str(file.source.path)


async def _put_all(store: Store, objects: Iterable[StoredObject]) -> int:
    """Store objects in batches; return the sequence of the last transaction."""
    source, sequence = iter(objects), 0
    while batch := list(islice(source, _COMMIT_OBJECTS)):
        sequence = (await store.commit([Put(to_document(value)) for value in batch])).sequence
    return sequence
