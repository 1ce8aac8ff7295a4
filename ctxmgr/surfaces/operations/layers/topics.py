"""``ctxmgr topics``: what topics there are, what a message activates, and why. Through ``App``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.asked_models import AskedModel, ModelOption, costs_of
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.knowledge.topics.topic import Topic
    from ctxmgr.knowledge.topics.watcher_pipeline import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    name: str
    priority: str
    activation: str
    triggers: int
    next_fire: str | None
    """When its schedule fires next."""
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRows:
    topics: tuple[TopicRow, ...]
    errors: int
    """Topic files that cannot be used; `ctxmgr topics check` lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic in full."""

    name: str
    path: str
    description: str
    activation: str
    priority: str
    max_context_kb: float
    similarity_threshold: float | None
    similarity_only: bool
    sentiment: str | None
    keywords: tuple[str, ...]
    triggers: tuple[str, ...]
    subscriptions: tuple[str, ...]
    next_fire: str | None
    shown: str
    """What a prompt shows of it, without its subscriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    path: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCheck:
    """What is wrong with the topic files."""

    topics: int
    errors: int
    problems: tuple[ProblemRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """What became of one candidate."""

    topic: str
    result: str
    score: float
    tier1: tuple[str, ...]
    """The triggers that matched."""
    tfidf: float | None
    bm25: float | None
    jaccard: float | None
    minhash: float | None
    sentiment: float | None
    decider: str
    reason: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTrial:
    """What a message would activate."""

    active: tuple[str, ...]
    candidates: tuple[CandidateRow, ...]
    costs: tuple[AskedModel, ...]
    """What the gate's model cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    time: str
    topic: str
    result: str
    score: float
    was_useful: bool | None
    decider: str
    direction: str
    triggers: tuple[str, ...]
    session_id: str | None
    message_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRows:
    decisions: tuple[DecisionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRow:
    """A change that the log suggests."""

    topic: str
    subject: str
    change: str
    evidence: str
    useful: int
    useless: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTuning:
    decisions: int
    """Decisions that were read."""
    judged: int
    """Of these, decisions of which it is known whether they were useful."""
    proposals: tuple[ProposalRow, ...]


async def topics_list(app: "App", *, folder: NotesOption = None) -> TopicRows:
    """List the topics of a folder of notes."""
    from ctxmgr.knowledge.topics.topic import Severity

    found = await app.topics(folder)
    return TopicRows(
        topics=tuple(
            TopicRow(
                name=topic.name,
                priority=str(topic.priority),
                activation=str(topic.activation),
                triggers=len(topic.triggers),
                next_fire=_next_fire(topic),
                description=topic.description,
            )
            for topic in found.topics
        ),
        errors=len({each.path for each in found.problems if each.severity is Severity.ERROR}),
    )


async def topics_show(
    app: "App",
    name: Annotated[str, Param("The name of a topic.")],
    *,
    folder: NotesOption = None,
) -> TopicView:
    """Show a topic: its triggers, and what a prompt shows of it."""
    from ctxmgr.knowledge.topics.topic_folder import require_topic
    from ctxmgr.knowledge.topics.watcher_pipeline import WatcherPipeline

    found = await app.topics(folder)
    require_topic(found.topics, name)
    topic = WatcherPipeline(found.topics).topics[name]
    return TopicView(
        name=topic.name,
        path=topic.path,
        description=topic.description,
        activation=str(topic.activation),
        priority=str(topic.priority),
        max_context_kb=topic.max_context_kb,
        similarity_threshold=topic.similarity_threshold,
        similarity_only=topic.similarity_only,
        sentiment=topic.sentiment,
        keywords=topic.keywords,
        triggers=tuple(trigger.label for trigger in topic.triggers),
        subscriptions=topic.subscriptions,
        next_fire=_next_fire(topic),
        shown=topic.render_instructions(),
    )


async def topics_check(app: "App", *, folder: NotesOption = None) -> TopicCheck:
    """Check all topic files; the exit code is 1 if one cannot be used."""
    from ctxmgr.knowledge.topics.topic import Severity

    found = await app.topics(folder)
    errors = {each.path for each in found.problems if each.severity is Severity.ERROR}
    return TopicCheck(
        topics=len(found.topics),
        errors=len(errors),
        problems=tuple(
            ProblemRow(path=each.path, severity=str(each.severity), message=each.message)
            for each in found.problems
        ),
    )


async def topics_try(
    app: "App",
    message: Annotated[str, Param("The message.", metavar="MESSAGE")],
    *,
    direction: Annotated[
        Literal["input", "output"], Param("Whether a person wrote it, or the agent.")
    ] = "input",
    path: Annotated[
        tuple[str, ...], Param("A path of a tool call; may be repeated.", metavar="PATH")
    ] = (),
    model: ModelOption = None,
    folder: NotesOption = None,
) -> TopicTrial:
    """Show which topics a message would activate, and why.

    Every candidate is listed with the triggers that matched, its scores and what decided. The gate
    asks a model only with --model; otherwise its rule decides. Nothing is logged.
    """
    from ctxmgr.knowledge.topics.gate import GatedActivator
    from ctxmgr.knowledge.topics.topic import Direction
    from ctxmgr.knowledge.topics.watcher_pipeline import WatcherPipeline

    async with app.asked_model(model) as asked:
        gate = GatedActivator(asked)
        pipeline = WatcherPipeline((await app.topics(folder)).topics, gate=gate)
        verdicts = await pipeline.verdicts(message, Direction(direction), tool_paths=path)
    return TopicTrial(
        active=tuple(each.topic.name for each in verdicts if each.result.activates),
        candidates=tuple(_candidate(verdict) for verdict in verdicts),
        costs=costs_of(gate.ledger, app.prices),
    )


async def topics_log(
    app: "App",
    topic: Annotated[str | None, Param("Only decisions about this topic.")] = None,
    *,
    session: Annotated[str | None, Param("Only decisions of this session.")] = None,
    limit: Annotated[int, Param("Decisions to show.")] = 50,
) -> DecisionRows:
    """List the newest decisions about topics."""
    from ctxmgr.knowledge.topics.decision_log import DecisionLog
    from ctxmgr.surfaces.encoding import iso

    log = DecisionLog(await app.store_or_empty())
    found = await log.newest(limit=limit, topic=topic, session_id=session)
    return DecisionRows(
        decisions=tuple(
            DecisionRow(
                time=iso(each.timestamp),
                topic=each.topic_name,
                result=str(each.gate_result),
                score=each.tier2_score,
                was_useful=each.was_useful,
                decider=each.decider,
                direction=each.direction,
                triggers=each.triggers,
                session_id=each.session_id,
                message_hash=each.message_hash,
            )
            for each in found
        )
    )


async def topics_tune(
    app: "App",
    *,
    limit: Annotated[int, Param("Decisions to read, from the newest.")] = 10_000,
    folder: NotesOption = None,
) -> TopicTuning:
    """Propose changes to topics from the log, with evidence.

    Nothing is changed: a person edits the topic files.
    """
    from ctxmgr.knowledge.topics.decision_log import DecisionLog
    from ctxmgr.knowledge.topics.tuning import is_evidence, propose

    topics = {topic.name: topic for topic in (await app.topics(folder)).topics}
    decisions = await DecisionLog(await app.store_or_empty()).newest(limit=limit)
    return TopicTuning(
        decisions=len(decisions),
        judged=sum(is_evidence(each) for each in decisions),
        proposals=tuple(
            ProposalRow(
                topic=each.topic_name,
                subject=each.subject,
                change=each.change,
                evidence=each.evidence,
                useful=each.useful,
                useless=each.useless,
            )
            for each in propose(decisions, topics)
        ),
    )


def _candidate(verdict: "Verdict") -> CandidateRow:
    details = verdict.details

    def score(name: str) -> float | None:
        value = None if details is None else getattr(details, name)
        return None if value is None else round(value, 3)

    return CandidateRow(
        topic=verdict.topic.name,
        result=str(verdict.result),
        score=round(verdict.score, 3),
        tier1=tuple(trigger.label for trigger in verdict.triggers),
        tfidf=score("tfidf"),
        bm25=score("bm25"),
        jaccard=score("jaccard"),
        minhash=score("minhash"),
        sentiment=score("sentiment"),
        decider=verdict.decider,
        reason=verdict.reason,
        hint=verdict.hint,
    )


def _next_fire(topic: "Topic") -> str | None:
    import time

    from ctxmgr.knowledge.topics.triggers import next_fire
    from ctxmgr.surfaces.encoding import iso

    fires = next_fire(topic, now=time.time_ns() // 1_000_000)
    return None if fires is None else iso(fires)
