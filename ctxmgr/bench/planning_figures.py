"""Planning: how long one turn's plan takes in a session of a thousand objects."""

from statistics import median
from time import process_time
from typing import Final

from ctxmgr.bench.report import Figure
from ctxmgr.core.folding import Count
from ctxmgr.core.parts import CallRef, ShownCall
from ctxmgr.core.policies import Economy
from ctxmgr.core.stream import Stream
from ctxmgr.core.stream_plans import Planning

OBJECTS: Final = 1_000
BOUND_MS: Final = 2.0
_TURNS_TIMED: Final = 50


def planning_figures(*, count: Count) -> list[Figure]:
    """Time the plans of the last turns; CPU time, since the machine may be busy."""
    stream = Stream(Economy(), count=count)
    planning = Planning(stream)
    taken = []
    for number in range(1, OBJECTS + 1):
        _one_turn(stream, number)
        started = process_time()
        planning.next_plan(fixed=int)
        taken.append(1000 * (process_time() - started))
    last = taken[-_TURNS_TIMED:]
    value = median(last)
    return [
        Figure(
            what=f"planning one turn, {OBJECTS} objects, ms",
            value=value,
            bound=f"at most {BOUND_MS:g} ms",
            meets=value <= BOUND_MS,
            against="",
            note=f"slowest of {_TURNS_TIMED}: {max(last):.1f} ms, with the folds of a batch",
        )
    ]


def _one_turn(stream: Stream, number: int) -> None:
    call_id = f"c{number}"
    lines = [f"def function_{number}_{at}(argument): ..." for at in range(10)]
    ref = CallRef(object_id=call_id, tool="read", status="ok")
    call = ShownCall(ref=ref, call_id=call_id, args={"path": f"src/file_{number}.py"})
    stream.close("", (call,), outputs={call_id: "\n".join(lines)})
