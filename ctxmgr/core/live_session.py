"""A session that some client has open: what the harness does with it, turn by turn. Commits.

    render(user)     the prompt of the next turn; remembered as what was sent
    record(call)     a tool call that the harness ran, with the files it read, wrote or named
    end_turn(answer) chat, session and turn record, in one transaction, with auto-collapse
    read, activate, deactivate, pin, unpin
                     what the agent asks for itself

All raise the errors of ``ctxmgr.errors``, and then nothing has changed. Calls may come at once;
they are done one after the other.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ctxmgr.core.assembly import Context, Contribution
from ctxmgr.core.collapse import Activations
from ctxmgr.core.contents import File, ToolCall
from ctxmgr.core.contributing import contributions
from ctxmgr.core.course import Course
from ctxmgr.core.documents import Document
from ctxmgr.core.economy_records import Told
from ctxmgr.core.envelopes import check_text
from ctxmgr.core.infrastructure import AssistantMeta, Chat, SystemPrompt, Turn
from ctxmgr.core.message_arrays import new_turns
from ctxmgr.core.parts import Status, text_part
from ctxmgr.core.policies import Economy, policy_of
from ctxmgr.core.recording import (
    discovering,
    meeting,
    plan_named,
    plan_shown,
    plan_touched,
    readable,
    reading,
    refs,
)
from ctxmgr.core.session_economy import SessionEconomy
from ctxmgr.core.session_state import Draft, SessionState
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Match, Put
from ctxmgr.core.tool_traces import Trace, absolute, trace_of
from ctxmgr.core.turn_saving import Sent, TurnSaving
from ctxmgr.errors import Conflict, Incorrect

Answer = str | Sequence[Mapping[str, Any]]
"""Plain text, or the parts of an answer (``core.parts``)."""


class LiveSession:
    """The door of one session."""

    def __init__(self, state: SessionState, *, activations: Activations | None = None) -> None:
        self._state = state
        self._saving = TurnSaving(state.surroundings.files.mounts)
        self._course = Course(activations)
        self._sent: Sent | None = None
        self._left = False
        self._economy = SessionEconomy(state)

    async def restore(self) -> None:
        """Build from the stored chat what a render needs. Called once, by the client."""
        state = self._state
        await state.fill()
        made = state.chat.toolcall_refs
        unknown = [each for each in made if each not in state.cache]
        if unknown:
            found = await state.surroundings.store.get_many(unknown)
            await state.learn_versions(found.values())
        own = state.cache.made_in(state.chat.object_id, session=state.session)
        self._course.follow(state.chat, calls=state.cache.calls(made), made=own)
        self._adopt(self._course.near(state.surroundings.window, now_turn=self.turn - 1))

    @property
    def session_id(self) -> str:
        return self._state.session.session_id

    @property
    def sets(self) -> Session:
        """The four sets as they are now."""
        return self._state.session

    @property
    def turn(self) -> int:
        """The number of the turn that comes next, or is under way."""
        return self._state.chat.turn_count + 1

    @property
    def chat(self) -> Chat:
        return self._state.chat

    @property
    def directory(self) -> str | None:
        """Where the agent's relative paths begin."""
        return self._state.surroundings.directory

    @property
    def state(self) -> SessionState:
        """For the client's own parts; not for harnesses."""
        return self._state

    def context(self, user: str = "") -> Context:
        """Return what the model would see now. Notes nothing."""
        state = self._state
        return Context(
            session_id=self.session_id,
            system_prompt=state.prompt.content,
            pool=state.cache.pool(state.view),
            transcript=self._course.transcript,
            user=user,
            active=state.cache.active(state.view),
        )

    async def render(
        self,
        user: str = "",
        *,
        form: str = "text",
        contribute: bool = False,
        policy: str | Economy | None = None,
    ) -> Any:
        """Return the prompt of this turn, in a form of ``connect``, and note that it was sent.

        Without ``policy`` and ``contribute`` it is the plain four sections and nothing else. With
        ``policy="economy"``, or an ``Economy`` of other settings, it is the cheapest prompt that
        keeps what is needed; ``WindowExceeded`` if what must be shown does not fit. Asked twice in
        one turn, the last one counts.
        """
        check_text("user", user)
        chosen = None if policy is None else policy_of(policy)
        if form not in self._state.surroundings.forms:
            known = ", ".join(sorted(self._state.surroundings.forms))
            raise Incorrect(f"{form!r:.80} is no form of a prompt; known: {known}")
        added: tuple[Contribution, ...] = ()
        if contribute:
            asked = self._state.surroundings.contributors
            added = await contributions(asked, session_id=self.session_id, turn=self.turn)
        async with self._looking():
            await self._state.fill()
            if chosen is None:
                self._sent = self._sending(self.context(user).contribute(added), user=user)
            else:
                made = await self._economy.prompt(user, chosen, contributions=added)
                self._sent = self._sending(made.context, user=user, told=made.told)
            return self._state.surroundings.forms[form](self._sent.context)

    async def record(
        self,
        tool_call_id: str,
        *,
        tool: str,
        args: Mapping[str, Any],
        output: str,
        status: Status = "ok",
        args_display: str | None = None,
        directory: str | None = None,
        faithful: bool = False,
        discover: bool = True,
    ) -> ToolCall:
        """Take a tool call that was run, with the files it concerns, in one transaction.

        ``directory`` is where it ran, if not where the agent works. ``faithful`` says that the
        output is byte for byte the file that was read; it counts where only the sandbox can read
        it. Without ``discover`` no file is read or looked for, as for a call that ran elsewhere or
        long ago. The same call again changes nothing; another one under its id is ``Incorrect``.
        """
        check_text("output", output)
        where = directory or self._state.surroundings.directory
        async with self._alone():
            trace = trace_of(tool, args, directory=where) if discover else Trace()
            if status == "fail":
                trace = trace.of_a_failure()
            around = self._state.surroundings
            shown = output.encode() if faithful else None
            stubs = await plan_named(around, trace, output=output)
            plans = [*await plan_touched(around, trace, output=shown), *stubs[:1]]
            toolcall = ToolCall(
                toolcall_id=tool_call_id,
                tool=tool,
                args=dict(args),
                status=status,
                chat_ref=self._state.chat.object_id,
                content=around.masker.stored(output),
                args_display=args_display,
                file_refs=refs(plans),
            )
            draft = Draft(toolcall=toolcall, plans=tuple(plans))
            read = trace.read is not None
            await self._state.save(meeting(tool_call_id, read=read), draft=draft)
            self._course.made(tool_call_id, turn=self.turn)  # whatever becomes of the stubs
            self._economy.touched(refs(plans[: len(plans) - len(stubs[:1])]) or ())
            for more in stubs[1:]:
                await self._state.save(discovering, draft=Draft(plans=(more,)))
            return toolcall

    async def end_turn(
        self, answer: Answer = (), *, user: str | None = None, meta: AssistantMeta | None = None
    ) -> int:
        """Store the turn: what was asked, the answer, its tool calls. Return its number.

        What was asked is what was rendered; ``user`` may only say the same. A turn that another
        client ended first is a ``Conflict``: this session then holds theirs, to be rendered again.
        """
        async with self._alone():
            sent = self._sent or self._sending(self.context(user or ""), user=user or "")
            if user is not None and user != sent.user:
                raise Incorrect("the turn was rendered with another text of the user's")
            turn = Turn(
                user=sent.user,
                assistant=tuple(self._course.told(part) for part in _parts(answer)),
                toolcall_ids=self._course.pending,
                assistant_meta=meta or AssistantMeta(),
            )
            return await self._end(turn, sent)

    async def take_turns(self, turns: Sequence[Turn]) -> int:
        """Take a harness's whole array of turns, and store those that are new; return how many.

        The array may have been shortened or begun anew. Tool calls must be recorded before.
        """
        async with self._alone():
            new = new_turns(self._state.chat.turns, turns)
            for turn in new:
                unknown = [each for each in turn.toolcall_ids if not self._state.cache.call(each)]
                if unknown:
                    raise Incorrect(f"{unknown[0]} was never recorded")
            for turn in new:
                await self._end(turn, self._sending(self.context(turn.user), user=turn.user))
            return len(new)

    async def read(self, path: str) -> File:
        """Read a file for the agent: it becomes known, current and visible."""
        where = absolute(path, directory=self._state.surroundings.directory)
        if where is None:
            raise Incorrect(f"{path!r:.200} is not absolute")
        async with self._alone():
            planned = await self._state.surroundings.plan_file(where)
            (outcome,) = planned.outcomes
            file = readable(where, outcome)
            await self._state.save(reading, draft=Draft(plans=(planned,)))
            return file

    async def activate(self, object_id: str) -> None:
        """Show an object in full; a file that was only seen is read first.

        A handle of the economy layout (``#17``) stands for its object, here and below.
        """
        object_id = self._economy.meant(object_id)
        async with self._alone():
            self._state.session.activate(object_id)  # raises what is wrong with the id
            await self._state.save(
                lambda session, _: session.activate(object_id),
                draft=await plan_shown(self._state.surroundings, object_id),
            )
            self._course.activated(object_id, turn=self.turn)
            self._economy.want(object_id)

    async def deactivate(self, object_id: str) -> None:
        """Fold an object back to its one line."""
        object_id = self._economy.meant(object_id)
        async with self._alone():
            await self._state.save(lambda session, _: session.deactivate(object_id))
            self._course.deactivated(object_id)

    async def pin(self, object_id: str) -> None:
        """Exempt an object from automatic collapse."""
        object_id = self._economy.meant(object_id)
        async with self._alone():
            await self._state.save(lambda session, _: session.pin(object_id))
            self._economy.want(object_id)

    async def unpin(self, object_id: str) -> None:
        object_id = self._economy.meant(object_id)
        async with self._alone():
            await self._state.save(lambda session, _: session.unpin(object_id))

    def note_context_call(self, tool_call_id: str, *, status: Status, output: str) -> None:
        """Keep the outcome of a context tool until the turn ends."""
        self._course.note_context_call(tool_call_id, status=status, output=output)

    async def change_system_prompt(self, text: str) -> None:
        """Store another system prompt; the same text is no new version."""
        async with self._alone():
            prompt = SystemPrompt(session_id=self.session_id, content=text)
            if prompt.object_hash == self._state.prompt.object_hash:
                return
            try:
                commit = await self._state.surroundings.commit(self._state.guarded(prompt))
            except Conflict:
                await self._start_over()  # they may have ended turns as well
                raise
            self._state.note(commit, prompt.object_id)
            self._state.prompt = prompt

    def leave(self) -> None:
        """Refuse what comes from now on: the session is somebody else's. The client calls this."""
        self._left = True

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._looking():
            await self._state.make_whole()
            yield

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[None]:
        async with self._state.lock:
            if self._left:
                raise Incorrect(f"session {self.session_id} was paused: resume it")
            yield

    def _sending(self, context: Context, *, user: str, told: Told | None = None) -> Sent:
        state = self._state
        return Sent(
            context=context,
            user=user,
            told=told,
            prompt=state.prompt,
            chat=state.chat,
            pool=state.cache.shown(state.view),
            active=tuple(state.view.active_set),
            activations=self._course.activations.still_active(state.view),
            sequence=state.sequence,
        )

    async def _end(self, turn: Turn, sent: Sent) -> int:
        state, n = self._state, self.turn
        self._adopt(sent.active)
        chat = state.chat.append(turn)
        record = self._saving.record(sent, session_id=self.session_id, n=n)
        operations = [*state.guarded(chat), Match(record.object_id, None)]
        draft = Draft(fixed=(*operations, Put(record.to_document())))
        try:
            await state.save(lambda session, _: self._kept(session, turn, sent), draft=draft)
        except Conflict:
            await self._start_over()
            raise
        self._adopt(sent.active)
        state.chat = chat
        self._saving.saved(record, sent)
        known = state.cache.calls(turn.toolcall_ids)
        self._course.end(turn, calls=known, session=state.session)
        if sent.told is not None:
            self._economy.answered(turn)
        self._sent = None
        return n

    def _kept(self, session: Session, turn: Turn, sent: Sent) -> Session:
        if sent.told is not None:  # what is shown of the active set, the policy's planner decides
            return session
        window = self._state.surroundings.window
        return self._course.collapse(session, turn, chat=self._state.chat, window=window)

    def _adopt(self, expected: Collection[str]) -> None:
        self._course.adopt(self._state.session, expected=expected, turn=self.turn)

    async def _start_over(self) -> None:
        state = self._state
        await state.refresh()
        known = state.cache.calls(state.chat.toolcall_refs)
        self._course.follow(state.chat, calls=known, made=self._course.pending)
        self._saving.forget()
        self._sent = None
        self._economy.forget()


def _parts(answer: Answer) -> tuple[Document, ...]:
    if isinstance(answer, str):
        return (text_part(answer),) if answer else ()
    try:
        return tuple(dict(part) for part in answer)
    except (TypeError, ValueError):
        raise Incorrect(f"an answer is a text or a list of parts, not {answer!r:.80}") from None
