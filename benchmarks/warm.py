"""Programs started by a process that has the heavy libraries in memory already: a start costs a fork, not imports.

Every line of its input is a start as JSON, `{"argv": [module, option, …], "log": file}`. It answers with the pid, and
when the program has ended with its status (negative: the signal that ended it), a line each. Of the project itself
nothing is loaded beforehand: a program finds the memory that it would find in a process of its own.
"""

import importlib
import json
import os
import runpy
import sys
from typing import NoReturn

LIBRARIES = (
    "accelerate",
    "diffusers.models.unets.unet_2d",
    "diffusers.models.autoencoders.autoencoder_kl",
    "mlflow",
    "optuna",
    "sklearn.datasets",
    "torch_fidelity",
    "torch_pruning",
)


def main() -> None:
    """Start one program after the other."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        if (pid := os.fork()) == 0:
            carry_out(asked["argv"], asked["log"])
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def carry_out(argv: list[str], log: str) -> NoReturn:
    """Be that program, in a session of its own."""
    os.setsid()
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for ours, standard in ((null, 0), (file, 1), (file, 2)):
        os.dup2(ours, standard)
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
