"""What was sent, kept until its turn ends, and the record made of it. Pure.

A record lists only what differs from the one before; what that showed is kept here. After a resume
nothing is, so the first record lists all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctxmgr.core.assembly import RENDERER, Context
from ctxmgr.core.collapse import Activations
from ctxmgr.core.economy_records import Told
from ctxmgr.core.infrastructure import Chat, SystemPrompt
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.stream_turns import ECONOMY_RENDERER
from ctxmgr.core.turns import ShownVersion, TurnRecord, plan_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A prompt as it was given to the harness."""

    context: Context
    user: str
    """What was asked, without what a policy told besides."""
    told: Told | None
    """What made the prompt; None: the plain form."""
    prompt: SystemPrompt
    chat: Chat
    """Without the turn that the prompt was for."""
    pool: Sequence[ShownVersion]
    active: tuple[str, ...]
    activations: Activations
    sequence: int | None

    def shown(self) -> tuple[ShownVersion, ...]:
        """Note every version that the prompt shows."""
        return (ShownVersion.of(self.prompt), ShownVersion.of(self.chat), *self.pool)


class TurnSaving:
    """Makes the turn records of one session."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = tuple(
            {
                "agentPrefix": each.agent_prefix,
                "canonicalPrefix": each.canonical_prefix,
                "filesystemId": each.filesystem_id,
            }
            for each in mounts.mappings
        )
        self._before: Mapping[str, ShownVersion] = {}
        self._told: Told | None = None
        self._snapshot = 1

    def record(self, sent: Sent, *, session_id: str, n: int) -> TurnRecord:
        """Make the record of turn ``n``."""
        snapshot, listed = plan_shown(
            sent.shown(), n=n, before=self._before, snapshot=self._snapshot
        )
        told = sent.told
        before = None if snapshot == n else self._told
        return TurnRecord(
            renderer=RENDERER if told is None else ECONOMY_RENDERER,
            policy=None if told is None else told.to_value(before),
            session=session_id,
            n=n,
            prompt_hash=sent.context.prompt_hash(),
            section_hashes=sent.context.section_hashes(),
            mounts=self._mounts,
            sequence=sent.sequence,
            snapshot=snapshot,
            shown=listed,
            active=sent.active,
            activations=sent.activations,
            contributions=sent.context.contributions,
        )

    def saved(self, record: TurnRecord, sent: Sent) -> None:
        """Remember what the next record may leave out."""
        self._before = {each.object_id: each for each in sent.shown()}
        self._told = sent.told
        self._snapshot = record.snapshot

    def forget(self) -> None:
        """List all next time."""
        self._before, self._told, self._snapshot = {}, None, 1
