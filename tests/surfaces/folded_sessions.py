"""A sample session under economy, with folded outputs, a failed call and a changed file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ctxmgr
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta
from tests.surfaces.worked_sessions import mounts

MODEL: Final = "claude-sonnet-4-5"
STEPS: Final = 60
SID: Final = "repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A sample session and facts about it."""

    url: str
    sid: str
    log: str
    """The whole output of the call that is folded in the later prompts."""
    sent: tuple[str, ...]


def _log() -> str:
    lines = [f"step {at:03}: compiled module_{at} in {at * 7 % 90} ms" for at in range(STEPS * 6)]
    lines[200] = "step 200: WARNING retry_budget is exhausted, using backoff_ceiling"
    return "\n".join(lines) + "\n"


class _Repair:
    """Turns of the session, each with its tool calls."""

    def __init__(self, session: LiveSession) -> None:
        self.session = session
        self.sent: list[str] = []
        self.calls = 0

    async def turn(
        self, user: str, answer: str, *calls: tuple[str, dict[str, Any], str, str]
    ) -> None:
        self.sent.append(await self.session.render(user, policy="economy"))
        parts = [text_part(answer)]
        for tool, args, output, status in calls:
            self.calls += 1
            name = f"{SID}-{self.calls}"
            outcome: Any = status
            await self.session.record(name, tool=tool, args=args, output=output, status=outcome)
            parts.append(toolcall_part(name, call_id=name, tool=tool, args=args))
        usage = {
            "input_tokens": 120,
            "cache_read_input_tokens": 900 * len(self.sent),
            "cache_creation_input_tokens": 400,
            "output_tokens": 80,
        }
        await self.session.end_turn(parts, meta=AssistantMeta(model=MODEL, usage=usage))


async def work_folded(url: str, project: Path) -> Folded:
    """Build, fail at the tests, edit and finish; the long output of the build is folded."""
    project.mkdir(parents=True)  # noqa: ASYNC240 (nothing else runs)
    (project / "README.md").write_text("# Pump\n\nRun `make` to build.\n", encoding="utf-8")
    code = "def pump(litres: int) -> int:\n    return litres * 2\n"
    log = _log()
    names = "--- a/pump.py\n+++ b/pump.py\n"
    diff = f"{names}@@ -1,2 +1,2 @@\n-    return litres\n+    return litres * 2\n"
    async with ctxmgr.connect(url, mounts=mounts(project), tracking=False) as client:
        session = await client.start(SID, system_prompt="You repair small programs. Be brief.")
        work = _Repair(session)
        await work.turn(
            "The pump delivers too little. Please fix it.",
            "I read the code and build it first.\n\n- `pump.py` first\n- then the **tests**",
            ("read", {"path": "/workspace/README.md"}, "# Pump\n\nRun `make` to build.\n", "ok"),
            ("bash", {"command": "make all 2>&1"}, log, "ok"),
        )
        await work.turn(
            "",
            "Now the tests.",
            ("bash", {"command": "pytest -q"}, "E   assert 2 == 4\n1 failed in 0.1 s\n", "fail"),
        )
        await work.turn(
            "",
            "I change the factor.",
            (
                "edit",
                {"path": "/workspace/pump.py", "oldText": "litres", "newText": code},
                "ok\n",
                "ok",
            ),
            ("bash", {"command": "git diff"}, diff, "ok"),
        )
        for number in range(4, 12):
            await work.turn(
                "", f"Check {number}.", ("bash", {"command": f"make check-{number}"}, log, "ok")
            )
        await work.turn("And the README?", "It is right already. Done.")
        await client.pause(SID)
    return Folded(url=url, sid=SID, log=log, sent=tuple(work.sent))
