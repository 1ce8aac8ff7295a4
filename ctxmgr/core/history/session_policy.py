"""The policy of a session: how its prompts are rendered. Reads the store.

    plain      the four sections of the specification, byte for byte
    compact    the four sections with short ids, a limited pool, and every text once
    economy    one append-only stream with planned folds; ``Economy`` holds its settings

    policy:{session}   session, name, settings

A plain document, not one of the five types: a session's own document has a fixed form. A session of
an earlier version has none; its policy is that of its last turn. In a bundle the document is
checked like every other. It decides only how prompts look: not what is read, run or sent anywhere.
"""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ctxmgr.core.context.compact import COMPACT_RENDERERS
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.objects.envelope import POLICY, check_session_id, policy_id, turn_id
from ctxmgr.core.sessions.lineage import lineage, owner
from ctxmgr.core.store.contract import LATEST, AsOf, Store
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Corrupt, Incorrect

if TYPE_CHECKING:  # a session without a policy does not load the economy
    from ctxmgr.core.economy.policy import Economy


class PlainForm(StrEnum):
    """The policies that have no settings."""

    PLAIN = "plain"
    COMPACT = "compact"


SessionPolicy: TypeAlias = "PlainForm | Economy"

ECONOMY: Final = "economy"

NAMES: Final = (*map(str, PlainForm), ECONOMY)
"""The names of all policies."""

_PLAIN_FORMS: Final = frozenset(map(str, PlainForm))
_FIELDS: Final = frozenset({ID, KIND, "session", "name", "settings"})


def read_policy(policy: "str | Economy") -> SessionPolicy:
    """Return the policy of a name, or of an ``Economy``; ``Incorrect`` if there is none."""
    if isinstance(policy, str) and policy in _PLAIN_FORMS:
        return PlainForm(policy)
    from ctxmgr.core.economy.policy import Economy

    if isinstance(policy, Economy):
        return policy
    if policy == ECONOMY:
        return Economy()
    raise Incorrect(f"unknown policy {policy!r:.80} (one of: {', '.join(NAMES)})")


def policy_name(policy: SessionPolicy) -> str:
    """Return the name of a policy."""
    return str(policy) if isinstance(policy, PlainForm) else policy.name


def policy_document(session_id: str, policy: SessionPolicy) -> Document:
    """Return the document that says how a session's prompts are rendered."""
    return {
        ID: policy_id(session_id),
        KIND: POLICY,
        "session": session_id,
        "name": policy_name(policy),
        "settings": {} if isinstance(policy, PlainForm) else policy.to_value(),
    }


def policy_of(document: Document) -> SessionPolicy:
    """Read a stored policy; ``Corrupt`` unless it is one that ``policy_document`` could return.

    Settings that a later version added are ignored, and those that it lacks have their defaults.
    """
    try:
        return _read(document)
    except (Incorrect, TypeError, ValueError) as error:
        raise Corrupt(f"{document.get(ID)!r:.80} is not a policy: {error}") from error


async def stored_policy(
    store: Store, session_id: str, *, turn: int, as_of: AsOf = LATEST
) -> SessionPolicy:
    """Return the policy of a session; if none is stored, that of ``turn``, its last one."""
    version = await store.get(policy_id(session_id), as_of=as_of)
    if version is not None:
        return policy_of(version.document)
    if turn < 1:
        return PlainForm.PLAIN
    holder = owner(await lineage(store, session_id), turn)
    recorded = await store.get(turn_id(holder, number=turn))
    if recorded is None:
        return PlainForm.PLAIN
    return _of_turn(TurnRecord.from_document(recorded.document))


def _read(document: Document) -> SessionPolicy:
    check_session_id(document.get("session"))
    if document.keys() != _FIELDS or document[ID] != policy_id(document["session"]):
        raise Incorrect("a field is missing or unknown")
    name, settings = document["name"], document["settings"]
    if name == ECONOMY:
        return _economy(settings)
    if not isinstance(name, str) or name not in _PLAIN_FORMS or settings != {}:
        raise Incorrect(f"unknown policy {name!r:.80}, or one that has no settings")
    return PlainForm(name)


def _of_turn(record: TurnRecord) -> SessionPolicy:
    if record.policy is not None:
        return _economy(record.policy.get("settings"))
    return PlainForm.COMPACT if record.renderer in COMPACT_RENDERERS else PlainForm.PLAIN


def _economy(settings: Any) -> "Economy":
    """Read the settings of an economy policy, which anyone with access to the store may write."""
    from pydantic import TypeAdapter, ValidationError

    from ctxmgr.core.economy.policy import Economy

    try:
        policy = TypeAdapter(Economy).validate_python(settings, strict=False)
    except (ValidationError, Incorrect) as error:
        raise Corrupt(f"the settings of a policy are invalid: {error}") from error
    prices = policy.to_value()["prices"].values()
    if not all(math.isfinite(price) and price >= 0 for price in prices):
        raise Corrupt("a price of a policy is not a positive number")
    return policy
