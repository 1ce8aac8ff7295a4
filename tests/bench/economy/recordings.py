"""Small synthetic sessions for tests."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.core.builders.streams import long_output


def message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "text": text}


def call(tool: str, **args: Any) -> str:
    return json.dumps({"tool": tool, "args": args})


def session(name: str = "one", *, calls: int = 12) -> dict[str, Any]:
    """An agent that reads files, edits each, and runs a command it read about before."""
    messages = [message("system", "Be careful."), message("user", "fix every file")]
    for number in range(calls // 3):
        path = f"src/module_{number}.py"
        text = long_output(f"module{number}", lines=60)
        old_name = f"value_module{number // 3}_{20 + number}"
        old, new = f"the value_module{number}_7", f"another_{number}\n" * 40
        messages += [
            message("assistant", "I look.\n" + call("read", path=path)),
            message("tool", text),
            message("assistant", call("edit", path=path, oldText=old, newText=new)),
            message("tool", f"Replaced text in {path}."),
            message("assistant", call("bash", command=f"pytest -k {old_name}")),
            message("tool", long_output(f"test{number}", lines=90)),
        ]
    return {"id": name, "messages": messages}


def folder(path: Path, **files: list[dict[str, Any]]) -> Path:
    """Write sessions to files of these names."""
    for name, sessions in files.items():
        lines = "".join(json.dumps(recorded) + "\n" for recorded in sessions)
        with gzip.open(path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(lines)
    return path
