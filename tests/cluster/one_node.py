"""A real Slurm of one node on loopback: munged, slurmctld and slurmd from Debian's packages, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.server import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
START_SECONDS = 60
LONGEST_LIFE_SECONDS = 3600
PARTITION = "short"
DEFAULT_PLACE = Path("/etc/slurm/slurm.conf")


def missing() -> str | None:
    """Return why Slurm cannot be started here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {absent[0]}; Debian: apt-get install slurm-wlm munge"
    if DEFAULT_PLACE.is_symlink() or DEFAULT_PLACE.exists():
        return f"{DEFAULT_PLACE}: this machine has a Slurm of its own, or killed tests have left it"
    return None if os.geteuid() == 0 else "daemons of Slurm are started by root"


def configuration(folder: Path, controller: int, node: int) -> str:
    """slurm.conf: jobs share the node by core and memory; two GPUs are declared, though there are none."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    host = socket.gethostname()
    return f"""
ClusterName=unequal
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=2,batch_sched_delay=1
ReturnToService=2
KillWait=120
MinJobAge=7200
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName={PARTITION} Nodes={host} Default=NO MaxTime=1-12:00:00 State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start the daemons; gives the environment in which Slurm's commands reach them, and ends them at last."""
    for name in ("state", "spool"):
        (folder / name).mkdir(mode=0o755, parents=True)
    (folder / "slurm.conf").write_text(configuration(folder, free_port(), free_port()), encoding="utf-8")
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n", encoding="utf-8")
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    munged = ["munged", "--foreground", "--force"]
    for option, file in (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed")):
        munged.append(f"--{option}={folder}/munge.{file}")
    with ExitStack() as running:
        running.enter_context(found_by_jobs(folder / "slurm.conf"))
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", socket.gethostname()]):
            running.enter_context(daemon(command, folder, environment))
        wait_for_node(environment)
        running.callback(end_jobs, environment)
        yield environment


@contextmanager
def found_by_jobs(configuration: Path) -> Iterator[None]:
    """Link the configuration at the default place, the only one that jobs read."""
    DEFAULT_PLACE.parent.mkdir(exist_ok=True)
    DEFAULT_PLACE.symlink_to(configuration)
    try:
        yield
    finally:
        DEFAULT_PLACE.unlink()


@contextmanager
def daemon(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A program in the foreground, ended with the block, or by itself if we are killed before."""
    with (folder / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            ["timeout", str(LONGEST_LIFE_SECONDS), *command], stdout=log, stderr=log, env=environment, cwd=folder
        )
    try:
        time.sleep(0.5)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_jobs(environment: dict[str, str]) -> None:
    """Cancel the jobs of failed tests, which outlive the daemons."""
    subprocess.run(["scancel", "--full", "--signal=KILL", f"--partition={PARTITION}"], env=environment, check=False)
    time.sleep(2)


def wait_for_node(environment: dict[str, str]) -> None:
    """Wait until the node takes jobs."""
    command = ["sinfo", "--noheader", "--format=%T"]
    for _ in range(START_SECONDS * 2):
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if said.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    raise RuntimeError(f"the node takes no jobs: {said.stdout}{said.stderr}")
