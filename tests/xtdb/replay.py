"""Run the comparer of the recordings in its folder, without one of its waits.

    python replay.py URL scenario.jsonl expected.jsonl --quiet

After each of some 900 exchanges it watches the connection for 50 ms to record if it stays open.
Only making recordings needs that; a comparison ignores it. Here the connection is checked
once instead. Only statistics, which the engine updates some time after a transaction, are
polled until stable. A separate program, because the comparer finds its modules by location.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

SETTLED = 4
"""Equal answers in a row that count as stable."""
TRIES_MAX = 60
PAUSE_S = 0.5


def main() -> int:
    """Compare as compare.py does, with its arguments, output and exit status."""
    sys.path.insert(0, str(Path.cwd()))
    record = importlib.import_module("record")
    watch = record.Conn.state

    def look(connection: Any, _seconds: float) -> object:
        return watch(connection, 0.0)

    exchange = record.Conn.exchange

    def settled(connection: Any, method: str, target: str, headers: Any, body: Any) -> object:
        answers = [exchange(connection, method, target, headers, body)]
        if "attribute-stats" in target:
            while len(answers) < TRIES_MAX and not _same(answers[-SETTLED:]):
                time.sleep(PAUSE_S)
                answers.append(exchange(connection, method, target, headers, body))
        return answers[-1]

    record.Conn.state = look
    record.Conn.exchange = settled
    status: int = importlib.import_module("compare").main()
    return status


def _same(answers: list[Any]) -> bool:
    bodies = [repr(answer.get("body")) for answer in answers]
    return len(bodies) == SETTLED and len(set(bodies)) == 1


if __name__ == "__main__":
    sys.exit(main())
