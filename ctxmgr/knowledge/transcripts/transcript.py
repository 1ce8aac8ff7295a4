"""Transcripts: one session, or one part of it, as markdown. Pure.

    ---
    session_id: ses_5f1c09ab
    started: 2026-11-18T14:32:00.000Z
    …                                        the fields of ``TranscriptHead``
    ---

    # The billing export fails

    ## 14:32 — user

    The export fails with a timeout. Why?

    ## 14:33 — agent

    > [tool:bash] command=tail export.log → ok: 504 Gateway Timeout

    The gateway gives up after 30 s.

    ## 14:33 — agent [memory]

    > [knowledge:updated] knowledge/memory/MEMORY.md — the timeout of the gateway

``parse_transcript`` reads exactly what ``render_transcript`` writes. A line of a message that looks
like a heading or like one of the quoted lines gets a backslash, which reading removes again, so no
text can forge a turn. Every other value is one line, and those of the head are JSON, which is YAML.
Times are UTC.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias

from ctxmgr.core.store.contract import INSTANT_MAX, Instant
from ctxmgr.errors import Incorrect

TEXT_CHARS_MAX: Final = 1_000_000
"""Characters of one message that are written; the store has the rest."""
SUMMARY_CHARS_MAX: Final = 120
"""Of the summary in a quoted line, which has to be readable as one line."""
NAME_CHARS_MAX: Final = 80
"""Of a tool's name, an action or a title."""
PATH_CHARS_MAX: Final = 1_024
SLUG_WORDS_MAX: Final = 6
SLUG_CHARS_MAX: Final = 48
SLUG_MESSAGES: Final = 3
"""Messages that the slug is derived from (002-R175)."""
UNTITLED: Final = "untitled"
"""The slug of a transcript that is open (002-A05)."""
NOTHING: Final = "-"
"""Stands for an empty value in a quoted line."""


class Role(StrEnum):
    """Who speaks in a turn of a transcript."""

    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool call: ``> [tool:NAME] SUMMARY → RESULT``."""

    tool: str
    summary: str
    result: str

    @classmethod
    def of(cls, tool: str, summary: str, result: str) -> Self:
        """Return the line of a call, with values that fit in one line."""
        # The first arrow ends the summary.
        summary = one_line(summary.replace("→", "->"), chars_max=SUMMARY_CHARS_MAX)
        result = one_line(result, chars_max=SUMMARY_CHARS_MAX)
        return cls(_word(tool), summary or NOTHING, result or NOTHING)

    def __str__(self) -> str:
        return f"> [tool:{self.tool}] {self.summary} → {self.result}"


@dataclass(frozen=True, slots=True)
class KnowledgeLine:
    """A change of a note: ``> [knowledge:ACTION] PATH — SUMMARY``."""

    action: str
    path: str
    summary: str

    @classmethod
    def of(cls, action: str, path: str, summary: str) -> Self:
        """Return the line of a change, with values that fit in one line."""
        path = one_line(path.replace("—", "-"), chars_max=PATH_CHARS_MAX)
        summary = one_line(summary, chars_max=SUMMARY_CHARS_MAX)
        return cls(_word(action), path or NOTHING, summary or NOTHING)

    def __str__(self) -> str:
        return f"> [knowledge:{self.action}] {self.path} — {self.summary}"

    def value(self) -> dict[str, str]:
        """Return the change as the head lists it (002-R029)."""
        return {"path": self.path, "action": self.action, "summary": self.summary}


@dataclass(frozen=True, slots=True)
class AttachmentLine:
    """Binary content, which is never embedded: ``> [attachment:PATH]``."""

    path: str

    @classmethod
    def of(cls, path: str) -> Self:
        path = one_line(path.replace("]", "-"), chars_max=PATH_CHARS_MAX)
        return cls(path or NOTHING)

    def __str__(self) -> str:
        return f"> [attachment:{self.path}]"


Block: TypeAlias = str | ToolLine | KnowledgeLine | AttachmentLine
"""A part of a turn: a text, or one quoted line."""


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """What one side said at a time; headed ``## HH:MM — ROLE [SUFFIX]``."""

    time: str
    role: Role
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    suffix: str | None = None
    """The kind of a turn that is not a message, such as ``memory``."""

    @classmethod
    def of(
        cls, at: Instant, role: Role, blocks: Iterable[Block], *, suffix: str | None = None
    ) -> Self:
        """Return a turn with its texts cleaned; adjacent texts become one."""
        joined: list[Block] = []
        for block in blocks:
            if not isinstance(block, str):
                joined.append(block)
            elif text := clean_text(block):
                if joined and isinstance(joined[-1], str):
                    text = f"{joined.pop()}\n\n{text}"
                joined.append(text)
        return cls(clock(at), role, tuple(joined), _word(suffix) if suffix else None)

    @property
    def text(self) -> str:
        """Everything that was said, without quoted lines."""
        return "\n\n".join(block for block in self.blocks if isinstance(block, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptHead:
    """The frontmatter of a transcript."""

    session_id: str
    """``ses_`` and eight hexadecimal digits (002-R024)."""
    session: str
    """The session's id in the store."""
    started: Instant
    ended: Instant | None = None
    """None while the transcript is open."""
    model: str | None = None
    channel: str = "agent"
    topic: str | None = None
    tags: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    part: int = 1
    """A session that goes on after its transcript was closed continues in another part."""
    continues: str | None = None
    """The path of the part before."""
    store: str | None = None
    """Identifies the store whose events these are."""
    last_event: str | None = None
    """The last event of the store that is in the transcript, as ``SEQUENCE.POSITION``."""
    knowledge_changes: tuple[KnowledgeLine, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionTranscript:
    """A transcript as it lies in its file."""

    head: TranscriptHead
    title: str
    turns: tuple[TranscriptTurn, ...] = ()


def render_transcript(transcript: SessionTranscript) -> str:
    """Return the text of a transcript."""
    opening = render_opening(transcript.head, transcript.title)
    return opening + "".join(map(render_turn, transcript.turns))


def render_opening(head: TranscriptHead, title: str) -> str:
    """Return what is before the first turn: the head and the title."""
    lines = ["---"]
    for spec in fields(TranscriptHead):
        value = getattr(head, spec.name)
        match spec.name:
            case "session_id":
                lines.append(f"session_id: {value}")
            case "started" | "ended" if value is not None:
                lines.append(f"{spec.name}: {iso(value)}")
            case "knowledge_changes":
                lines.append("knowledge_changes:" if value else "knowledge_changes: []")
                lines += [f"  - {_json(change.value())}" for change in value]
            case _:
                lines.append(f"{spec.name}: {_json(value)}")
    return "\n".join([*lines, "---", "", f"# {title}", ""])


def render_turn(turn: TranscriptTurn) -> str:
    """Return the text that a turn adds to its transcript."""
    suffix = f" [{turn.suffix}]" if turn.suffix else ""
    blocks = [_escaped(block) if isinstance(block, str) else str(block) for block in turn.blocks]
    return "\n".join(["", f"## {turn.time} — {turn.role}{suffix}", *(f"\n{b}" for b in blocks), ""])


def parse_transcript(text: str, *, path: str = "transcript") -> SessionTranscript:
    """Read a transcript; ``Incorrect`` with the line that is wrong."""
    lines = text.split("\n")
    head, body = _parse_head(lines, path)
    title, number = _parse_title(lines, body, path)
    turns: list[TranscriptTurn] = []
    heading: re.Match[str] | None = None
    content: list[str] = []
    for at, line in enumerate(lines[number:], start=number + 1):
        if not line.startswith("## "):
            content.append(line)
            continue
        turns += _parse_turn(heading, content)
        heading, content = _HEADING.fullmatch(line), []
        if heading is None:
            raise Incorrect(f"{path}, line {at}: {line!r:.80} is not the heading of a turn")
    turns += _parse_turn(heading, content)
    return SessionTranscript(head, title, tuple(turns))


def parse_head(text: str, *, path: str = "transcript") -> TranscriptHead:
    """Read only the head of a transcript."""
    return _parse_head(text.split("\n"), path)[0]


def session_name(session: str) -> str:
    """Return the id that a transcript has for a session of the store."""
    if _SESSION.fullmatch(session):
        return session
    return f"ses_{hashlib.sha256(session.encode(errors='replace')).hexdigest()[:8]}"


def transcript_path(head: TranscriptHead, *, slug: str) -> str:
    """Return the path below the raw root (002-R023)."""
    started = moment(head.started)
    return f"raw/conversations/{started:%Y/%m/%d/%H%M}-{head.session_id}-{slug}.md"


def slug_of(messages: Iterable[str]) -> str:
    """Return a slug for the first few messages of a session; ``untitled`` if they have no words."""
    words: list[str] = []
    for text in list(messages)[:SLUG_MESSAGES]:
        plain = unicodedata.normalize("NFKD", text[:2_000]).encode("ascii", "ignore").decode()
        words += [word for word in _WORD.findall(plain.lower()) if not _SMALL_WORDS.fullmatch(word)]
    slug = ""
    for word in words[:SLUG_WORDS_MAX]:
        longer = f"{slug}-{word}" if slug else word[:SLUG_CHARS_MAX]
        if len(longer) > SLUG_CHARS_MAX:
            break
        slug = longer
    return slug or UNTITLED


def title_of_messages(messages: Iterable[str]) -> str:
    """Return the title of a session: the first line that somebody said."""
    for text in messages:
        for line in text.split("\n"):
            if title := one_line(line.lstrip("# \t>-*"), chars_max=NAME_CHARS_MAX):
                return title
    return "Untitled session"


def hashtags(text: str) -> tuple[str, ...]:
    """Return the ``#words`` of a message, in order, each once."""
    return tuple(dict.fromkeys(tag.lower() for tag in _HASHTAG.findall(text)))


def clean_text(text: str) -> str:
    """Return a text as a transcript holds it.

    Line breaks of every kind become newlines, control characters are replaced, embedded data is
    referenced by its hash, and empty lines at both ends are left out.
    """
    text = _data_referenced(text.encode(errors="replace").decode())
    if len(text) > TEXT_CHARS_MAX:
        text = f"{text[:TEXT_CHARS_MAX]}\n[{len(text) - TEXT_CHARS_MAX} more characters]"
    return _trimmed(_CONTROL.sub("\ufffd", _BREAK.sub("\n", text)))


def one_line(text: str, *, chars_max: int) -> str:
    """Return a text in one line, shortened with an ellipsis."""
    text = text[: 8 * chars_max].encode(errors="replace").decode()
    text = " ".join(_CONTROL.sub("\ufffd", _BREAK.sub(" ", text)).split())
    return text if len(text) <= chars_max else f"{text[: chars_max - 1].rstrip()}…"


def clock(at: Instant) -> str:
    """Return a time as the heading of a turn has it."""
    return f"{moment(at):%H:%M}"


def iso(at: Instant) -> str:
    return f"{moment(at):%Y-%m-%dT%H:%M:%S}.{at % 1_000:03d}Z"


def moment(at: Instant) -> datetime:
    return datetime.fromtimestamp(max(0, min(at, INSTANT_MAX)) // 1_000, tz=UTC)


_SESSION: Final = re.compile(r"ses_[0-9a-f]{8}")
_HEADING: Final = re.compile(r"## (\d\d:\d\d) — (user|agent|system)(?: \[([\w.:-]+)\])?")
_QUOTED: Final = re.compile(
    r"> \[(?:tool:(?P<tool>[^\]]+)\] (?P<call>.*?) → (?P<result>.+)"
    r"|knowledge:(?P<action>[^\]]+)\] (?P<path>.*?) — (?P<summary>.+)"
    r"|attachment:(?P<attachment>[^\]]+)\])"
)
_LOOKS_LIKE: Final = r"(?=\\*(?:#{1,2}(?:[ \t]|$)|> \[))"
"""What would be read as structure; it may be indented as markdown allows."""
_FORGING: Final = re.compile(rf"^( {{0,3}}){_LOOKS_LIKE}", re.MULTILINE)
_ESCAPED: Final = re.compile(rf"^( {{0,3}})\\{_LOOKS_LIKE}", re.MULTILINE)
_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_DATA: Final = re.compile(r"data:[\w.+/-]{1,80};base64,([A-Za-z0-9+/=]{64,})")
_WORD: Final = re.compile(r"[a-z0-9]+")
_HASHTAG: Final = re.compile(r"(?<![\w#&/])#([A-Za-z][\w-]{1,39})")
_SMALL_WORDS: Final = re.compile(
    "a|an|and|are|as|at|be|by|can|could|do|does|for|from|have|how|i|in|is|it|its|me|my|of|on|or|our"
    "|please|s|t|that|the|this|to|us|was|we|what|when|where|which|why|will|with|would|you|your"
)


def _escaped(text: str) -> str:
    return _FORGING.sub(r"\1\\", text)


def _data_referenced(text: str) -> str:
    def reference(match: re.Match[str]) -> str:
        return f"[attachment:sha256-{hashlib.sha256(match[1].encode()).hexdigest()[:16]}]"

    return _DATA.sub(reference, text) if ";base64," in text else text


def _word(text: str) -> str:
    return re.sub(r"[^\w.:-]+", "_", one_line(text, chars_max=NAME_CHARS_MAX)).strip("_") or "other"


def _json(value: object) -> str:
    value = list(value) if isinstance(value, tuple) else value
    # What JSON leaves as it is and YAML takes for a line break or refuses.
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]",
        lambda match: f"\\u{ord(match[0]):04x}",
        json.dumps(value, ensure_ascii=False),
    )


def _parse_head(lines: list[str], path: str) -> tuple[TranscriptHead, int]:
    if lines[0] != "---" or "---" not in lines[1:]:
        raise Incorrect(f"{path}, line 1: a transcript begins with frontmatter between two `---`")
    end = lines.index("---", 1)
    values: dict[str, Any] = {}
    for at, line in enumerate(lines[1:end], start=2):
        try:
            if line.startswith("  - ") and isinstance(values.get("knowledge_changes"), list):
                values["knowledge_changes"].append(_read_change(json.loads(line[4:])))
                continue
            name, _, value = line.partition(": ")
            if name.rstrip(":") == "knowledge_changes":
                values["knowledge_changes"] = []
            else:
                values[name] = _read_value(name, value)
        except (ValueError, KeyError, TypeError) as error:
            raise Incorrect(f"{path}, line {at}: cannot read {line!r:.80}") from error
    return _checked_head(values, path), end + 1


def _read_value(name: str, value: str) -> object:
    if name == "session_id":
        return value
    if name in {"started", "ended"} and value != "null":
        parsed = datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        return round(parsed.timestamp() * 1_000)
    read = json.loads(value)
    return tuple(read) if isinstance(read, list) else read


def _read_change(value: Mapping[str, str]) -> KnowledgeLine:
    return KnowledgeLine(value["action"], value["path"], value["summary"])


_HEAD_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "session_id": (str,),
    "session": (str,),
    "started": (int,),
    "ended": (int, type(None)),
    "model": (str, type(None)),
    "channel": (str,),
    "topic": (str, type(None)),
    "tags": (tuple,),
    "tokens_in": (int,),
    "tokens_out": (int,),
    "part": (int,),
    "continues": (str, type(None)),
    "store": (str, type(None)),
    "last_event": (str, type(None)),
    "knowledge_changes": (list,),
}


def _checked_head(values: Mapping[str, Any], path: str) -> TranscriptHead:
    missing = _HEAD_TYPES.keys() - values.keys()
    if missing:
        raise Incorrect(f"{path}: the frontmatter lacks {', '.join(sorted(missing))}")
    for name, types in _HEAD_TYPES.items():
        if type(values[name]) not in types:
            raise Incorrect(f"{path}: {name} is {values[name]!r:.80}")
    known = {name: values[name] for name in _HEAD_TYPES}
    return TranscriptHead(**known | {"knowledge_changes": tuple(values["knowledge_changes"])})


def _parse_title(lines: list[str], start: int, path: str) -> tuple[str, int]:
    for number in range(start, len(lines)):
        if lines[number].startswith("# "):
            return lines[number][2:], number + 1
        if lines[number].strip():
            break
    raise Incorrect(f"{path}, line {start + 1}: the title, `# …`, is missing")


def _parse_turn(heading: re.Match[str] | None, content: list[str]) -> Iterator[TranscriptTurn]:
    if heading is None:
        return  # what lies between the title and the first turn
    blocks: list[Block] = []
    text: list[str] = []
    for line in [*content, None]:
        quoted = _QUOTED.fullmatch(line) if line is not None else None
        if line is not None and quoted is None:
            text.append(line)
            continue
        if said := _trimmed("\n".join(text)):
            blocks.append(_ESCAPED.sub(r"\1", said))
        text = []
        if quoted is not None:
            blocks.append(_quoted_block(quoted))
    yield TranscriptTurn(heading[1], Role(heading[2]), tuple(blocks), heading[3])


def _trimmed(text: str) -> str:
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""


def _quoted_block(match: re.Match[str]) -> Block:
    if match["tool"]:
        return ToolLine(match["tool"], match["call"], match["result"])
    if match["action"]:
        return KnowledgeLine(match["action"], match["path"], match["summary"])
    return AttachmentLine(match["attachment"])
