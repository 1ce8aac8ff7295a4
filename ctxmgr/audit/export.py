"""Export a log for a third party, who verifies it without ctxmgr. Writes a folder.

    records.jsonl        all records, one per line, as they are stored
    checkpoints.jsonl    the signed checkpoints, as they are stored
    audit.json           the id of the log, its public key, the last record and checkpoint

`docs/verify_audit_export.py` verifies it.
"""

import os
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from ctxmgr.audit.folder import CHECKPOINTS, CONFIGURATION, AuditFolder
from ctxmgr.audit.verify import Progress, read_segment
from ctxmgr.errors import Incorrect, Unavailable

RECORDS: Final = "records.jsonl"


def export(folder: AuditFolder, target: Path, *, progress: Progress) -> int:
    """Write the records up to now; return how many bytes they take."""
    configuration = folder.configuration()
    with folder.locked():
        head, checkpoints = folder.head(), folder.read(CHECKPOINTS)
    segments = [number for number in folder.segments() if number <= head.segment]
    written = 0
    try:
        target.mkdir(mode=0o700, parents=True)
        with _created(target / RECORDS) as records:
            for done, segment in enumerate(segments):
                size = head.offset
                if segment < head.segment:
                    size = folder.segment(segment).stat().st_size
                written += records.write(read_segment(folder, segment, size))
                progress(done + 1, len(segments))
        with _created(target / CHECKPOINTS) as file:
            file.write(checkpoints)
        with _created(target / CONFIGURATION) as file:
            values = {
                "log_id": configuration.log_id,
                "public_key": configuration.public_key,
                "records": head.number,
                "checkpoints": checkpoints.count(b"\n"),
            }
            file.write(orjson.dumps(values))
    except FileExistsError:
        raise Incorrect(f"{target} exists already: choose another name") from None
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from error
    return written


def _created(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
