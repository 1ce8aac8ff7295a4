"""The economy layout of one live session, from when a policy is first named. Reads the store.

Until then there is none, and nothing that happens has to be told to it.
"""

from collections.abc import Iterable, Sequence

from ctxmgr.core.assembly import Contribution
from ctxmgr.core.economizing import Economized, Economizing
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.past import told_at
from ctxmgr.core.policies import Economy
from ctxmgr.core.session_state import SessionState
from ctxmgr.core.usage import read_usage


class SessionEconomy:
    """What a live session tells its economy, and asks of it."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._economy: Economizing | None = None

    async def prompt(
        self, user: str, policy: Economy, *, contributions: Sequence[Contribution]
    ) -> Economized:
        """Make the prompt of the next turn; the first after a resume goes on from what was sent."""
        if self._economy is None:
            self._economy = await self._begun(policy)
        return await self._economy.prompt(user, policy, contributions=contributions)

    def meant(self, object_id: str) -> str:
        """Return the object that a handle stands for; what is no handle, as it is."""
        return (self._economy and self._economy.object_id(object_id)) or object_id

    def want(self, object_id: str) -> None:
        """Note that the agent wants to see all of an object."""
        if self._economy is not None:
            self._economy.ask(object_id)

    def touched(self, file_ids: Iterable[str]) -> None:
        """Note files that the agent has read or written by a tool call of its own."""
        if self._economy is not None:
            self._economy.touched(file_ids)

    def answered(self, turn: Turn) -> None:
        """Learn from what the provider counted, once a prompt of this layout is answered."""
        usage = read_usage(turn.assistant_meta.usage)
        if self._economy is not None and usage is not None:
            self._economy.reported(usage.prompt_tokens)

    def forget(self) -> None:
        """Begin anew, from what is stored: another client has gone on with the session."""
        self._economy = None

    async def _begun(self, policy: Economy) -> Economizing:
        around, chat = self._state.surroundings, self._state.chat
        economy = Economizing(self._state, policy, count=around.count, clock=around.clock)
        told = await told_at(around.store, self._state.session.session_id, turn=chat.turn_count)
        if told is not None:
            await economy.restore(told, turn=chat.turn_count)
        return economy
