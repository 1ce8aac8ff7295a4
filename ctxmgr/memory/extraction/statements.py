"""What sentences have in common, whichever extractor reads them: is it one to learn from? Pure.

lasting      neither a question nor a condition, nor about something that only "this" names
reason       what stands after "because"
scope        the language or part of the project that it is about
"""

import re
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.memory.extraction.findings import as_line
from ctxmgr.memory.records.bodies import VALUE_CHARS_MAX, Fact

WORDS_MIN: Final = 3
WORDS_MAX: Final = 60
"""A longer sentence holds more than one thought, and the rules would guess which."""

KEY_WORDS_MAX: Final = 8

_QUESTION: Final = re.compile(
    r"\?\s*[\"')\]]*$"
    r"|^(?:(?:ok(?:ay)?|so|and|but|hm+|well|wait|also)[,.]?\s+)*"
    r"(?:what|why|how|when|where|who|which|should|shall|could|can|would|is|are|do|does|did|will"
    r"|have|has|isn't|aren't|don't (?:we|you|i)|doesn't|can't|any)\s+(?!not\b)",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"\b(?:maybe|perhaps|might|not sure|i guess|i wonder|wondering|whether|hypothetically|what if"
    r"|i think|i suppose|or should|for example|e\.g\.)\b",
    re.IGNORECASE,
)
_THIS_ONCE: Final = re.compile(
    r"\b(?:this|that|these|those|it|here|there|above|below|right now|for now|just now"
    r"|this time|today|again|once more|yet|still|already)\b",
    re.IGNORECASE,
)
_REASON: Final = re.compile(
    r"[,;:.]?\s*\b(?:because|since|so that|as otherwise|otherwise|the reason (?:is|being))\b"
    r"[:,]?\s+(?P<reason>.+)$",
    re.IGNORECASE,
)
_SCOPE: Final = re.compile(
    r"\b(?:in|for|with)\s+(?:our\s+|the\s+|all\s+)?"
    r"(?P<scope>python|typescript|javascript|rust|golang|java|kotlin|swift|ruby|php|c\+\+|c#|sql|css|html"
    r"|bash|shell scripts?|yaml|json|markdown|dockerfiles?|unit tests|integration tests|tests|docs"
    r"|documentation|production|staging|development|ci)\b(?:\s+(?:code|files?|projects?|modules?))?",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(
    r"^(?:(?:ok(?:ay)?|so|and|but|also|then|well|yes|yeah|no(?=,)|alright|right|hm+|omfg|omg|please|pls|dude"
    r"|my dude|btw|fyi|note|important|reminder|hey|actually|look|listen)\b[,:.!]*\s+)+",
    re.IGNORECASE,
)
ASKED_TO_REMEMBER: Final = re.compile(
    r"^(?:remember(?: that|:)|keep in mind(?: that|:)?|note that|for reference[,:])\s+",
    re.IGNORECASE,
)
_DETERMINER: Final = re.compile(r"^(?:a|an|the|our|any|all|some|your|my)\s+", re.IGNORECASE)


def without_lead(sentence: str) -> str:
    """Return a sentence without the words that only open it: ``ok, so please …``."""
    return _LEAD.sub("", sentence.strip())


def why_not(sentence: str, *, about_this: bool = True) -> str | None:
    """Return why a sentence is not learnt from; None if nothing speaks against it.

    With ``about_this``, one that is about something only the conversation shows is refused, too.
    """
    count = len(sentence.split())
    if count < WORDS_MIN:
        return f"fewer than {WORDS_MIN} words"
    if count > WORDS_MAX:
        return f"more than {WORDS_MAX} words"
    if _QUESTION.search(sentence):
        return "a question"
    if _OPEN.search(sentence):
        return "not certain"
    if about_this and (found := _THIS_ONCE.search(sentence)) is not None:
        return f"about something that only the conversation shows ({found[0].lower()!r})"
    return None


def split_reason(sentence: str) -> tuple[str, str | None]:
    """Return a statement and its reason, if it gives one."""
    found = _REASON.search(sentence)
    if found is None or not sentence[: found.start()].strip():
        return sentence.strip().rstrip(".!"), None
    reason = as_line(found["reason"].rstrip(".!"), VALUE_CHARS_MAX)
    return sentence[: found.start()].strip().rstrip(".!,;:"), reason or None


def fact_from(key: str, value: str, *, statement: str, reason: str | None) -> Fact | str:
    """Return the fact that a statement makes; why there is none if it cannot be stored."""
    try:
        return Fact(
            key=key_of(key),
            value=as_line(value, VALUE_CHARS_MAX),
            scope=scope_of(statement),
            reason=reason,
        )
    except Incorrect as error:
        return f"no fact can be made of it: {error}"


def scope_of(sentence: str) -> str | None:
    """Return what a statement is limited to, if it says so."""
    found = _SCOPE.search(sentence)
    return None if found is None else found["scope"].lower()


def key_of(text: str) -> str:
    """Return the words that name what a statement is about."""
    line = _DETERMINER.sub("", as_line(text.strip(" \t\"'.,;:!")))
    return as_line(" ".join(line.split()[:KEY_WORDS_MAX]).strip("\"'.,;:!"))
