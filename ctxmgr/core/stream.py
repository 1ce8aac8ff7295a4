"""The append-only stream of a session under the economy policy. Pure.

    open     what entered or changed before a turn: appended notices
    close    the turn has been answered: its text, calls and outputs are appended
    fold     some texts become shorter, in one batch

Nothing that was sent moves or changes, except in a batch. Given the same turns, policy and
occasions, the stream is the same; given the views of a record, it is the one that was recorded.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ctxmgr.core.assembly import ShownTurn, Transcript
from ctxmgr.core.folding import Count, Limits, View
from ctxmgr.core.parts import Shown, ShownCall
from ctxmgr.core.pieces import Piece, Pieces, Signatures
from ctxmgr.core.policies import IDLE_CALLS, STUB, Economy
from ctxmgr.core.stream_turns import HeldTurn, Notice, Place, messages_of, numbered
from ctxmgr.core.tokens import MESSAGE_TOKENS
from ctxmgr.core.tool_kinds import Kind


def no_signatures(_content: str, _path: str) -> Collection[int]:
    return ()


class Stream:
    """The turns of one session, as they are shown."""

    def __init__(
        self, policy: Economy, *, count: Count, signatures: Signatures = no_signatures
    ) -> None:
        self.policy = policy
        self.count = count
        self.pieces = Pieces(count=count, signatures=signatures)
        self.handles: dict[str, str] = {}
        """Handle → the object it stands for."""
        self.asked_back: Counter[Kind] = Counter()
        """Texts that were folded and then wanted after all, by kind."""
        self.transcript = Transcript()
        """The closed turns as they are shown."""
        self.message_tokens: list[int] = []
        """Of every message of the closed turns; 0: there is none in this place."""
        self.broken: int = 0
        """The first message that the last batch changed."""
        self._turns: list[HeldTurn] = []
        self._starts: list[int] = []
        self._opened = HeldTurn(number=1)
        self._newest: dict[str, Piece] = {}

    @property
    def number(self) -> int:
        """Of the turn that is open."""
        return self._opened.number

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Before the open turn."""
        return self._opened.notices

    def next_handle(self) -> str:
        return f"#{len(self.handles) + 1}"

    def user(self, text: str) -> str:
        """Return what the open turn shows before its answer: notices, and what the user says."""
        return replace(self._opened, user=text).shown_user(self.pieces.views)

    def open(self, notices: Iterable[Notice], *, views: Mapping[str, View] | None = None) -> None:
        """Append notices to the turn that comes next; the texts they bring are shown whole."""
        known, given = len(self._opened.notices), tuple(notices)
        self._opened = replace(self._opened, notices=(*self._opened.notices, *given))
        for notice in given:
            self.handles[notice.handle] = notice.object_id
            self.pieces.say(notice.heading)
        for at, place in enumerate(self._opened.places()):
            if at >= known and place.content:
                self._arrive(place, len(self.message_tokens), self.number, views=views or {})

    def close(
        self,
        user: str,
        parts: Sequence[Shown],
        *,
        outputs: Mapping[str, str],
        put_away: Collection[str] = frozenset(),
        views: Mapping[str, View] | None = None,
    ) -> None:
        """Append the turn that was answered. ``views`` are those of a record; None: decide.

        ``put_away`` are objects that are not to be shown any more.
        """
        shown = numbered(parts, first=len(self.handles) + 1, outputs=outputs)
        turn = replace(self._opened, user=user, parts=shown)
        for part in shown:
            if isinstance(part, ShownCall):
                self.handles[part.handle] = part.ref.object_id
        self.pieces.say("\n".join([user, *turn.said()]))
        self.pieces.use("\n".join([*turn.said(), *turn.asked()]), call=turn.number)
        start = len(self.message_tokens)
        for place in turn.places():
            if place.message:
                gone = place.object_id in put_away
                self._arrive(place, start, turn.number + 1, views=views, put_away=gone)
        self._turns.append(turn)
        self._starts.append(start)
        self._append(turn.shown(self.pieces.views))
        self._opened = HeldTurn(number=turn.number + 1)

    def fold(self, folds: Sequence[tuple[Piece, Limits]]) -> None:
        """Make texts shorter."""
        for piece, limits in folds:
            self.pieces.refold(piece, limits=limits)
            piece.settled = True
        closed = [each for each, _ in folds if each.message < len(self.message_tokens)]
        if not closed:
            return
        self.broken = min(piece.message for piece in closed)
        turns = list(self.transcript.turns)
        for at in sorted({self.turn_at(piece.message) for piece in closed}):
            turns[at] = self._turns[at].shown(self.pieces.views)
            counted = self._message_tokens(turns[at])
            start = self._starts[at]
            self.message_tokens[start : start + len(counted)] = counted
        self.transcript = Transcript(turns)

    def tokens(self) -> int:
        """Return what the closed turns cost."""
        return sum(self.message_tokens)

    def turn_at(self, message: int) -> int:
        """Return the place, from 0, of the closed turn that holds a message."""
        return bisect_right(self._starts, message) - 1

    def last_start(self) -> int:
        """Return the first message of the newest closed turn."""
        return self._starts[-1] if self._starts else 0

    def _arrive(
        self,
        place: Place,
        start: int,
        call: int,
        *,
        views: Mapping[str, View] | None,
        put_away: bool = False,
    ) -> None:
        message = start + place.message
        if views is not None:
            piece = self.pieces.restore(
                place, message=message, call=call, view=views.get(place.key)
            )
            aged = self.policy.aged(place.kind, tokens=piece.text.tokens)
            piece.settled = piece.view is not None and piece.kept_tokens() <= aged.tokens
            self._supersede(piece)
            return
        limits = self._arriving(place, put_away=put_away)
        self._supersede(self.pieces.arrive(place, message=message, call=call, limits=limits))

    def _arriving(self, place: Place, *, put_away: bool) -> Limits:
        if put_away and place.kind is not Kind.ARGUMENT:
            return STUB
        tokens = self.pieces.analysed(place).tokens
        asked_back = self.asked_back[place.kind]
        return self.policy.arriving(place.kind, tokens=tokens, asked_back=asked_back)

    def _supersede(self, piece: Piece) -> None:
        """Let an older text of the same file go first, unless this one refers to its lines."""
        subject = piece.place.subject
        if not subject or piece.place.kind is not Kind.READ:
            return
        before = self._newest.get(subject)
        self._newest[subject] = piece
        refers = piece.view is not None and any(span.as_in for span in piece.view.spans)
        if before is not None and not refers:
            before.used = -IDLE_CALLS

    def _append(self, shown: ShownTurn) -> None:
        self.message_tokens += self._message_tokens(shown)
        self.transcript = self.transcript.append(shown)

    def _message_tokens(self, turn: ShownTurn) -> list[int]:
        return [self.count(each) + MESSAGE_TOKENS if each else 0 for each in messages_of(turn)]
