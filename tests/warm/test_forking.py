"""The process that forks commands for other tests."""

import marshal
import os
import socket
import subprocess
from pathlib import Path

from tests.warm.commands import ctxmgr
from tests.warm.launcher import LENGTH_BYTES

ASKED = marshal.dumps((["--version"], {}, b"/", 0o077))


def test_a_launcher_that_is_killed_ends_nothing_else() -> None:
    """Tests kill what they start, at any moment; later ones need the process."""
    command = ctxmgr()
    for sent in (None, b"", ASKED[:-1], ASKED):
        with (
            socket.socket(socket.AF_UNIX) as connection,
            Path(os.devnull).open("r+b", buffering=0) as nowhere,
        ):
            connection.connect(command[-1])
            if sent is not None:
                length = len(ASKED).to_bytes(LENGTH_BYTES, "big")
                socket.send_fds(connection, [length], [nowhere.fileno()] * 3)
                connection.sendall(sent)

    shown = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=True)

    assert shown.stdout.startswith(b"ctxmgr")
