"""Stands in PATH as `python`; what `-m` and `-c` would run, also behind `-P`, the warm process runs, all else the real
Python.

Before a user's words stand two that the file in PATH adds: the socket of `harness/warm.py`, and the real Python.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

#: Bytes of a request's length.
LENGTH = 8


def ask(
    path: str, words: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int]
) -> socket.socket:
    """Have a program started; what answers: its pid, and its status when it has ended, a line each."""
    content = json.dumps({"words": words, "folder": folder, "environment": dict(environment)}).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    socket.send_fds(server, [len(content).to_bytes(LENGTH, "big")], streams)
    server.sendall(content)
    return server


def main(path: str, real: str, words: list[str]) -> None:
    """Be that program to all outside: its streams, its status, the signals that it is sent."""
    if words[words[:1] == ["-P"] :][:1] not in (["-m"], ["-c"]):
        os.execv(real, [real, *words])
    answers = ask(path, words, os.getcwd(), os.environ, (0, 1, 2)).makefile()
    pid = int(answers.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int(answers.readline())
    if status < 0:
        with suppress(OSError):  # of SIGKILL there is no other way
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
