"""Record an answer as experience while it is streamed. Appends to the log of an ``XDB``."""

from ctxmgr.core.model import TextDelta
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.harness.loop_events import AnswerRestarted, LoopEvent, TurnStarted


class StreamRecorder:
    """Calls the hooks of an ``XDB`` with the events of the loop."""

    def __init__(self, hooks: WorkspaceHooks) -> None:
        self._hooks = hooks
        self._turn = 0

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case TurnStarted():
                self._turn = event.turn
                if event.user:
                    self._hooks.on_input(event.user, turn=self._turn)
            case TextDelta() if event.text:
                self._hooks.on_output_token(event.text, turn=self._turn)
            case AnswerRestarted():
                self._hooks.on_restart()
            case _:
                pass
