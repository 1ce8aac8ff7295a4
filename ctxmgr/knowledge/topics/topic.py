"""Topics: when notes and instructions are added to a prompt, as a file of frontmatter says. Pure.

    triggers        what makes the topic a candidate; the first of three tiers
    subscriptions   notes that are loaded with it
    activation      auto: at once · gated: after a question to a model · manual: never by itself
    priority        low, medium, high, critical: whether the gate is asked at all
    max_context_kb  how much the topic may add, its subscriptions included

A topic file comes from a repository and is not trusted: every value is checked here. A topic with
an error is left out, and never stops the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.note import Note

SIMILARITY_THRESHOLD: Final = 0.15
"""The default of 002-R106."""

CONTEXT_KB: Final = 6.0
"""What a topic may add if it does not say: the topics' share of the default budget (002-R208)."""
CONTEXT_KB_MAX: Final = 64.0
TRIGGERS_MAX: Final = 50
VALUES_MAX: Final = 200
"""Words, globs, names, hosts or languages of one trigger, and subscriptions of one topic."""
VALUE_CHARS_MAX: Final = 1_000
"""Of one pattern, word or hint."""
TOPICS_MAX: Final = 2_000
"""Topics of one repository; further ones are reported and left out."""
_KB: Final = 1024


class ActivationMode(StrEnum):
    """How a candidate becomes active."""

    AUTO = "auto"
    GATED = "gated"
    MANUAL = "manual"


class Priority(StrEnum):
    """How much a topic matters; the bypass table reads it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def score(self) -> int:
        """0 for low to 3 for critical."""
        return list(Priority).index(self)


class Direction(StrEnum):
    """Whose message a watcher observes."""

    INPUT = "input"
    OUTPUT = "output"


class TriggerScope(StrEnum):
    """Which messages a trigger looks at."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"

    def covers(self, direction: Direction) -> bool:
        return self is TriggerScope.BOTH or self.value == direction.value


class TriggerKind(StrEnum):
    """What a trigger looks for in a message."""

    PATTERN = "pattern"
    PATH = "path"
    KEYWORD = "keyword"
    CODE = "code"
    LANGUAGE = "language"
    MENTION = "mention"
    URL = "url"
    SENTIMENT = "sentiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrigger:
    """A trigger that looks at messages."""

    kind: TriggerKind
    values: tuple[str, ...] = ()
    """A regular expression, globs, words, languages, names or hosts, as the kind says."""
    scope: TriggerScope = TriggerScope.INPUT
    correction_hint: str | None = None
    """For output: what the agent should do differently in its next turn."""

    @property
    def label(self) -> str:
        """The trigger in one line, for logs."""
        return f"{self.kind} {', '.join(self.values)}".strip()[:LABEL_CHARS_MAX]


LABEL_CHARS_MAX: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTrigger:
    """A trigger by a POST to ``ctxmgr serve``."""

    source: str
    event: str | None = None
    """None: every event of the source."""

    @property
    def label(self) -> str:
        return f"webhook {self.source} {self.event or ''}".strip()[:LABEL_CHARS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTrigger:
    """A trigger by the clock."""

    schedule: str
    """A cron expression of five fields, in UTC."""

    @property
    def label(self) -> str:
        return f"cron {self.schedule}"[:LABEL_CHARS_MAX]


Trigger: TypeAlias = MessageTrigger | WebhookTrigger | CronTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic, as its file says."""

    name: str
    """The stem of its file (002-A10)."""
    path: str
    description: str
    instructions: str = field(repr=False)
    context_notes: str = field(default="", repr=False)
    triggers: tuple[Trigger, ...] = ()
    subscriptions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    """As given, otherwise derived from the texts of all topics."""
    activation: ActivationMode = ActivationMode.GATED
    priority: Priority = Priority.MEDIUM
    max_context_kb: float = CONTEXT_KB
    similarity_threshold: float | None = None
    """None: that of the settings."""
    similarity_only: bool = False
    """Whether it is scored without a match of a trigger (002-A12)."""
    sentiment: str | None = None
    """``negative`` or ``positive``: messages of this mood score as similar."""

    @property
    def priority_score(self) -> int:
        return self.priority.score

    @property
    def context_bytes_max(self) -> int:
        """What the topic may add to a prompt, in UTF-8."""
        return int(self.max_context_kb * _KB)

    @property
    def message_triggers(self) -> tuple[MessageTrigger, ...]:
        return tuple(each for each in self.triggers if isinstance(each, MessageTrigger))

    @property
    def text(self) -> str:
        """All that similarity is measured against."""
        parts = (self.short_text, self.instructions, self.context_notes)
        return "\n".join(part for part in parts if part)

    @property
    def short_text(self) -> str:
        """Name, description and keywords: about as long as a message."""
        return " ".join((self.name.replace("-", " "), self.description, " ".join(self.keywords)))

    def render_instructions(self) -> str:
        """Return what the prompt shows of the topic itself, within its own limit."""
        parts = [f"## {self.name}", self.instructions]
        if self.context_notes:
            parts.append(f"### Context Notes\n\n{self.context_notes}")
        return cut_to_bytes("\n\n".join(part for part in parts if part), self.context_bytes_max)


class Severity(StrEnum):
    ERROR = "error"
    """The topic is left out."""
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProblem:
    """What is wrong with a topic file."""

    path: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSet:
    """The valid topics of a repository, by name, and what is wrong with the others."""

    topics: tuple[Topic, ...]
    problems: tuple[TopicProblem, ...]


def read_topic(note: Note) -> Topic:
    """Read a topic; ``Incorrect`` names everything that is wrong with it."""
    topic, problems = check_topic(note)
    if topic is None:
        errors = [each.message for each in problems if each.severity is Severity.ERROR]
        raise Incorrect(f"{note.path}: {'; '.join(errors)}")
    return topic


def read_topics(notes: Iterable[Note]) -> TopicSet:
    """Read all topics. One with an error is reported and left out; the others stay."""
    topics: dict[str, Topic] = {}
    problems: list[TopicProblem] = []
    for note in notes:
        topic, found = check_topic(note)
        problems += found
        if topic is None:
            continue
        if topic.name in topics:
            message = f"another topic is named {topic.name!r}, too: {topics[topic.name].path}"
            problems.append(_error(note.path, message))
        elif len(topics) >= TOPICS_MAX:
            problems.append(_error(note.path, f"there are more than {TOPICS_MAX:,} topics"))
        else:
            topics[topic.name] = topic
    return TopicSet(topics=tuple(topics.values()), problems=tuple(problems))


def check_topic(note: Note) -> tuple[Topic | None, list[TopicProblem]]:
    """Read a topic and list what is wrong; None if that is an error."""
    reader = _Fields(note.path, note.frontmatter)
    triggers = _triggers(reader)
    instructions = _section(note, "instructions")
    if not instructions:
        reader.warn("the body has no Instructions section; the topic would add nothing")
    topic = Topic(
        name=note.path.rpartition("/")[2].removesuffix(".md"),
        path=note.path,
        description=reader.text("description") or _first_paragraph(note),
        instructions=instructions,
        context_notes=_section(note, "context notes"),
        triggers=triggers,
        subscriptions=tuple(filter(reader.is_subscription, reader.texts("subscriptions"))),
        keywords=reader.texts("keywords"),
        activation=reader.choice("activation", ActivationMode, ActivationMode.GATED),
        priority=reader.choice("priority", Priority, Priority.MEDIUM),
        max_context_kb=reader.number("max_context_kb", CONTEXT_KB_MAX) or CONTEXT_KB,
        similarity_threshold=reader.number("similarity_threshold", 1.0, zero=True),
        similarity_only=reader.flag("similarity_only"),
        sentiment=reader.sentiment(),
    )
    reader.check_unknown()
    if reader.get("type") != "topic":
        reader.fail(f"type is {reader.get('type')!r:.40}, not 'topic'")
    if not triggers and not topic.similarity_only and topic.activation is not ActivationMode.MANUAL:
        reader.warn("there are no triggers, so the topic is never activated by itself")
    failed = any(each.severity is Severity.ERROR for each in reader.problems)
    return (None if failed else topic), reader.problems


def cut_to_bytes(text: str, size: int) -> str:
    """Return the beginning of a text, in at most ``size`` bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= size else data[:size].decode(errors="ignore")


_FIELDS: Final = """
    type triggers subscriptions activation priority max_context_kb similarity_threshold
    similarity_only sentiment description keywords tags updated created title
"""

_VALUE_FIELD: Final[Mapping[TriggerKind, str]] = {
    TriggerKind.PATTERN: "match",
    TriggerKind.PATH: "match",
    TriggerKind.KEYWORD: "words",
    TriggerKind.CODE: "languages",
    TriggerKind.LANGUAGE: "languages",
    TriggerKind.MENTION: "names",
    TriggerKind.URL: "hosts",
}
"""Where each kind has its values; a mood has none."""

_NEEDS_VALUES: Final = frozenset({TriggerKind.PATTERN, TriggerKind.PATH, TriggerKind.LANGUAGE})


class _Fields:
    """The fields of a topic file, with what is wrong with them."""

    def __init__(self, path: str, fields: Mapping[str, Any]) -> None:
        self._path = path
        self._fields = fields
        self.problems: list[TopicProblem] = []

    def get(self, name: str) -> Any:
        return self._fields.get(name)

    def fail(self, message: str) -> None:
        self.problems.append(_error(self._path, message))

    def warn(self, message: str) -> None:
        self.problems.append(
            TopicProblem(path=self._path, severity=Severity.WARNING, message=message)
        )

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > VALUE_CHARS_MAX:
            self.fail(f"{name} must be a text of up to {VALUE_CHARS_MAX:,} characters")
            return ""
        return value.strip()

    def texts(self, name: str) -> tuple[str, ...]:
        return self.values(name, self._fields.get(name))

    def values(self, name: str, value: object) -> tuple[str, ...]:
        """Return one text or a list of texts."""
        if value is None:
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list | tuple) or len(found) > VALUES_MAX:
            self.fail(f"{name} must be a list of up to {VALUES_MAX} texts, not {value!r:.60}")
            return ()
        for each in found:
            if not isinstance(each, str) or not 0 < len(each.strip()) <= VALUE_CHARS_MAX:
                self.fail(f"{name}: {each!r:.60} is not a text of 1 to {VALUE_CHARS_MAX:,} letters")
                return ()
        return tuple(dict.fromkeys(each.strip() for each in found))

    def number(self, name: str, highest: float, *, zero: bool = False) -> float | None:
        value = self._fields.get(name)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= highest or not (value or zero):
            least = "from 0 to" if zero else "above 0 and at most"
            self.fail(f"{name} must be {least} {highest:g}, not {value!r:.40}")
            return None
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            self.fail(f"{name} must be true or false, not {value!r:.40}")
        return value is True

    def choice(self, name: str, kind: type[Any], default: Any) -> Any:
        value = self._fields.get(name)
        if value is None:
            return default
        words = [str(each) for each in kind]
        if value not in words:
            self.fail(f"unknown {name} {value!r:.40} (one of: {', '.join(words)})")
            return default
        return kind(value)

    def sentiment(self) -> str | None:
        value = self._fields.get("sentiment")
        if value not in (None, "negative", "positive"):
            self.fail(f"unknown sentiment {value!r:.40} (one of: negative, positive)")
            return None
        return value

    def is_subscription(self, path: str) -> bool:
        """Whether this names a note below the repository; it says what is read."""
        if path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path or "\0" in path:
            self.fail(f"subscription {path!r:.80} is not a path below the repository")
            return False
        return True

    def check_unknown(self) -> None:
        for name in self._fields:
            if name not in _FIELDS.split():
                self.warn(f"unknown field {name!r:.40} is ignored")


def _triggers(reader: _Fields) -> tuple[Trigger, ...]:
    given = reader.get("triggers")
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or len(given) > TRIGGERS_MAX:
        reader.fail(f"triggers must be a list of up to {TRIGGERS_MAX} triggers")
        return ()
    triggers = (_trigger(reader, number, value) for number, value in enumerate(given, 1))
    return tuple(trigger for trigger in triggers if trigger is not None)


def _trigger(reader: _Fields, number: int, value: object) -> Trigger | None:
    where = f"trigger {number}"
    if isinstance(value, str):
        value = {"type": "pattern", "match": value}
    if not isinstance(value, Mapping):
        reader.fail(f"{where} must be a mapping with a type, not {value!r:.60}")
        return None
    kind = value.get("type")
    match kind:
        case "webhook":
            return _webhook(reader, where, value)
        case "cron":
            (schedule,) = reader.values(f"{where}: schedule", value.get("schedule")) or ("",)
            if not schedule:
                reader.fail(f"{where}: a cron trigger needs a schedule, such as '0 9 * * 1'")
                return None
            return CronTrigger(schedule=schedule)
    words = [str(each) for each in TriggerKind]
    if kind not in words:
        reader.fail(
            f"{where}: unknown type {kind!r:.40} (one of: {', '.join(words)}, webhook, cron)"
        )
        return None
    return _message_trigger(reader, where, TriggerKind(kind), value)


def _webhook(reader: _Fields, where: str, value: Mapping[Any, Any]) -> WebhookTrigger | None:
    source = reader.values(f"{where}: source", value.get("source"))
    event = reader.values(f"{where}: event", value.get("event"))
    if len(source) != 1 or len(event) > 1:
        reader.fail(f"{where}: a webhook needs one source, and at most one event")
        return None
    return WebhookTrigger(source=source[0], event=event[0] if event else None)


def _message_trigger(
    reader: _Fields, where: str, kind: TriggerKind, value: Mapping[Any, Any]
) -> MessageTrigger | None:
    name = _VALUE_FIELD.get(kind)
    values = reader.values(f"{where}: {name}", value.get(name)) if name else ()
    if kind is TriggerKind.KEYWORD and not values:
        values = reader.texts("keywords")
    if not values and (kind in _NEEDS_VALUES or kind is TriggerKind.KEYWORD):
        reader.fail(f"{where}: a {kind} trigger needs {name!r}")
        return None
    scope = value.get("scope", "input")
    if scope not in [str(each) for each in TriggerScope]:
        reader.fail(f"{where}: unknown scope {scope!r:.40} (one of: input, output, both)")
        return None
    hint = reader.values(f"{where}: correction_hint", value.get("correction_hint"))
    if len(hint) > 1:
        reader.fail(f"{where}: correction_hint must be one text")
        return None
    if hint and scope == "input":
        reader.warn(f"{where}: a correction_hint has no effect with scope input")
    for other in value:
        if other not in {"type", "scope", "correction_hint", name}:
            reader.warn(f"{where}: unknown field {other!r:.40} is ignored")
    return MessageTrigger(
        kind=kind,
        values=values,
        scope=TriggerScope(scope),
        correction_hint=hint[0] if hint else None,
    )


def _section(note: Note, title: str) -> str:
    """Return the text below a heading, with that of deeper headings."""
    found: list[str] = []
    level = 0
    for section in note.sections:
        if level and section.level > level:
            found.append(f"{'#' * section.level} {section.title}\n{section.text}")
        elif level:
            break
        elif section.level and section.title.casefold() == title:
            level = section.level
            found.append(section.text)
    return "\n\n".join(found).strip()


def _first_paragraph(note: Note) -> str:
    """Return the first paragraph of the body that is not a heading, in one line."""
    text = next((section.text for section in note.sections if section.text), "")
    return " ".join(text.partition("\n\n")[0].split())[:VALUE_CHARS_MAX]


def _error(path: str, message: str) -> TopicProblem:
    return TopicProblem(path=path, severity=Severity.ERROR, message=message)
