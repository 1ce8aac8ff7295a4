"""What is said about people, for their files. No I/O."""

import re
from collections.abc import Iterable
from typing import Final

from ctxmgr.core.model import Flow
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    ENTRIES_MAX,
    Extraction,
    ExtractionSource,
    asked,
    change,
    turn_of,
)
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange, slug
from ctxmgr.knowledge.lifecycle.extractors.sentences import sentences

_NAME: Final = r"(?P<name>[A-Z][a-zà-ÿ]+(?: [A-Z][a-zà-ÿ'-]+){0,2})"
_ABOUT: Final = re.compile(
    rf"\b{_NAME} (?:is (?:our|my|the|their|his|her) [a-z]|works? (?:at|on|in|for|with)\b"
    r"|reports to\b|joined\b|leads\b|left the\b|is responsible for\b|is on (?:vacation|leave)\b)"
)
_PREFERS: Final = re.compile(
    rf"\b{_NAME} (?:prefers|likes|dislikes|hates|wants|does not like|doesn't like|asked us to)\b"
)
_NOT_NAMES: Final = re.compile(
    r"(?:The|This|That|It|He|She|They|We|You|There|Here|What|Who|Which|Everything|Nothing|Nobody"
    r"|Everybody|Someone|Something|Each|Both|All|One|If|When|Then|So|But|And|Also|Note|Now|Today"
    r"|Yesterday|Tomorrow|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|January|February"
    r"|March|April|May|June|July|August|September|October|November|December|User|Agent|Python"
    r"|Docker|Git|Linux|Postgres|Redis|Windows|Production|Staging|Code)\b.*"
)
_TOOLS_AFTER: Final = re.compile(
    r"\b(?:is the (?:default|name|value|file|function|class|command))\b"
)


class PeopleExtractor:
    """Finds sentences about people whom they name."""

    name = "people"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        count = 0
        for sentence in sentences(source.transcript):
            prefers = _PREFERS.search(sentence.text)
            about = prefers or _ABOUT.search(sentence.text)
            if about is None or _NOT_NAMES.fullmatch(about["name"]):
                continue
            if _TOOLS_AFTER.search(sentence.text) or count >= ENTRIES_MAX:
                continue
            count += 1
            yield change(
                self,
                source,
                path=f"knowledge/people/{slug(about['name'])}.md",
                section="Communication" if prefers else "Context",
                content=sentence.text,
                turn=sentence.turn,
            )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        def read(entry: dict[str, str]) -> KnowledgeChange | None:
            name = slug(entry["name"])
            if not name or not entry["note"]:
                return None
            return change(
                self,
                source,
                path=f"knowledge/people/{name}.md",
                section="Communication" if entry["kind"] == "communication" else "Context",
                content=entry["note"],
                turn=turn_of(source, entry["note"]),
            )

        return asked(
            self,
            source,
            wanted="List what was said about people by name, each as an object with the texts"
            ' "name", "note" and "kind" ("communication" for how they want to be talked to, else'
            ' "context").',
            fields=("name", "note", "kind"),
            read=read,
        )
