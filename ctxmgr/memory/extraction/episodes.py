"""One episode per exchange: problem, what was tried, outcome, artefacts. Pure.

The narrative is the request, what was changed and run, and the last answer. An exchange in which
nothing was asked or nothing was done is no episode.
"""

import re
from typing import Final

from ctxmgr.memory.extraction.exchange import Exchange, ToolRun
from ctxmgr.memory.extraction.findings import (
    ExtractorResult,
    LearntItem,
    as_line,
    file_tags,
    refused,
)
from ctxmgr.memory.extraction.own_words import answer_sentences, own_sentences
from ctxmgr.memory.extraction.tool_runs import (
    RECALLING,
    changed_paths,
    command_of,
    has_failed,
    only_looks,
    same_command,
)
from ctxmgr.memory.records.bodies import (
    ARTIFACTS_MAX,
    HINT_CHARS_MAX,
    VALUE_CHARS_MAX,
    Artifact,
    ArtifactType,
    Episode,
)
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "episodes"

WORDS_MIN: Final = 4
"""Of a request: fewer are ``continue`` or ``yes, do it``."""
FILES_SHOWN: Final = 5
COMMANDS_SHOWN: Final = 3
NARRATIVE_CHARS_MAX: Final = 8_000
TAGS_TRIED_MAX: Final = 100
"""Names of tags that are never closed, after which a message counts as one without tags."""
PART_CHARS_MAX: Final = 400

_COMMIT: Final = re.compile(r"^\[[^\]\n]{1,80}?\s([0-9a-f]{7,40})\]\s", re.MULTILINE)
_PULL: Final = re.compile(r"https://[\w.-]+/[\w./-]+/(?:pull|merge_requests)/\d+")
_PLAN: Final = re.compile(
    r"(?:thought:\s*)?(?:(?:now|next|first|then|okay|ok|so)[,:]?\s+)?"
    r"(?:let me|let's|let us|i'll|i will|i need to|i should|i'm going to|we need to"
    r"|run (?:it|this))\b",
    re.IGNORECASE,
)
_OPENED: Final = re.compile(r"<(\w{1,60})>")
_OPENING: Final = re.compile(
    r"^(?:consider the following[^:]*:|you are\b.*|task:)\s*", re.IGNORECASE
)


def extract_episode(exchange: Exchange) -> ExtractorResult:
    """Return the episode of an exchange, if it is one."""
    problem = _problem(exchange.user)
    if len(problem.split()) < WORDS_MIN:
        return _none(exchange, f"a request of fewer than {WORDS_MIN} words")
    runs = tuple(run for run in exchange.runs if run.tool.lower() not in RECALLING)
    changed = changed_paths(runs)
    ran = _commands(runs)
    outcome = _outcome(exchange)
    if not changed and not ran:
        return _none(exchange, "nothing was changed or run")
    if outcome is None:
        return _none(exchange, "the agent did not say how it ended")
    tried = _tried(changed, ran)
    narrative = f"{problem}\n{tried}\n{exchange.last_answer}"[:NARRATIVE_CHARS_MAX]
    return ExtractorResult(
        learnt=(
            LearntItem(
                body=Episode(
                    title=as_line(problem, HINT_CHARS_MAX),
                    full_narrative=narrative,
                    problem=as_line(problem, PART_CHARS_MAX),
                    fix=as_line(tried, VALUE_CHARS_MAX),
                    outcome=as_line(outcome, PART_CHARS_MAX),
                    artifacts=_artifacts(runs, changed),
                ),
                kind=MemoryKind.NOTE,
                original=narrative,
                extractor=NAME,
                turn=exchange.first_turn,
                tags=file_tags(changed),
            ),
        )
    )


def _none(exchange: Exchange, reason: str) -> ExtractorResult:
    if not exchange.user.strip():
        return ExtractorResult()
    item = refused(exchange.user, reason, extractor=NAME, turn=exchange.first_turn)
    return ExtractorResult(refused=(item,))


def _problem(message: str) -> str:
    """Return the first sentences of a request; of a task template, those of its first tag."""
    own = own_sentences(message)
    if not own:
        own = own_sentences(_OPENING.sub("", _first_tagged(message).strip()))
    text = ""
    for sentence in own:
        if len(text.split()) >= WORDS_MIN:
            break
        text = f"{text} {_OPENING.sub('', sentence)}".strip()
    return text


def _first_tagged(message: str) -> str:
    """Return the text of the first tag that is closed; empty if there is none."""
    tried: set[str] = set()
    for opened in _OPENED.finditer(message):
        tag = opened[1]
        if tag not in tried:
            end = message.find(f"</{tag}>", opened.end())
            if end >= 0:
                return message[opened.end() : end]
            tried.add(tag)
        if len(tried) >= TAGS_TRIED_MAX:
            break
    return ""


def _outcome(exchange: Exchange) -> str | None:
    """Return the first sentence of the last answer that says more than a heading or a plan."""
    said = [
        sentence
        for sentence in answer_sentences(exchange.last_answer)
        if len(sentence.split()) >= WORDS_MIN and not _PLAN.match(sentence)
    ]
    whole = [sentence for sentence in said if not sentence.endswith(":")]
    return next(iter((*whole, *said)), None)


def _commands(runs: tuple[ToolRun, ...]) -> list[str]:
    """Return the last commands that checked or made something."""
    ran: dict[str, bool] = {}
    for run in runs:
        command = command_of(run)
        if command is not None and not only_looks(command) and "\n" not in command.strip():
            ran[same_command(command)] = has_failed(run)
    shown = list(ran.items())[-COMMANDS_SHOWN:]
    return [f"`{as_line(command)}`{' failed' if failed else ''}" for command, failed in shown]


def _tried(changed: tuple[str, ...], ran: list[str]) -> str:
    parts = []
    if changed:
        more = f" and {len(changed) - FILES_SHOWN} more" if len(changed) > FILES_SHOWN else ""
        parts.append(f"changed {', '.join(changed[:FILES_SHOWN])}{more}")
    if ran:
        parts.append(f"ran {', '.join(ran)}")
    return "; ".join(parts)


def _artifacts(runs: tuple[ToolRun, ...], changed: tuple[str, ...]) -> tuple[Artifact, ...]:
    commits = [
        (ArtifactType.COMMIT, commit)
        for run in runs
        if "commit" in (command_of(run) or "")
        for commit in _COMMIT.findall(run.output)
    ]
    pulls = [(ArtifactType.PR, url) for run in runs for url in _PULL.findall(run.output[:2_000])]
    files = [(ArtifactType.FILE, path) for path in file_tags(changed)]
    found = dict.fromkeys((*commits, *pulls, *files))
    kept = [(kind, ref) for kind, ref in found if len(ref) <= HINT_CHARS_MAX]
    return tuple(
        Artifact(artifact_type=kind, artifact_ref=ref) for kind, ref in kept[:ARTIFACTS_MAX]
    )
