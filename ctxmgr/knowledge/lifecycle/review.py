"""Changes that wait for a person: of identity and of topics (002-A35). Stores documents.

    propose ─► waiting ─► accept   writes the note, if it is still what the proposal saw
                      └─► reject   keeps the proposal, and the same one is not proposed again

What an agent or an extractor would change there decides what every later prompt says, so it is
never applied by itself. A proposal holds the whole text before and after, and where it comes from.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import EllipsisType
from typing import Any, Final

from ctxmgr.core.store.contract import Instant, Match, Put, Query, Store, Version
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.errors import Conflict, Incorrect, NotFound
from ctxmgr.knowledge.lifecycle.draft import NoteEdit
from ctxmgr.knowledge.notes.layout import Category, Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder

REVIEW: Final = "knowledge_review"
"""The kind of a stored proposal."""
PAGE: Final = 100
"""Proposals that are read at once."""
REASON_CHARS_MAX: Final = 400

APPROVED: Final = frozenset({Category.IDENTITY, Category.TOPIC})
"""Categories in which every change of an agent or an extractor waits."""


class ReviewState(StrEnum):
    WAITING = "waiting"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewProposal:
    """A change of a note that waits, or has been decided."""

    id: str
    path: str
    before: str | None = field(repr=False)
    """The text that the proposal saw; None: there was no note."""
    after: str = field(repr=False)
    origin: Mapping[str, str | int]
    """Who proposed it: a session, or a transcript with turn, extractor and version."""
    reason: str
    state: ReviewState
    proposed: Instant
    decided: Instant | None = None

    @property
    def diff(self) -> str:
        return NoteEdit(path=self.path, before=self.before, after=self.after).diff


def needs_approval(path: str, layout: Layout) -> bool:
    """Whether a change of this note by an agent or an extractor waits for a person."""
    return layout.category_of(path) in APPROVED


class ReviewQueue:
    """The proposals for one folder of notes."""

    def __init__(self, store: Store, notes: NotesFolder) -> None:
        self._store = store
        self._notes = notes
        root = str(notes.layout.root.absolute())
        self._root = hashlib.sha256(root.encode(errors="replace")).hexdigest()[:12]

    async def propose(
        self,
        path: str,
        text: str,
        *,
        origin: Mapping[str, str | int],
        reason: str,
        at: Instant,
        seen: str | EllipsisType | None = ...,
    ) -> ReviewProposal:
        """Propose a text for a note; a proposal that exists, or was rejected, is returned.

        ``seen`` is the text that the proposed one was made from, None if there was no note; by
        default, what the note says now.
        """
        if not needs_approval(path, self._notes.layout):
            raise Incorrect(f"{path!r:.200} needs no approval: write it")
        before = self._text(path) if isinstance(seen, EllipsisType) else seen
        digest = hashlib.sha256(f"{path}\n{before}\n{text}".encode(errors="replace")).hexdigest()
        proposal = ReviewProposal(
            id=digest[:12],
            path=path,
            before=before,
            after=text,
            origin=dict(origin),
            reason=reason[:REASON_CHARS_MAX],
            state=ReviewState.WAITING,
            proposed=at,
        )
        try:
            await self._store.commit(
                [Match(self._object_id(proposal.id), None), Put(self._document(proposal))]
            )
        except Conflict:
            return await self.require(proposal.id)
        return proposal

    async def waiting(self) -> list[ReviewProposal]:
        """Return everything that waits, oldest first."""
        waiting: list[ReviewProposal] = []
        cursor, more = None, True
        while more:
            page = await self._store.find(Query(REVIEW), limit=PAGE, cursor=cursor)
            own = (_read(each) for each in page.versions if each.document["root"] == self._root)
            waiting += [each for each in own if each.state is ReviewState.WAITING]
            cursor, more = page.cursor, page.cursor is not None
        return sorted(waiting, key=lambda each: (each.proposed, each.id))

    async def require(self, proposal_id: str) -> ReviewProposal:
        """Return a proposal; ``NotFound`` if there is none."""
        return (await self._stored(proposal_id))[0]

    async def accept(self, proposal_id: str, *, at: Instant) -> ReviewProposal:
        """Write the proposed text. ``Conflict`` if the note changed since; nothing is written."""
        proposal, token = await self._stored(proposal_id)
        self._require_waiting(proposal)
        await asyncio.to_thread(self._write, proposal)  # it may wait for other writers
        return await self._decide(proposal, token, ReviewState.ACCEPTED, at)

    async def reject(self, proposal_id: str, *, at: Instant) -> ReviewProposal:
        """Keep the note as it is; the same proposal is not made again."""
        proposal, token = await self._stored(proposal_id)
        self._require_waiting(proposal)
        return await self._decide(proposal, token, ReviewState.REJECTED, at)

    async def _decide(
        self, proposal: ReviewProposal, token: str | None, state: ReviewState, at: Instant
    ) -> ReviewProposal:
        decided = replace(proposal, state=state, decided=at)
        object_id = self._object_id(proposal.id)
        await self._store.commit([Match(object_id, token), Put(self._document(decided))])
        return decided

    async def _stored(self, proposal_id: str) -> tuple[ReviewProposal, str | None]:
        version = await self._store.get(self._object_id(proposal_id))
        if version is None:
            raise NotFound(
                f"no proposal {proposal_id!r:.80}; `ctxmgr knowledge review` lists what waits"
            )
        return _read(version), version.token

    def _write(self, proposal: ReviewProposal) -> None:
        # A crash may have come between writing and recording it.
        if self._text(proposal.path) != proposal.after:
            self._notes.write(proposal.path, proposal.after, replacing=proposal.before)

    def _require_waiting(self, proposal: ReviewProposal) -> None:
        if proposal.state is not ReviewState.WAITING:
            raise Incorrect(f"proposal {proposal.id} was {proposal.state} before")

    def _text(self, path: str) -> str | None:
        try:
            return self._notes.read(path).text
        except NotFound:
            return None

    def _object_id(self, proposal_id: str) -> str:
        return f"{REVIEW}:{self._root}:{proposal_id}"

    def _document(self, proposal: ReviewProposal) -> dict[str, Any]:
        return {
            ID: self._object_id(proposal.id),
            KIND: REVIEW,
            "root": self._root,
            "proposal": proposal.id,
            "path": proposal.path,
            "before": proposal.before,
            "after": proposal.after,
            "origin": dict(proposal.origin),
            "reason": proposal.reason,
            "state": str(proposal.state),
            "proposed": proposal.proposed,
            "decided": proposal.decided,
        }


def _read(version: Version) -> ReviewProposal:
    document = version.document
    return ReviewProposal(
        id=document["proposal"],
        path=document["path"],
        before=document["before"],
        after=document["after"],
        origin=document["origin"],
        reason=document["reason"],
        state=ReviewState(document["state"]),
        proposed=document["proposed"],
        decided=document["decided"],
    )
