"""Hooks for whoever runs a model: called with each input and each token. Appends to the log soon.

They never wait, and do nothing without an ``XDB``, so that a harness can call them always. What
they were called with is in the log within a quarter of a second, and at the latest when the event
that holds it is recorded.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.records.contents import answer_id, input_id, storable
from ctxmgr.experience.records.timestep import NewTimestep, Role

if TYPE_CHECKING:
    from ctxmgr.experience.xdb import XDB


class WorkspaceHooks:
    """Records what a model reads and writes in the current session of an ``XDB``."""

    def __init__(self, xdb: "XDB | None" = None) -> None:
        self._xdb = xdb
        self._started: str | None = None
        """The event id of the answer that is being streamed."""

    def on_input(
        self,
        content: str,
        *,
        role: Role = "user",
        concept_activations: Mapping[str, float] | None = None,
        turn: int | None = None,
    ) -> None:
        """Record what the model is given; its words are counted as tokens."""
        if self._xdb is None:
            return
        step = NewTimestep(
            timestamp=_now(),
            event_type=EventType.INPUT,
            content=storable(content),
            concept_activations=concept_activations or self._xdb.activations(content),
            event_id=None if turn is None else input_id(turn),
            event_start=turn is not None,
            event_end=turn is not None,
            role=role,
        )
        self._xdb.stream(step, token_count=len(content.split()))

    def on_output_token(
        self,
        token: str,
        *,
        token_id: int | None = None,
        concept_activations: Mapping[str, float] | None = None,
        turn: int | None = None,
    ) -> None:
        """Record a token, or a piece of text, that the model wrote."""
        if self._xdb is None:
            return
        event_id = None if turn is None else answer_id(turn)
        step = NewTimestep(
            timestamp=_now(),
            event_type=EventType.OUTPUT,
            content=storable(token),
            concept_activations=concept_activations
            or self._xdb.token_activations(token, event_id=event_id),
            event_id=event_id,
            event_start=event_id is not None and self._started != event_id,
            token_id=token_id,
            role="assistant",
        )
        self._started = event_id
        self._xdb.stream(step)

    def on_restart(self) -> None:
        """Note that an answer broke off: the next token is the first of another one."""
        self._started = None


def _now() -> int:
    return time.time_ns() // 1_000_000
