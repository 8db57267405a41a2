"""A training by several processes that is signalled to stop at a step, and takes its time to save.

Started by test_processes_train.py.
"""

import os
import signal
import sys
import time
from pathlib import Path

from train_in_processes import InDouble, trainer_of

from unequal.models.denoiser import Denoiser
from unequal.pipeline.program import errors_reported
from unequal.runtime import processes
from unequal.runtime.tensor_files import Saved
from unequal.training import accelerator, checkpoint
from unequal.training.batches import Batch
from unequal.training.objectives import Losses

SAVING_SECONDS = 2.0


class Telling(InDouble):
    steps = 0

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        self.steps += 1
        if self.steps == int(sys.argv[2]) and processes.rank() == 0:
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(0.5)
        return super().forward(denoiser, batch)


write = checkpoint.write_checkpoint


def write_slowly(path: Path, state: Saved) -> None:
    time.sleep(SAVING_SECONDS)
    write(path, state)


if __name__ == "__main__":
    checkpoint.write_checkpoint = write_slowly
    # However slow the machine is, they talk after steps 1, 11, 21 …
    accelerator.SECONDS_BETWEEN = 1000.0
    with errors_reported("training"):
        trainer_of(Path(sys.argv[1]), int(sys.argv[3]), Telling).run()
