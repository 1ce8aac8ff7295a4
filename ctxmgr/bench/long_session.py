"""A long session with a record of every prompt, built in a store in a few seconds. Commits.

    turn    2 KB said, tool calls, now and then a file that has changed
    pool    these tool calls, and files: some were read and are edited, most were only seen
    index   the pool, and objects that it does not show

Every prompt is assembled and recorded as a client does it, so that each can be made again and
proves itself, and the session can be resumed. Only the transactions hold more than one turn.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ctxmgr.bench.built_session import Filler
from ctxmgr.core.assembly import ActiveBlock, Context, Pool, PoolEntry, ShownTurn, Transcript
from ctxmgr.core.collapse import PER_TURN, TURNS_BACK, Activations
from ctxmgr.core.contents import File, FileState, ToolCall
from ctxmgr.core.growing import Growing
from ctxmgr.core.infrastructure import AssistantMeta, Chat, SessionRecord, SystemPrompt, Turn
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.objects import StoredObject, to_document
from ctxmgr.core.parts import CallRef, text_part, toolcall_part
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import Put, Store
from ctxmgr.core.turn_saving import Sent, TurnSaving
from ctxmgr.core.turns import ShownVersion, TurnRecord

MODEL: Final = "claude-sonnet-4-5"
USER_CHARS: Final = 248
ANSWER_CHARS: Final = 1_800
"""With the user's they make 2 KB a turn."""
FILE_CHARS: Final = 4_000

EDITED_EVERY: Final = 4
"""Turns between two edits of a file."""
READ_FILES: Final = 100
"""Files that have a text; they are edited in turns."""
ACTIVE_FILES: Final = 5

_COMMIT_OBJECTS: Final = 1_000
_HOST: Final = "built"
_WORDS: Final = 3_000
_WORDS_PER_LINE: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPlan:
    """What a long session is to be."""

    session_id: str = "long"
    turns: int = 1_000
    calls_per_turn: int = 1
    pool: int = 2_000
    """Objects that are shown at the end, one line each at least; files make up the calls to it."""
    objects: int = 10_000
    """Of the index."""
    turns_per_commit: int = 20
    """One is what a client does, and takes three times as long."""

    def __post_init__(self) -> None:
        assert self.files >= READ_FILES
        assert self.pool <= self.objects
        assert self.turns_per_commit <= EDITED_EVERY * READ_FILES, "a file is put once a commit"

    @property
    def files(self) -> int:
        return self.pool - self.turns * self.calls_per_turn


class Words(Filler):
    """Text of words in lines, the same every time: a tokenizer meets words again, as in life."""

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
    """Store a session turn by turn, some of them at once."""
    built = _Built(plan)
    await _put_all(store, built.unseen())
    await _put_all(store, built.files)
    known = await _put_all(store, [built.prompt, built.chat, built.session()])
    for first in range(1, plan.turns + 1, plan.turns_per_commit):
        numbers = range(first, min(first + plan.turns_per_commit, plan.turns + 1))
        turns = [built.turn(n) for n in numbers]
        found = await _put_all(store, [each for turn in turns for each in turn.objects])
        records = [
            replace(turn.record, sequence=known if turn is turns[0] else found) for turn in turns
        ]
        documents = [to_document(built.chat), to_document(built.session())]
        documents += [each.to_document() for each in records]
        known = (await store.commit([Put(each) for each in documents])).sequence
    return built.session()


@dataclass(frozen=True, slots=True)
class _BuiltTurn:
    record: TurnRecord
    objects: list[StoredObject]
    """What came up while it was answered."""


class _Built:
    """The session as it grows."""

    def __init__(self, plan: LongPlan) -> None:
        self._plan = plan
        self._words = Words(plan.session_id)
        self.prompt = SystemPrompt(session_id=plan.session_id, content=self._words.text(1_000))
        self.chat = Chat(session_id=plan.session_id)
        self.files = [self._file(at) for at in range(plan.files)]
        self._unseen = [f"{plan.session_id}-unseen-{at}" for at in range(plan.objects - plan.pool)]
        self._saving = TurnSaving(Mounts.of_host(_HOST))
        self._pool = Pool(map(_entry, self.files))
        self._shown = Growing(map(_shown, self.files))
        self._transcript = Transcript()
        self._blocks: dict[str, ActiveBlock] = {}
        self._calls: list[tuple[str, ...]] = []

    def unseen(self) -> Iterator[ToolCall]:
        return (self._words.toolcall(each, chat_ref="chat:another") for each in self._unseen)

    def session(self) -> SessionRecord:
        pool = tuple(each.object_id for each in self._pool.entries)
        return SessionRecord(
            session_id=self._plan.session_id,
            session_index=(*self._unseen, *pool),
            metadata_pool=pool,
            active_set=tuple(self._blocks),
        )

    def turn(self, n: int) -> _BuiltTurn:
        """Send a prompt, answer it, and make the calls of the answer."""
        user = self._words.text(USER_CHARS)
        sent = self._sent(user)
        record = self._saving.record(sent, session_id=self._plan.session_id, n=n)
        self._saving.saved(record, sent)
        names = [f"{self._plan.session_id}-{n}-{at}" for at in range(self._plan.calls_per_turn)]
        calls = [self._words.toolcall(each, chat_ref=self.chat.object_id) for each in names]
        edited = [self._edit(n // EDITED_EVERY)] if n % EDITED_EVERY == 0 else []
        self._answer(user, calls, tokens=sum(map(len, sent.context.chunks())) // 4)
        self._collapse()
        return _BuiltTurn(record, [*calls, *edited])

    def _sent(self, user: str) -> Sent:
        context = Context(
            session_id=self._plan.session_id,
            system_prompt=self.prompt.content,
            pool=self._pool,
            transcript=self._transcript,
            user=user,
            active=tuple(self._blocks.values()),
        )
        return Sent(
            context=context,
            user=user,
            told=None,
            prompt=self.prompt,
            chat=self.chat,
            pool=self._shown,
            active=tuple(self._blocks),
            activations=Activations(),
            sequence=None,
        )

    def _answer(self, user: str, calls: list[ToolCall], *, tokens: int) -> None:
        asked = [
            toolcall_part(each.object_id, call_id=each.object_id, tool=each.tool, args=each.args)
            for each in calls
        ]
        usage = {"input_tokens": tokens, "output_tokens": ANSWER_CHARS // 4}
        turn = Turn(
            user=user,
            assistant=(text_part(self._words.text(ANSWER_CHARS)), *asked),
            toolcall_ids=tuple(each.object_id for each in calls),
            assistant_meta=AssistantMeta(model=MODEL, usage=usage),
        )
        self.chat = self.chat.append(turn)
        known = {each.object_id: CallRef.of(each) for each in calls}
        self._transcript = self._transcript.append(ShownTurn.of(turn, calls=known))
        self._pool = self._pool.add(map(PoolEntry.of_toolcall, calls))
        self._shown = self._shown.add(map(ShownVersion.of, calls))
        self._blocks |= {each.object_id: ActiveBlock.of_toolcall(each) for each in calls}
        self._calls.append(turn.toolcall_ids)

    def _edit(self, number: int) -> File:
        """Change one of the files that were read, and show it."""
        at = number % READ_FILES
        file = self.files[at] = self._file(at)
        self._pool = self._pool.change({file.object_id: _entry(file)})
        shown = list(self._shown)
        shown[at] = _shown(file)
        self._shown = Growing(shown)
        self._blocks.pop(file.object_id, None)
        self._blocks[file.object_id] = ActiveBlock.of_file(file, state=FileState.LIVE)
        return file

    def _collapse(self) -> None:
        """Keep what the usual window keeps, and the files that were shown last."""
        recent = {each for calls in self._calls[-TURNS_BACK:] for each in calls[-PER_TURN:]}
        files = [each for each in self._blocks if not each.startswith(self._plan.session_id)]
        kept = recent | set(files[-ACTIVE_FILES:])
        self._blocks = {each: block for each, block in self._blocks.items() if each in kept}

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
    """Store objects in as few transactions as hold them; return the sequence of the last."""
    source, sequence = iter(objects), 0
    while batch := list(islice(source, _COMMIT_OBJECTS)):
        sequence = (await store.commit([Put(to_document(each)) for each in batch])).sequence
    return sequence
