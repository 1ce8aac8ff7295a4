"""The comparer of the recordings, run in the folder it lies in, without one of its waits.

    python replay.py URL scenario.jsonl expected.jsonl --quiet

After each of some 900 exchanges it watches the connection for 50 ms, to note whether it stays open.
That is for making recordings: the comparer never looks at the note. Here the connection is looked
at and not watched. A program of its own, because the comparer's modules are found by their place.
"""

import importlib
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Compare as compare.py does; its arguments, its output, its exit status."""
    sys.path.insert(0, str(Path.cwd()))
    record = importlib.import_module("record")
    watch = record.Conn.state

    def look(connection: Any, _seconds: float) -> object:
        return watch(connection, 0.0)

    record.Conn.state = look
    status: int = importlib.import_module("compare").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
