"""`ctxmgr`, run by a process that has imported everything already: see ``commands``.

Runs as a program with bare Python: it passes its arguments, environment, folder and standard
streams to the process that forks, hands on signals, and ends as the command ends.
"""

import marshal
import os
import signal
import socket
import sys
from types import FrameType

LENGTH_BYTES = 8


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    asked = marshal.dumps((sys.argv[2:], dict(os.environb), os.getcwdb(), _umask()))  # noqa: PTH109
    socket.send_fds(connection, [len(asked).to_bytes(LENGTH_BYTES, "big")], [0, 1, 2])
    connection.sendall(asked)
    replies = connection.makefile("r")
    process_id = int(replies.readline())

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(process_id, number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, pass_on)
    code = int(replies.readline())
    if code < 0:  # a signal ended it
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    main()
