"""Read lenses along a stream of tokens. Pure.

A token is often a part of a word. The lenses are asked when a word ends; the tokens in between
have the reading of the words before them, so that a token costs almost nothing.
"""

from ctxmgr.experience.lenses.lens import Lenses, LensReading, Moment

TEXT_CHARS_MAX = 1_000
"""Characters before a token that lenses see, which is more than the words that they look at."""


class LensStream:
    """The lenses on one stream: an answer, or a session's text."""

    def __init__(self, lenses: Lenses) -> None:
        self._lenses = lenses
        self._text = ""
        self.reading = LensReading(all={}, visible={})
        """The last one; before the first word ends, no lens was asked."""

    def read(self, token: str) -> LensReading:
        """Return what the lenses say after this token."""
        ends_word = not token[:1].isalnum() or not token[-1:].isalnum()
        self._text = (self._text + token)[-TEXT_CHARS_MAX:]
        if ends_word and token:
            # the last word may go on; a token that begins with a space ends the one before it
            complete = self._text if not token[-1:].isalnum() else self._text[: -len(token.strip())]
            self.reading = self._lenses.read(Moment(text=complete))
        return self.reading

    def end(self) -> LensReading:
        """Return what the lenses say about the whole text, its last word included."""
        self.reading = self._lenses.read(Moment(text=self._text))
        return self.reading
