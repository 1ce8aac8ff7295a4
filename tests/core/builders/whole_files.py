"""Files that appear with all of their content. Writes files."""

from pathlib import Path


def replace_file(path: Path, content: str | bytes) -> None:
    """Write in one step: a file that is truncated, then written may be seen empty in between."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content if isinstance(content, bytes) else content.encode())
    beside.replace(path)
