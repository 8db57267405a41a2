"""Programs started by a process that has the heavy libraries in memory already: a start costs a fork, not imports."""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

LIBRARIES = (
    "accelerate",
    "alembic.command",
    "diffusers.models.autoencoders.autoencoder_kl",
    "diffusers.models.unets.unet_2d",
    "dvc.cli.parser",
    "dvc.repo",
    "matplotlib.pyplot",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.tracking",
    "optuna",
    "sklearn.datasets",
    "snakemake.cli",
    "sqlalchemy.dialects.sqlite",
    "torch_fidelity",
    "torch_pruning",
)
#: Bytes of a request's length.
LENGTH = 8
#: Between two looks at whether the watched process is there.
LOOK_SECONDS = 1.0
#: Exit status of a program that ends in order.
status: int | None = None


def main(path: str, watched: int) -> None:
    """Start whatever is asked for, many programs at once."""
    atexit.register(leave)  # before the libraries register anything: it comes last
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{path}.new")
        listening.listen()
        os.rename(f"{path}.new", path)  # where it is found, it answers
        for name in LIBRARIES:
            importlib.import_module(name)
        gc.freeze()  # or each program would look through all of that for what nobody needs, and copy it in doing so
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # attendants are waited for by nobody
        listening.settimeout(LOOK_SECONDS)
        while Path(f"/proc/{watched}").exists():
            try:
                asking, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                attend(asking)
            asking.close()
    shutil.rmtree(Path(path).parent)


def attend(asking: socket.socket) -> NoReturn:
    """Start a program, and report its end to the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    start, streams, _, _ = socket.recv_fds(asking, LENGTH, 3)
    with asking.makefile("rb") as content:
        asked = json.loads(content.read(int.from_bytes(start, "big")))
    if (pid := os.fork()) == 0:
        asking.close()
        carry_out(asked, streams)
    asking.sendall(b"%d\n" % pid)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, asking], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        asking.sendall(b"%d\n" % status)
    os._exit(0)


def carry_out(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be that program, in a session of its own."""
    import torch

    os.setsid()
    for standard, ours in enumerate(streams):
        os.dup2(ours, standard)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    # Libraries have read it when they were loaded.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    words = asked["words"]
    is_safe = words[0] == "-P"  # the folder is no place of modules then
    option, program, *arguments = words[is_safe:]
    sys.argv, sys.orig_argv = [program if option == "-m" else option, *arguments], [sys.executable, *words]
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [asked["folder"], *(os.path.abspath(place) for place in places if place)][is_safe:]
    sys.modules.pop("sitecustomize", None)
    with suppress(ModuleNotFoundError):  # a new Python reads it as it starts
        importlib.import_module("sitecustomize")
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        sys.exit(0)
    except SystemExit as ending:
        global status
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        raise


def leave() -> None:
    """End a program before Python takes the libraries apart, piece by piece."""
    if status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
