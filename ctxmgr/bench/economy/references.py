"""Finds what a prompt promises and does not show.

    dangling    references that do not resolve inside the prompt
    withheld    texts that were asked for, and are not whole in the next prompt

``[12 lines as in #5 read a.py]`` resolves if a text of ``#5`` shows these lines in the same prompt,
one after another.
"""

from collections import defaultdict

from ctxmgr.core.economy.folding import TextSpan, visible_spans
from ctxmgr.core.economy.slot_texts import SlotText
from ctxmgr.core.economy.stream import Stream


def dangling(stream: Stream) -> list[str]:
    """Return the labels of the references that do not resolve, in the stream as it is shown now."""
    texts: defaultdict[str, list[SlotText]] = defaultdict(list)
    referring: list[SlotText] = []
    for text in stream.slots.all():
        texts[text.slot.label].append(text)
        if text.view is not None and any(span.as_in for span in text.view.spans):
            referring.append(text)
    return [
        span.as_in
        for text in referring
        if text.view is not None
        for span in text.view.spans
        if span.as_in is not None
        and not any(
            _referred(text.slot.content, span) in shown
            for target in texts[span.as_in]
            if target is not text
            for shown in _runs(target)
        )
    ]


def withheld(stream: Stream, prompt: str) -> list[str]:
    """Return the handles of texts that are new in a prompt, should be whole, and are not."""
    return [
        text.slot.handle
        for text in stream.slots.awake
        if text.slot.first_prompt == stream.number
        and text.slot.message
        and stream.policy.shown_whole(text.slot.kind, tokens=text.whole_tokens)
        and text.slot.content not in prompt
    ]


def _referred(content: str, span: TextSpan) -> str:
    """Return what a reference stands for; a part of a long line is within one."""
    text = content[span.start : span.end]
    return _ended(text) if span.whole else text


def _runs(text: SlotText) -> list[str]:
    """Return the runs of lines that a text shows."""
    runs, end = [""], None
    for span in visible_spans(text.slot.content, text.view):
        if end is not None and span.start != end:
            runs.append("")
        runs[-1] += text.slot.content[span.start : span.end]
        end = span.end
    return [_ended(run) for run in runs]


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
