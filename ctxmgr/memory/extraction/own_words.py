"""The sentences that a user wrote in a message. Pure.

Left out is what others wrote: code blocks, quotations, text between tags (task templates and what
hooks inject are marked so), pasted output and prompts of a shell, and lines that cite a memory.
"""

import re
from typing import Final

MESSAGE_CHARS_MAX: Final = 20_000
"""Of a message that are read; longer ones are documents that were pasted."""

_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TAGGED: Final = re.compile(
    r"<([A-Za-z][\w.-]{0,60})(?:\s[^<>\n]{0,500})?>.*?(?:</\1\s*>|\Z)", re.DOTALL
)
_MEMORY_HEADING: Final = re.compile(
    r"^## (?:Needs attention|Relevant now|Background|Ask for more with expand\(id\))\s*$"
)
_CITATION: Final = re.compile(r"\[[0-9a-f]{8}\]\s*$|^- [0-9a-f]{8} ")
_PASTED: Final = re.compile(
    r"^\s*(?:"
    r">"  # a quotation
    r"|[➜\u276f$%#]\s"  # the prompt of a shell
    r"|[\w.@-]+[:~][^\s]*[$#]\s"
    r"|[+-]\s*\d+\s"  # a numbered diff
    r"|(?:diff --git|@@ |index [0-9a-f]{7}|\+\+\+ |--- )"
    r"|at \S+ \(.*\)|at \S+:\d+|File \".*\", line \d+|Traceback \(most recent"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[\w+\] |\w*(?:Error|Exception|Warning): "
    r"|[\w./-]+:\d+:\d*"
    r"|['\"]?/.+\.(?:png|jpe?g|gif|webp|pdf|mp4)['\"]?\s*$"
    r"|/\w*\s*$"  # a command of the harness
    r"|\|.*\|\s*$"
    r")"
)
_INDENTED_CODE: Final = re.compile(r"^(?: {4,}|\t)\S")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])[\"')\]]*\s+(?=\S)")
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_LETTERS: Final = re.compile(r"[^\W\d_]")
LETTER_SHARE_MIN: Final = 0.5
"""Of a line of prose; tables, dumps and box drawings have fewer letters."""


def own_sentences(message: str) -> list[str]:
    """Return what the user said, sentence by sentence."""
    text = message[:MESSAGE_CHARS_MAX].replace("\u2019", "'")
    text = _TAGGED.sub("\n", _FENCED.sub("\n", text))
    found = []
    for line in _own_lines(text):
        # Rules look for words beside spaces: long runs of spaces would take them quadratic time.
        found += _SENTENCE_END.split(" ".join(_BULLET.sub("", line).split()))
    return [sentence for sentence in found if sentence]


def answer_sentences(answer: str) -> list[str]:
    """Return what a model said in prose, sentence by sentence."""
    return own_sentences(answer)


def _own_lines(text: str) -> list[str]:
    lines, in_memory = [], False
    for line in text.splitlines():
        if _MEMORY_HEADING.match(line):
            in_memory = True
        elif not line.strip():
            in_memory = False
        elif not in_memory and _is_prose(line):
            lines.append(line)
    return lines


def _is_prose(line: str) -> bool:
    if _PASTED.match(line) or _INDENTED_CODE.match(line) or _CITATION.search(line):
        return False
    visible = [char for char in line if not char.isspace()]
    letters = len(_LETTERS.findall(line))
    return letters >= LETTER_SHARE_MIN * len(visible)
