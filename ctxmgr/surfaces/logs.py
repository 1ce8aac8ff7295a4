"""Where the command line's logs go: standard error, for people or as JSON lines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


def set_up_logging(verbose: int, *, as_json: bool) -> None:
    """Log our own loggers at the level asked for; other libraries' only from -vv on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else _PLAIN)
    level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING if verbose < len(_LEVELS) - 1 else level)
    logging.getLogger("ctxmgr").setLevel(level)


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


_PLAIN: Final = logging.Formatter("%(levelname)s %(name)s: %(message)s")
