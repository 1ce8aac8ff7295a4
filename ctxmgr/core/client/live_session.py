"""A session that a client has open: what a harness does with it, turn by turn. Commits.

    render(user)       the prompt of this turn, remembered as the one that is sent
    record(call)       a tool call that the harness ran, with the files it read, wrote or named
    end_turn(answer)   chat, session and turn record in one transaction, with automatic collapse
    read, activate, deactivate, pin, unpin
                       what the agent asks for

Every method raises the errors of ``ctxmgr.errors``, and then the session has not changed, except
that ``read`` and ``activate`` store what they learnt about a file. Concurrent calls are executed
one after the other.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ctxmgr.core.client.conversation import Conversation, new_turns
from ctxmgr.core.client.leases import SessionLease
from ctxmgr.core.client.runtime import RecallSearch
from ctxmgr.core.client.session_state import Draft, SessionState
from ctxmgr.core.client.tool_calls import (
    IndexedToolCall,
    ToolCallEffects,
    ToolCallPlan,
    plan_activation,
    stored_output,
    why_not_text,
    with_outcomes,
)
from ctxmgr.core.collector import collector_paused
from ctxmgr.core.context.assembly import RENDERER, Context, Contribution
from ctxmgr.core.context.compact import COMPACT_RENDERER, compact, pool_entries, short_ids
from ctxmgr.core.context.contributors import contributions
from ctxmgr.core.history.session_policy import (
    PlainForm,
    SessionPolicy,
    policy_document,
    policy_name,
    read_policy,
)
from ctxmgr.core.history.turn_records import SentPrompt, TurnRecorder
from ctxmgr.core.objects.answers import Status, text_part
from ctxmgr.core.objects.chat import AssistantMeta, Chat, Turn
from ctxmgr.core.objects.codec import check_toolcall_id, from_document
from ctxmgr.core.objects.envelope import check_text
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.session_record import SystemPrompt
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.secrets.masking import Secrets
from ctxmgr.core.sessions.collapse import Activations
from ctxmgr.core.sessions.lease import LeaseHolder
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Instant, Match, Put
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.errors import Conflict, Incorrect, NotFound

if TYPE_CHECKING:
    from ctxmgr.core.client.live_economy import LiveEconomy
    from ctxmgr.core.context.layer_tools import LayerTool
    from ctxmgr.core.discovery.known_tools import Trace
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.core.economy.records import EconomyRecord, Masks
    from ctxmgr.core.objects.compaction import CompactionRecord
    from ctxmgr.core.sandbox import Sandbox

Answer = str | Sequence[Mapping[str, Any]]
"""Plain text, or the parts of an answer (``core.objects.answers``)."""


class LiveSession:
    """An open session: renders prompts, records tool calls and stores turns.

    Every method raises the errors of ``ctxmgr.errors``, and then the session has not changed,
    except that ``read`` and ``activate`` store what they learnt about a file. Concurrent calls are
    executed one after the other.
    """

    def __init__(
        self,
        state: SessionState,
        *,
        activations: Activations | None = None,
        lease: SessionLease | None = None,
        policy: SessionPolicy = PlainForm.PLAIN,
    ) -> None:
        self._state = state
        self._lease = lease
        self._policy = policy
        self._recorder = TurnRecorder(state.runtime.files.mounts)
        self._conversation = Conversation()
        self._activations = activations or Activations()
        self._economy: LiveEconomy | None = None
        """None until a prompt is rendered under a policy."""
        self._sent: SentPrompt | None = None
        self._left = False

    async def restore(self) -> None:
        """Load what rendering needs from the stored chat. Called once, by the client."""
        state, window = self._state, self._state.runtime.window
        await state.fill()
        refs = state.chat.toolcall_refs
        missing = [toolcall_id for toolcall_id in refs if toolcall_id not in state.cache]
        if missing:
            await state.learn_versions((await state.runtime.store.get_many(missing)).values())
        recorded = state.cache.made_in(state.chat.object_id, session=state.session)
        self._conversation.load(state.chat, calls=state.cache.calls(refs), recorded=recorded)
        last = state.chat.turn_count
        self._adopt(
            toolcall_id
            for toolcall_id, turn in self._conversation.turn_of.items()
            if window.reaches(turn, now_turn=last)
        )

    @property
    def session_id(self) -> str:
        """The id that the session was started with."""
        return self._state.session.session_id

    @property
    def sets(self) -> Session:
        """The session's four sets of object ids as they are now."""
        return self._state.session

    @property
    def turn(self) -> int:
        """The number of the current turn, starting at 1."""
        return self._state.chat.turn_count + 1

    @property
    def chat(self) -> Chat:
        """All turns that have ended."""
        return self._state.chat

    @property
    def pending_calls(self) -> tuple[str, ...]:
        """The ids of the tool calls that belong to the current turn, in order."""
        return tuple(self._conversation.pending)

    @property
    def directory(self) -> str | None:
        """The directory that the agent's relative paths are resolved against."""
        return self._state.runtime.directory

    @property
    def sent(self) -> Context | None:
        """The context of the last prompt rendered in this turn; None if there was none."""
        return None if self._sent is None else self._sent.context

    @property
    def policy(self) -> SessionPolicy:
        """How prompts are rendered: ``"plain"``, ``"compact"``, or an ``Economy``."""
        return self._policy

    @property
    def policy_name(self) -> str:
        """The name of the policy, without its settings."""
        return policy_name(self._policy)

    @property
    def also_open(self) -> LeaseHolder | None:
        """Another client that has this session open, as far as is known; None if there is none."""
        return None if self._lease is None else self._lease.also_open

    @property
    def sandbox(self) -> "Sandbox | None":
        """The sandbox that runs the agent's commands; None: the harness runs its own tools."""
        return self._state.runtime.sandbox

    @property
    def recall(self) -> RecallSearch | None:
        """Searches what the session has seen; None: the client has no search index."""
        return self._state.runtime.recall

    @property
    def layer_tools(self) -> "tuple[LayerTool, ...]":
        """The tools that the client's layers offer to its agents."""
        return self._state.runtime.layer_tools

    @property
    def state(self) -> SessionState:
        """For the client's own parts; not for harnesses."""
        return self._state

    def context(self, user: str = "") -> Context:
        """Return the plain four-section context of this turn, without recording it as sent."""
        state = self._state
        return Context(
            session_id=self.session_id,
            system_prompt=state.prompt.content,
            pool=state.cache.pool(state.view),
            transcript=self._conversation.transcript,
            user=user,
            active=state.cache.active(state.view),
        )

    def known_objects(self) -> list[str]:
        """Return the line of every object of the pool in the compact form, oldest first."""
        context, _ = self._masked(self.context())
        shorts = short_ids(entry.object_id for entry in context.pool.entries)
        return [entry.line for entry in pool_entries(context, shorts)]

    def _form(self, policy: SessionPolicy, user: str) -> "tuple[Context, Mapping[str, Masks]]":
        context = self.context(user)
        if policy != PlainForm.COMPACT:
            return context, {}
        context, masks = self._masked(context)
        return compact(context), masks

    def _masked(self, context: Context) -> "tuple[Context, Mapping[str, Masks]]":
        """Return a plain context without its secrets, and where they were."""
        from ctxmgr.core.history.context_masks import find_masks, masked_context

        masker = self._state.runtime.masker
        if masker.policy is Secrets.SHOW:
            return context, {}
        masks = find_masks(context, masker.positions)
        return masked_context(context, masks), masks

    async def render(
        self,
        user: str = "",
        *,
        form: str | None = "text",
        contribute: bool | None = None,
        policy: "str | Economy | None" = None,
    ) -> Any:
        """Return the prompt of this turn and remember it as the one that is sent.

        ``user`` is the new message; it may be empty when the model continues after tool calls.
        ``form`` is ``text``, ``anthropic`` or ``openai``. With ``contribute`` the contributors of
        the client add their texts; by default they do if the client has a folder of notes.

        The result is a string for ``text``, and for an API a dict of the arguments of its request,
        to be passed with ``**``: ``system`` and ``messages`` for ``anthropic``, ``messages`` for
        ``openai``. Model, tools and limits are added by the caller. With ``form=None`` the result
        is the context itself, as for a prompt that is recorded and not sent.

        The prompt is rendered under the policy of the session; ``policy`` overrides that for this
        prompt alone. Under an economy policy, ``WindowExceeded`` is raised if what must be shown
        does not fit. If called again in the same turn, the last prompt is the one that is recorded.
        """
        check_text("user", user)
        chosen = self._policy if policy is None else read_policy(policy)
        economy = None if isinstance(chosen, PlainForm) else chosen
        runtime = self._state.runtime
        if form is not None and form not in runtime.forms:
            names = ", ".join(sorted(runtime.forms))
            raise Incorrect(f"unknown form {form!r:.80} (one of: {names})")
        added: tuple[Contribution, ...] = ()
        if runtime.contribute if contribute is None else contribute:
            added = await contributions(
                runtime.contributors,
                session_id=self.session_id,
                turn=self.turn,
                count=runtime.count,
                message=user,
            )
        if self._lease is not None:
            await self._lease.in_use()
        masks: Mapping[str, Masks] = {}
        async with self._locked():
            await self._state.fill()
            if economy is None:
                context, masks = self._form(chosen, user)
                context, record = context.contribute(added), None
            elif self._economy is None:
                with collector_paused():
                    live = await self._open_economy(economy)
                    context, record = await live.prompt(user, economy, contributions=added)
            else:
                context, record = await self._economy.prompt(user, economy, contributions=added)
            renderer = COMPACT_RENDERER if chosen == PlainForm.COMPACT else RENDERER
            sent = self._sent_prompt(context, user=user, record=record, renderer=renderer)
            self._sent = replace(sent, masks=masks)
            return context if form is None else runtime.forms[form](context)

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
        reads: Iterable[str | PurePath] | None = None,
        writes: Iterable[str | PurePath] | None = None,
        faithful: bool = False,
        discover: bool = True,
        at: Instant | None = None,
    ) -> IndexedToolCall:
        """Store a tool call that the harness ran, and the files it concerns, in one transaction.

        Files that the call read or wrote are indexed, and files that its output names become known.
        ``directory`` is where it ran, if not in the session's directory.

        Which files a call read and wrote follows from the names of common tools and arguments.
        ``reads`` and ``writes`` say it for any other tool; if one is given, neither is derived.
        Text that was read is shown in full. The returned call has the outcome for every path in
        ``outcomes``; a path that cannot be indexed is not an error.

        ``faithful`` states that the output is byte for byte the one file that was read, which
        matters for files that only the sandbox can read. With ``discover=False`` nothing is derived
        from tool, arguments and output, as for a call that ran elsewhere or long ago. ``at`` is
        when the call ended, in UTC milliseconds, if not now: the call is valid from then on, but
        never before what the session already holds.

        A call is not lost because of its form: paths in ``args`` are stored as text, tuples as
        lists, lone surrogates as U+FFFD, and of an output that is too long for a document the
        beginning and the end are stored, with a line between them that says so.

        Recording the same call again changes nothing; another call with its id is ``Incorrect``, as
        is an id that is reserved for ctxmgr's own documents, such as ``turn:…``.
        """
        check_toolcall_id(tool_call_id)
        if not isinstance(output, str):
            raise Incorrect(f"output must be a string, not {output!r:.80}")
        if not isinstance(args, Mapping):
            raise Incorrect(f"args must be a map, not {args!r:.80}")
        where = directory or self._state.runtime.directory
        async with self._changing():
            runtime = self._state.runtime
            toolcall = self._new_call(
                tool_call_id,
                tool=tool,
                args=args,
                output=output,
                status=status,
                args_display=args_display,
            )
            trace = _trace(toolcall, directory=where, reads=reads, writes=writes, discover=discover)
            if faithful and len(trace.reads) > 1:
                raise Incorrect("a faithful output is one file; name only that one in reads")
            if tool_call_id in self._state.session.session_index:
                return with_outcomes(await self._recorded_before(toolcall), ())
            plan = await ToolCallPlan.make(runtime, trace, output=output, faithful=faithful)
            if plan.effects.file_ids:
                toolcall = replace(toolcall, file_refs=tuple(plan.effects.file_ids))

            def change(session: Session, draft: Draft) -> Session:
                return draft.effects.add_to(session).created(tool_call_id)

            draft = Draft(toolcall=toolcall, effects=plan.effects)
            saved = [(await self._state.save(change, draft=draft, at=at)).effects]
            # Before the rest: the call is stored, even if storing further stubs fails.
            self._conversation.add_call(tool_call_id, turn=self.turn)
            if self._economy is not None:
                # What a tool of unknown meaning wrote, the agent cannot know.
                self._economy.touched.update(plan.effects.seen_ids(writes=writes is None))
            for later in plan.later:
                draft = await self._state.save(
                    lambda session, draft: draft.effects.add_to(session), draft=Draft(effects=later)
                )
                saved.append(draft.effects)
            return with_outcomes(toolcall, plan.file_outcomes(runtime, saved))

    def _new_call(
        self,
        tool_call_id: str,
        *,
        tool: str,
        args: Mapping[str, Any],
        output: str,
        status: Status,
        args_display: str | None,
    ) -> ToolCall:
        """Return a call as it can be stored."""
        stored_args = storable(dict(args))
        display = None if args_display is None else storable(args_display)
        text = self._state.runtime.masker.stored(storable(output))
        return ToolCall(
            toolcall_id=tool_call_id,
            tool=storable(tool),
            args=stored_args,
            status=status,
            chat_ref=self._state.chat.object_id,
            content=stored_output(text, args=stored_args, args_display=display),
            args_display=display,
        )

    async def _recorded_before(self, toolcall: ToolCall) -> ToolCall:
        """Return the stored call; ``Incorrect`` unless it is the same one."""
        version = await self._state.runtime.store.get(toolcall.object_id)
        stored = None if version is None else from_document(version.document)
        if not isinstance(stored, ToolCall) or replace(stored, file_refs=None) != toolcall:
            raise Incorrect(f"another call has the id {toolcall.object_id}")
        return stored

    async def end_turn(
        self,
        answer: Answer = (),
        *,
        user: str | None = None,
        meta: AssistantMeta | None = None,
        at: Instant | None = None,
    ) -> int:
        """Store the turn: the user's message, the answer and its tool calls. Return its number.

        ``answer`` is plain text, or the parts that ``read_answer`` of a message form returns. The
        user's message is the one that was rendered; ``user`` may only repeat it. A harness that
        makes its prompts itself renders none: it has to give ``user``, which may be empty, and the
        turn is recorded with the plain prompt. Otherwise a turn without a prompt is ``Incorrect``.
        Raises ``Conflict`` if another client ended this turn first; the session then holds that
        turn, and the prompt has to be rendered again. ``at`` is when the turn ended, as in
        ``record``.

        If a call was cancelled, or its outcome is unknown, call again with the same answer: a turn
        that was stored after all is not stored twice, and its number is returned.
        """
        async with self._changing():
            sent = self._sent
            if sent is None:
                if user is None:
                    raise Incorrect(
                        f"no prompt was rendered for turn {self.turn} of session {self.session_id}:"
                        " call render() before the model, or pass user= if the harness made the"
                        " prompt itself"
                    )
                sent = self._sent_prompt(self.context(user), user=user)
            if user is not None and user != sent.user:
                raise Incorrect("the prompt of this turn was rendered with another user message")
            turn = Turn(
                user=sent.user,
                assistant=tuple(map(self._conversation.with_outcome, _parts(answer))),
                toolcall_ids=tuple(self._conversation.pending),
                assistant_meta=meta or AssistantMeta(),
            )
            return await self._end(turn, sent, at=at)

    async def take_turns(self, turns: Sequence[Turn]) -> int:
        """Store the new ones of a harness's complete list of turns; return how many there were.

        Turns are recognised by their content, so the list may have been shortened or restarted.
        Their tool calls must have been recorded.
        """
        async with self._changing():
            new = new_turns(self._state.chat.turns, turns)
            for turn in new:
                for toolcall_id in turn.toolcall_ids:
                    if self._state.cache.call(toolcall_id) is None:
                        raise Incorrect(f"tool call {toolcall_id} was never recorded")
            for turn in new:
                await self._end(turn, self._sent_prompt(self.context(turn.user), user=turn.user))
            return len(new)

    async def refresh(self) -> bool:
        """Take over what other clients have stored of this session; return whether there was any.

        A prompt that was rendered in this turn is then forgotten, since it lacks their turns.
        """
        async with self._locked():
            if await self._state.is_current():
                return False
            await self._reload()
            return True

    async def read(self, path: str | PurePath) -> File:
        """Read a file for the agent, store its version and show it in full.

        Raises ``NotFound``, ``Denied`` or ``Unavailable`` if it cannot be read, and ``Incorrect``
        if it is not text. What was learnt about it is stored all the same: that it was deleted, is
        too large, or is binary.
        """
        (absolute_path,) = _absolute_paths((path,), directory=self._state.runtime.directory)
        async with self._changing():
            planned = await self._state.runtime.plan_file(absolute_path)
            error = why_not_text(absolute_path, planned)
            await self._state.save(
                lambda session, draft: draft.effects.add_to(session),
                draft=Draft(effects=ToolCallEffects.of_read(planned)),
            )
            file = planned.outcomes[0].file
            if error is not None or file is None:
                raise error or NotFound(f"{absolute_path} was not read")
            return file

    async def activate(self, object_id: str) -> None:
        """Show an object in full; a file that was only discovered is read first.

        If the file cannot be shown, the error says why. What was learnt about it is stored all the
        same, and no set changes. This and the methods below accept the object's id, the beginning
        of it, the path of a file as the agent sees it, or a handle of the economy layout such as
        ``#17``.
        """
        async with self._changing():
            object_id = await self._resolve(object_id)
            self._state.session.activate(object_id)  # raises what is wrong with the id
            effects, error = await plan_activation(
                self._state.runtime, object_id, reads=self._state.reads_files
            )
            await self._state.save(
                lambda session, _: session if error else session.activate(object_id),
                draft=Draft(effects=effects),
            )
            if error is not None:
                raise error
            self._activations = self._activations.activated(object_id, turn=self.turn)
            await self._request(object_id)

    async def deactivate(self, object_id: str) -> None:
        """Show only an object's one-line summary; nothing is lost."""
        async with self._changing():
            object_id = await self._resolve(object_id)
            await self._state.save(lambda session, _: session.deactivate(object_id))
            self._activations = self._activations.deactivated(object_id)

    async def pin(self, object_id: str) -> None:
        """Exempt an object from automatic collapse."""
        async with self._changing():
            object_id = await self._resolve(object_id)
            await self._state.save(lambda session, _: session.pin(object_id))
            await self._request(object_id)

    async def unpin(self, object_id: str) -> None:
        """Make an object subject to automatic collapse again."""
        async with self._changing():
            object_id = await self._resolve(object_id)
            await self._state.save(lambda session, _: session.unpin(object_id))

    def note_context_call(self, tool_call_id: str, *, status: Status, output: str) -> None:
        """Keep the outcome of a context tool until the turn ends."""
        self._conversation.context_calls[tool_call_id] = (status, output)

    async def change_system_prompt(self, text: str) -> None:
        """Replace the system prompt; an unchanged text is not stored again."""
        async with self._changing():
            prompt = SystemPrompt(session_id=self.session_id, content=text)
            if prompt.object_hash == self._state.prompt.object_hash:
                return
            try:
                commit = await self._state.runtime.commit(self._state.guarded(prompt))
            except Conflict:
                await self._reload()  # the other client may have ended turns as well
                raise
            self._state.note(commit, prompt.object_id)
            self._state.prompt = prompt

    async def change_policy(self, policy: "str | Economy") -> None:
        """Render the session's prompts under another policy from now on, also after a resume."""
        chosen = read_policy(policy)
        async with self._locked():
            commit = await self._state.runtime.commit(
                [Put(policy_document(self.session_id, chosen))]
            )
            self._state.note(commit)
            self._policy = chosen

    async def compact(self, *, matches: Sequence[Match] = ()) -> "CompactionRecord | None":
        """Show the oldest half of the prompt as a summary from now on, and store its record.

        It happens by itself when the window is full. Only what is rendered changes: the turns and
        their objects stay stored whole. None if there are no old turns; ``Incorrect`` unless the
        session has an economy policy, since the other layouts show every turn. The record is stored
        only if ``matches`` hold.
        """
        async with self._changing():
            if isinstance(self._policy, PlainForm):
                raise Incorrect(
                    f"session {self.session_id} has the policy {self._policy}, which shows every "
                    "turn; change_policy('economy') allows compactions"
                )
            live = self._economy or await self._open_economy(self._policy)
            record = await live.compact()
            if record is not None:
                try:
                    commit = await self._state.runtime.commit(
                        [*matches, *live.compactions.operations()]
                    )
                except Conflict:
                    await self._reload()  # another client has compacted it
                    raise
                self._state.note(commit)
                live.compactions.pending.clear()
            return record

    def leave(self) -> None:
        """Refuse all further calls: the session was paused. Called by the client."""
        self._left = True

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Hold the lock for a change of the session."""
        async with self._locked():
            await self._state.make_whole()
            yield

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        async with self._state.lock:
            if self._left:
                raise Incorrect(f"session {self.session_id} was paused; resume it")
            yield

    async def _resolve(self, name: str) -> str:
        """Return the id of the object that a name means, as ``ObjectLookup`` describes."""
        if not isinstance(name, str):
            raise Incorrect(f"an object is named by a string, not {name!r:.80}")
        from ctxmgr.core.client.lookup import ObjectLookup

        runtime, cache = self._state.runtime, self._state.cache

        async def shown_as(path: str) -> list[str]:
            return cache.shown_as(path)

        lookup = ObjectLookup(
            mounts=runtime.files.mounts,
            directory=runtime.directory,
            with_handle=self._with_handle,
            is_compact=self._policy == PlainForm.COMPACT,
            shown_as=shown_as,
        )
        return await lookup.resolve(self._state.session, name)

    async def call_with_handle(self, handle: str) -> ToolCall:
        """Return the tool call that has a handle of the economy layout, such as ``#7``."""
        object_id = await self._resolve(handle)
        stored = await self._state.runtime.store.get(object_id)
        call = None if stored is None else from_document(stored.document)
        if not isinstance(call, ToolCall):
            raise Incorrect(f"{handle} is a file; read it by its path")
        return call

    async def _open_economy(self, policy: "Economy") -> "LiveEconomy":
        from ctxmgr.core.client.live_economy import LiveEconomy

        self._economy = await LiveEconomy.open(
            self._state, policy, pending=self._conversation.pending
        )
        return self._economy

    async def _request(self, object_id: str) -> None:
        """Show an object in full in the next prompt of an economy policy."""
        if self._economy is not None:
            self._economy.request(object_id)
        elif not isinstance(self._policy, PlainForm):  # the session was just resumed
            (await self._open_economy(self._policy)).request(object_id)

    async def _with_handle(self, handle: str) -> str | None:
        if self._economy is not None and handle in self._economy.handles:
            return self._economy.handles[handle]
        from ctxmgr.core.history.reading import with_handle

        return await with_handle(self._state.runtime.store, self.session_id, handle)

    def _sent_prompt(
        self,
        context: Context,
        *,
        user: str,
        record: "EconomyRecord | None" = None,
        renderer: str = RENDERER,
    ) -> SentPrompt:
        state = self._state
        return SentPrompt(
            context=context,
            user=user,
            renderer=renderer,
            economy=record,
            prompt=state.prompt,
            chat=state.chat,
            pool=state.cache.shown(state.view),
            active=tuple(state.view.active_set),
            activations=self._activations.still_active(state.view),
            sequence=state.sequence,
        )

    async def _end(self, turn: Turn, sent: SentPrompt, *, at: Instant | None = None) -> int:
        state, number = self._state, self.turn
        self._adopt(sent.active)
        if sent.economy is not None and self._economy is not None:
            sent = replace(sent, economy=self._economy.ended(sent.economy))
        chat = state.chat.append(turn)
        record = self._recorder.record(sent, session_id=self.session_id, n=number)
        operations = [*state.guarded(chat), Match(record.object_id, None)]

        def change(session: Session, _: Draft) -> Session:
            if sent.economy is not None:  # under a policy, its planner decides what is folded
                return session
            return self._conversation.collapse(
                session,
                turn,
                chat=state.chat,
                activations=self._activations,
                window=state.runtime.window,
            )

        if sent.economy is not None and self._economy is not None:
            operations += self._economy.compactions.operations()
        draft = Draft(fixed=(*operations, Put(record.to_document())))
        try:
            await state.save(change, draft=draft, at=at)
        except Conflict:
            await self._reload()
            if state.chat.has_turn(turn, number=number):
                return number  # stored by an earlier call that did not learn of it
            raise
        self._adopt(sent.active)
        state.chat = chat
        self._recorder.saved(record, sent)
        self._conversation.end_turn(turn, calls=state.cache.calls(turn.toolcall_ids))
        self._activations = self._activations.still_active(state.session)
        if sent.economy is not None and self._economy is not None:
            self._economy.compactions.pending.clear()
            self._economy.answered(turn)
        self._sent = None
        if self._lease is not None:
            self._lease.turn_ended()
        return number

    def _adopt(self, expected: Iterable[str]) -> None:
        """Treat what others have activated as activated in this turn."""
        self._activations = self._activations.adopt(
            self._state.session,
            expected=frozenset(expected),
            made_in=self._conversation.turn_of,
            turn=self.turn,
        )

    async def _reload(self) -> None:
        """Start again from the store: another client has continued the session."""
        state = self._state
        await state.refresh()
        calls = state.cache.calls(state.chat.toolcall_refs)
        self._conversation.load(state.chat, calls=calls, recorded=self._conversation.pending)
        self._recorder.forget()
        self._sent = None
        self._economy = None


def _trace(
    toolcall: ToolCall,
    *,
    directory: str | None,
    reads: Iterable[str | PurePath] | None,
    writes: Iterable[str | PurePath] | None,
    discover: bool,
) -> "Trace":
    """Return which files a call read and wrote: those that are named, or what its form says."""
    from ctxmgr.core.discovery.known_tools import Trace, trace_of

    trace = trace_of(toolcall.tool, toolcall.args, directory=directory) if discover else Trace()
    if toolcall.status == "fail":
        trace = trace.as_failed()
    if reads is None and writes is None:
        return trace
    return replace(
        trace,
        reads=_absolute_paths(reads or (), directory=directory),
        writes=_absolute_paths(writes or (), directory=directory),
    )


def _absolute_paths(paths: Iterable[str | PurePath], *, directory: str | None) -> tuple[str, ...]:
    from ctxmgr.core.discovery.known_tools import absolute

    if isinstance(paths, str):
        raise Incorrect(f"paths must be a list of paths, not the string {paths!r:.80}")
    found = []
    for path in paths:
        absolute_path = absolute(str(path), directory=directory)
        if absolute_path is None:
            raise Incorrect(f"{str(path)!r:.200} is not absolute")
        found.append(absolute_path)
    return tuple(dict.fromkeys(found))


def _parts(answer: Answer) -> tuple[Document, ...]:
    if isinstance(answer, str):
        return (text_part(answer),) if answer else ()
    try:
        return tuple(dict(part) for part in answer)
    except (TypeError, ValueError):
        raise Incorrect(f"an answer must be text or a list of parts, not {answer!r:.80}") from None
