"""Check turn records, policies and compactions that come from elsewhere, field by field. No I/O.

A record of our own is written by ``TurnRecorder`` and read back as it is. One in a bundle may say
anything, and is used long after it was imported.
"""

import re
from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ctxmgr.core.economy.records import EconomyRecord
from ctxmgr.core.economy.summary import Summary
from ctxmgr.core.files.mounts import MOUNTS_MAX, MountMapping
from ctxmgr.core.history.session_policy import policy_of
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.objects.compaction import COMPACTION, CompactionRecord
from ctxmgr.core.objects.envelope import POLICY, TURN, check_ids, check_text
from ctxmgr.core.objects.hashes import is_hash
from ctxmgr.core.store.documents import KIND, Document
from ctxmgr.errors import Corrupt, Incorrect

COUNT_MAX: Final = 2**53
"""Of tokens, characters, turns and transactions: every JSON reader has integers up to this."""

_Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]

_TextKey = Annotated[str, Field(pattern=r"^[0-9]{1,15}[.!]")]
"""Names a text of the stream: the number of its turn, then its place in the turn."""

_KEY_OF_TURN: Final = re.compile(rf"{TURN}:[0-9]{{1,15}}:")


def _mask_key(key: str) -> str:
    if key.startswith(f"{TURN}:") and not _KEY_OF_TURN.match(key):
        raise ValueError(f"{key!r:.80} names no turn")
    return key


_MaskKey = Annotated[str, AfterValidator(_mask_key)]
"""The id of a tool call, or a text of a turn as in ``core.economy.turn_masks``."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _RecordedMount(_Strict):
    agentPrefix: str  # noqa: N815 (stored names)
    canonicalPrefix: str  # noqa: N815
    filesystemId: str  # noqa: N815


class _RecordedView(_Strict):
    spans: list[tuple[_Count, _Count] | tuple[_Count, _Count, str]]
    names: list[str]
    hidden_tokens: _Count
    first_line: _Count | None = None
    """Records of ``economy/1`` have none."""


class _RecordedNotice(_Strict):
    handle: str
    object_id: str
    heading: str
    content: str


class _RecordedStream(BaseModel):
    """What a record says of its stream; a later version may add fields."""

    model_config = ConfigDict(strict=True, extra="allow")

    sent_at: Annotated[float, Field(ge=0, le=COUNT_MAX)]
    sent: _Count
    counted: _Count
    samples: list[tuple[_Count, _Count]]
    broken: _Count
    asked_back: dict[str, _Count]
    settled: list[_TextKey]
    used: dict[_TextKey, Annotated[int, Field(ge=-COUNT_MAX, le=COUNT_MAX)]]
    newest: list[_TextKey]
    message_tokens: list[tuple[_Count, list[_Count]]]
    touched: list[str]
    requested: list[str]
    repeated: dict[_TextKey, _Count] = {}
    alone: dict[_TextKey, _Count] = {}
    """Records of ``economy/1`` have none."""


class _RecordedSummary(_Strict):
    turns: Annotated[int, Field(ge=1, le=COUNT_MAX)]
    number: _Count
    user: list[tuple[_Count, str]]
    omitted: _Count
    notes: list[str]
    files: dict[str, str]
    failures: list[tuple[str, str, str, str]]
    lines: list[tuple[str, str]]
    names: list[str]


class _RecordedCompaction(_Strict):
    """The fields of a compaction that ``CompactionRecord`` does not check."""

    top_k_activations: dict[str, float]
    model: str | None
    usage: dict[str, _Count] | None
    parts: _RecordedSummary | None


class _RecordedPolicy(BaseModel):
    """What a record says of its policy; a later version may add fields."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str
    settings: dict[str, Any]
    epoch: _Count
    pool: list[str] | None
    views: dict[_TextKey, _RecordedView]
    notices: dict[Annotated[str, Field(pattern=r"^[0-9]{1,15}$")], list[_RecordedNotice]]
    masks: dict[_MaskKey, list[tuple[_Count, _Count, str]]]
    files: dict[str, str]
    plan: dict[str, Any] | None
    stream: _RecordedStream | None = None
    """Records of version 0.1 have none."""
    compaction: _RecordedSummary | None = None
    """Only prompts with a summary have one."""


_MOUNTS: Final = TypeAdapter(Annotated[list[_RecordedMount], Field(max_length=MOUNTS_MAX)])
_MASKS: Final = TypeAdapter(dict[str, list[tuple[_Count, _Count, str]]])
_SECTIONS: Final = TypeAdapter(dict[str, list[str]])


def check_record(document: Document) -> None:
    """Raise ``Corrupt`` unless the document has valid values in every field."""
    if document.get(KIND) == POLICY:
        policy_of(document)
        return
    if document.get(KIND) == COMPACTION:
        _check_compaction(document)
        return
    record = TurnRecord.from_document(document)
    try:
        for name, number in (("n", record.n), ("snapshot", record.snapshot)):
            _check_count(name, number)
        if record.sequence is not None:
            _check_count("sequence", record.sequence)
        check_text("renderer", record.renderer)
        check_ids("active", record.active)
        for shown in record.shown:
            if shown.display_path is not None:
                check_text("display_path", shown.display_path)
        for added in record.contributions:
            check_text("name", added.name)
            check_text("text", added.text)
        sections = _SECTIONS.validate_python(document["section_hashes"], strict=True)
        for name, hashes in sections.items():
            _check_hashes(name, hashes)
        for mount in _MOUNTS.validate_python(document["mounts"], strict=True):
            MountMapping(
                agent_prefix=mount.agentPrefix,
                canonical_prefix=mount.canonicalPrefix,
                filesystem_id=mount.filesystemId,
            )
        if "masks" in document:
            _MASKS.validate_json(orjson.dumps(document["masks"]), strict=True)
        if record.policy is not None:
            _check_policy(document["policy"])
    except (Incorrect, ValidationError) as error:
        raise Corrupt(f"{record.object_id} is not a turn record: {_reason(error)}") from error


def _check_compaction(document: Document) -> None:
    record = CompactionRecord.from_document(document)
    try:
        _RecordedCompaction.model_validate_json(
            orjson.dumps({name: document[name] for name in _RecordedCompaction.model_fields})
        )
    except ValidationError as error:
        raise Corrupt(f"{record.id} is not a compaction: {_reason(error)}") from error
    if record.parts is not None and Summary.from_value(record.parts).text != record.summary:
        raise Corrupt(f"{record.id} has a summary that does not follow from its parts")


def _check_policy(value: Document) -> None:
    # As JSON: a stored list is a tuple there.
    recorded = _RecordedPolicy.model_validate_json(orjson.dumps(value))
    if "compaction" in value and recorded.stream is None:
        raise Incorrect("it has a summary, but not the stream that continues after it")
    EconomyRecord.joined([value])


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or not 0 <= value <= COUNT_MAX:
        raise Incorrect(f"{name} is {value!r:.80}, which is not a count")


def _check_hashes(section: str, hashes: list[str]) -> None:
    if not all(map(is_hash, hashes)):
        raise Incorrect(f"{section!r:.80} has a value that is not a hash")


def _reason(error: Incorrect | ValidationError) -> str:
    if isinstance(error, Incorrect):
        return str(error)
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
