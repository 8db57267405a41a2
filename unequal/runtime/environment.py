"""Environment of a process: no variables of another launcher, streams that may be closed, signals to stop.

docs/running.md names the variables that are read.
"""

import errno
import io
import os
import signal
import stat
import sys

#: Beginnings of variables by which launchers shape a training; settings say the same here. Others name MPI's processes.
LAUNCHERS = ("ACCELERATE_", "FSDP_", "FP8_", "MEGATRON_LM_", "PARALLELISM_CONFIG_", "TORCHELASTIC_")
MPI = ("OMPI_COMM_WORLD_", "PMI_", "MV2_COMM_WORLD_")
#: Number and place of processes, by torchrun and training operators.
RANKS = {f"{of}{what}" for of in ("", "LOCAL_", "GROUP_", "NODE_") for what in ("RANK", "WORLD_SIZE")}
RANKS |= {"MASTER_ADDR", "MASTER_PORT"}
#: Overrides of the arithmetic for float32 by NVIDIA's libraries.
TF32 = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
#: Signals to stop, of a person, a terminal or a cluster.
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Signals that a shell has a process ignore: the hang-up under `nohup`, Ctrl-C in the background of a script.
IGNORABLE = (signal.SIGHUP, signal.SIGINT)


class Stopped(BaseException):
    """The process was asked to end, by a signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def signals_to_stop() -> tuple[signal.Signals, ...]:
    """Return STOPS, without those that a shell has this process ignore."""
    return tuple(one for one in STOPS if one not in IGNORABLE or signal.getsignal(one) != signal.SIG_IGN)


def drop_variables(launched: bool) -> None:
    """Delete variables that would shape results, or have processes wait for others.

    Args:
        launched: whether `unequal.pipeline.launcher` has started this process, and set RANKS.
    """
    if TF32[1] in os.environ and (torch := sys.modules.get("torch")) is not None:
        torch.set_float32_matmul_precision("highest")  # it is read when PyTorch is loaded
    for name in list(os.environ):
        if name.startswith((*LAUNCHERS, *MPI)) or name in TF32 or (name in RANKS and not launched):
            del os.environ[name]


class LeftStream(io.FileIO):
    """A stream of bytes that drops what nobody reads: the reader of a pipe has left, or a terminal was closed."""

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except OSError as error:
            terminal = stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
            if error.errno != errno.EPIPE and not (error.errno == errno.EIO and terminal):
                raise
        return len(data)


def prepare_streams() -> None:
    """Have the process's own streams write any character, and outlive their reader.

    Characters that a terminal's encoding lacks are written as escapes; streams that were closed lead nowhere.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would be the stream
            os.open(os.devnull, os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is not None and stream is not getattr(sys, f"__{name}__"):
            continue  # a test or a notebook has replaced it
        if stream is not None:
            stream.flush()
        encoding = "utf-8" if stream is None else stream.encoding
        raw = io.BufferedWriter(LeftStream(number, "w", closefd=False))  # type: ignore[type-var]
        lines = number == 2 or raw.isatty()
        setattr(sys, name, io.TextIOWrapper(raw, encoding, errors="backslashreplace", line_buffering=lines))
