"""The training loop of diffusion models; there is no other.

What distinguishes trainings is passed to it: sampler, objective, optimizer.

`Trainer.run` is the loop, `Trainer.train_step` one optimizer step. To resume, run the same training again: step s sees
the same batch whether or not the process was stopped before it, and the checkpoint holds all other state.
"""

import json
import signal
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from unequal.errors import Diverged, UserError
from unequal.models.denoiser import Denoiser
from unequal.randomness import Stream, torch_seed
from unequal.runtime.devices import memory_format
from unequal.runtime.environment import Stopped
from unequal.runtime.files import write_bytes
from unequal.runtime.processes import describe_stop, stop_deferred
from unequal.runtime.progress import progress
from unequal.runtime.tensor_files import Saved, digest_of
from unequal.settings.recipe import Optimizer
from unequal.settings.training import Runtime, Training
from unequal.training.accelerator import StopSync, accelerator_of, forward_of, utilisation_of
from unequal.training.averaging import Averages
from unequal.training.batches import BatchSource, Feedback, effective_weighting
from unequal.training.checkpoint import (
    LOG,
    CheckpointWriter,
    LogInterval,
    Snapshot,
    Snapshots,
    Trained,
    TrainingState,
    add_prefix,
    read_checkpoint,
    strip_prefix,
)
from unequal.training.objectives import Objective
from unequal.training.optimizer import (
    build_optimizer,
    evaluated_weights,
    load_moments,
    moments,
    momentum,
    reached_milestones,
    set_schedule,
)

if TYPE_CHECKING:
    from unequal.training.pictures import Pictures

CHECKPOINT = "checkpoint.safetensors"
#: Prefix in a checkpoint of the moments of what the objective learns.
MOMENTS_OF_OBJECTIVE = "objective_optimizer."
Log = Callable[[dict[str, float], int], None]


class Trainer:
    """Trains a network in place and leaves its averaged weights in it.

    SIGTERM and Ctrl-C end it after the current step, whose state is saved first; so is that of the last step.

    Args:
        denoiser: of the network, on any device; it is moved to the accelerator's.
        source: of batches.
        objective: (denoiser, batch) → Losses; on the accelerator's device.
        optimizer, training, runtime: settings.
        images: the budget, which includes the images that the sampler measures; the last batch may exceed it.
        snapshots: images seen after which the averaged weights are stored.
        keep_state: store with them the state from which a further training resumes.
        carried: moments that the optimizer begins with, by their parameters' names; None: none.
        pictures: grids of samples on the way; None: none.
        work: folder of the resumable state and the log.
        log: called with named figures and the step.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        source: BatchSource,
        objective: Objective,
        *,
        optimizer: Optimizer,
        training: Training,
        runtime: Runtime,
        images: int,
        work: Path,
        log: Log,
        snapshots: Sequence[int] = (),
        keep_state: bool = False,
        carried: Mapping[str, Tensor] | None = None,
        pictures: "Pictures | None" = None,
    ) -> None:
        self.source, self.objective, self.settings = source, objective, optimizer
        self.training, self.runtime, self.work, self.log = training, runtime, work, log
        self.images, self.keep_state, self.pictures = images, keep_state, pictures
        self.accelerator = accelerator_of(source.device, training, runtime)
        net: nn.Module = denoiser.net
        self.net = net.to(source.device).to(memory_format=memory_format(runtime)).train().requires_grad_(True)
        self.start = digest_of(self.net.state_dict(), "")
        self.parameters = tuple(self.net.parameters())  # a walk through all modules, for once
        self.feedback = Feedback(self.accelerator, denoiser, source, objective)
        self.steps = self.steps_to(images)
        self.snapshots = Snapshots(work, [self.steps_to(count) for count in snapshots])
        self.averages = Averages(self.net, training.average)
        self.average_snapshots = Snapshots(work, self.averages.snapshot_steps(self.steps), "averages")
        self.optimizer = build_optimizer(self.parameters, optimizer, source.device, objective.parameters())
        if carried is not None:
            load_moments(self.optimizer, self.net, carried)
        self.interval, self.lines = LogInterval(), b""
        # The main process alone writes states, and alone goes by the clock.
        late = runtime.checkpoint_seconds if self.accelerator.is_main_process else None
        self.writer = CheckpointWriter(work / CHECKPOINT, late)
        self.utilisation = utilisation_of(self.net, source.device, self.accelerator.num_processes)
        self.step = self.saved_step = self.restore()
        self.forward, self.graphs = forward_of(self.net, self.accelerator, training, runtime, self.steps)
        self.denoiser = denoiser.around(self.forward)
        self.first_bad_step = torch.full((), self.steps, device=source.device)

    def run(self) -> Trained:
        """Train up to the budget. Raises Diverged where the loss becomes NaN or infinite."""
        stop_sync = StopSync(self.accelerator, self.step)
        describe_stop(self.place)
        batch, total = self.training.batch_size, self.steps * self.training.batch_size
        bar_of = progress(total, "images", initial=self.step * batch, step=batch, shown=self.runtime.progress)
        with bar_of as bar, stop_deferred() as stop_asked, self.writer as writer:
            while self.step < self.steps:
                if (figures := self.advance()) is not None:
                    mfu = {"MFU": f"{figures['mfu']:.1%}"} if "mfu" in figures else {}
                    bar.set_postfix({"loss": f"{figures['loss']:.4f}"} | mfu, refresh=False)
                bar.update(batch)
                stop = stop_sync.stops(self.step, stop_asked)
                # The last state is saved too: a kill after the training repeats none of its steps.
                due = writer.is_late() or self.step % self.training.checkpoint_every == 0
                if stop or due or self.step == self.steps:
                    self.save()
                if stop:
                    break
            describe_stop(self.place)
            # A process that was asked to stop ends with this block: none may before the main one has saved.
            writer.finish()
            self.accelerator.wait_for_everyone()
        if self.step < self.steps:  # the signal that asked for it has not ended the process
            raise Stopped(signal.SIGTERM)
        self.averages.main.copy_to(self.net)
        self.net.eval().requires_grad_(False)
        for patched in ("forward", "_original_forward", "_is_accelerate_prepared"):
            self.net.__dict__.pop(patched, None)  # accelerate would go on with the training's precision
        grids = {} if self.pictures is None else self.pictures.grids
        return Trained(
            steps=self.steps,
            images_seen=self.images_seen,
            log=self.work / LOG,
            snapshots=self.snapshots.reached(self.step, self.feedback.images_seen),
            averages=self.average_snapshots.reached(self.step, self.feedback.images_seen),
            statistics=self.objective.statistics(),
            learned={name: value.detach() for name, value in self.objective.named_parameters()},
            effective_weighting=effective_weighting(self.source.sampler, self.objective),
            end=Snapshot(self.steps, self.images_seen, self.work / CHECKPOINT),
            pictures={self.feedback.images_seen(step): grid for step, grid in grids.items()},
        )

    def advance(self) -> dict[str, float] | None:
        """One step with its measurements, snapshots and log, but without saving; the log's line if one is due."""
        self.feedback.refresh(self.step)
        self.interval.add(self.train_step())
        self.step += 1
        if self.accelerator.is_main_process:
            self.keep_snapshots()
        if self.step % self.training.log_every and self.step != self.steps:
            return None
        self.refuse_bad_steps()
        figures = self.report()
        self.interval = LogInterval()
        return figures

    def train_step(self) -> dict[str, Tensor]:
        """One optimizer step; its named terms stay on the device, so that nothing waits for them."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()  # what the last step's graphs returned may be overwritten
        set_schedule(self.optimizer, self.settings, self.images_seen, self.images)
        torch.manual_seed(torch_seed(self.source.seed, Stream.DROPOUT, self.step, self.accelerator.process_index))
        totals: dict[str, Tensor] = {}
        observed: list[Tensor] = []
        for part, last in self.parts():
            batch = self.source.draw(self.step, part)
            with nullcontext() if last else self.accelerator.no_sync(self.forward):
                losses = self.objective(self.denoiser.conditioned_on(batch.x0, batch.labels), batch)
                self.accelerator.backward(self.scaled(losses.weighted))
            observed.append(losses.weighted.detach() / batch.weights)
            loss = self.scaled(losses.weighted.detach())
            share = len(batch.timesteps) * self.accelerator.num_processes / self.training.batch_size
            for name, value in ({"loss": loss} | {k: v * share for k, v in losses.terms.items()}).items():
                totals[name] = totals.get(name, 0) + value
        self.objective.end_step(partial(self.accelerator.reduce, reduction="sum"))
        limit = self.training.gradient_clip or float("inf")
        totals["grad_norm"] = nn.utils.clip_grad_norm_(self.parameters, limit)
        finite = torch.isfinite(totals["loss"]) & torch.isfinite(totals["grad_norm"])
        self.first_bad_step = torch.minimum(self.first_bad_step, torch.where(finite, self.steps, self.step))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.averages.update(evaluated_weights(self.optimizer, self.parameters))
        self.feedback.learn(self.step, observed)
        return totals

    def parts(self) -> Iterator[tuple[slice, bool]]:
        """This process's share of the batch in `gradient_accumulation` parts; True marks the last."""
        parts = self.training.gradient_accumulation
        count, first = self.accelerator.num_processes * parts, self.accelerator.process_index * parts
        edges = [self.training.batch_size * i // count for i in range(first, first + parts + 1)]
        for number, ends in enumerate(pairwise(edges), start=1):
            yield slice(*ends), number == parts

    def scaled(self, weighted: Tensor) -> Tensor:
        """Loss of a part: processes average their gradients, so each scales its sum by their number."""
        return weighted.sum() * self.accelerator.num_processes / self.training.batch_size

    def report(self) -> dict[str, float]:
        """Write a line of the log: means over the interval, and the conditions."""
        # Each process knows its part of the batch; the batch's mean is the mean over processes.
        means = {name: float(self.accelerator.reduce(mean, "mean")) for name, mean in self.interval.means().items()}
        speed = self.interval.speed() * self.training.batch_size
        computed = self.accelerator.num_processes * self.interval.compute_seconds(
            self.accelerator.device.type == "cuda"
        )
        rates = {"lr": self.optimizer.param_groups[0]["lr"], "images_per_second": speed}
        figures = means | rates | {"compute_seconds": computed}
        if self.settings.momentum_decay is not None:
            figures["momentum"] = momentum(self.settings, self.feedback.images_seen(self.step - 1), self.images)
        if self.utilisation is not None:
            figures["mfu"] = self.utilisation * speed
        line = {"step": self.step, "images_seen": self.images_seen} | figures
        if self.accelerator.is_main_process:
            self.lines += json.dumps(line).encode() + b"\n"
            with (self.work / LOG).open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
            self.log(figures, self.step)
        return figures

    def refuse_bad_steps(self) -> None:
        """Raise Diverged before a state with NaN is saved; the last good one stays."""
        if (step := int(self.first_bad_step)) < self.steps:
            raise Diverged(
                f"the loss or its gradient is NaN or infinite at step {step} "
                f"({self.feedback.images_seen(step)} images); {self.remedies()}"
            )

    def remedies(self) -> str:
        """Say which settings may help: to resume from the last good state, or to train again."""
        clip = self.training.gradient_clip
        clipping = "set training.gradient_clip" if clip is None else f"lower training.gradient_clip ({clip:g})"
        again = f"lower optimizer.lr ({self.settings.lr:g}) or {clipping}"
        if not (images := self.feedback.images_seen(self.saved_step)):
            return again
        return f"optimizer.lr_milestones: {{{images}: 0.5}} resumes from the last good state; or {again}"

    def keep_snapshots(self) -> None:
        """Begin to write the snapshots, and draw the pictures, that are due after this step."""
        if self.step in self.snapshots.steps:
            state = self.state_tensors() if self.keep_state else {}
            average = add_prefix("average.", self.averages.main.state_dict())
            facts = {"step": self.step, "optimizer": self.settings.name}
            self.writer.start(self.snapshots.file(self.step), Saved(average | state, facts))
        if self.step in self.average_snapshots.steps:
            kept = Saved(self.averages.snapshot_tensors(), {"step": self.step})
            self.writer.start(self.average_snapshots.file(self.step), kept)
        if self.pictures is not None and self.step in self.pictures.steps(self.steps):
            self.pictures.draw(self.net, self.step, self.averages.main, self.objective)

    def state_tensors(self) -> dict[str, Tensor]:
        """Weights and moments, as tensors of a checkpoint."""
        return add_prefix("net.", self.net.state_dict()) | add_prefix("optimizer.", moments(self.optimizer, self.net))

    def save(self) -> None:
        """Copy the resumable state, and begin to write it. Raises Diverged where it holds NaN."""
        self.refuse_bad_steps()
        tensors = self.state_tensors() | self.averages.state_dict()
        tensors |= add_prefix("objective.", self.objective.state_dict()) | add_prefix("interval.", self.interval.sums)
        tensors |= add_prefix(MOMENTS_OF_OBJECTIVE, moments(self.optimizer, self.objective))
        if self.pictures is not None:
            tensors |= self.pictures.state_dict()
        facts = {
            "step": self.step,
            "optimizer": self.settings.name,
            "sampler": self.source.sampler.state_dict(),
            "losses": self.feedback.losses.state(),
            "interval_steps": self.interval.steps,
            "start": self.start,
            "lr_milestones": [*self.settings.lr_milestones.items()],
        }
        if self.accelerator.is_main_process:
            tensors[LOG] = torch.from_numpy(np.frombuffer(self.lines, np.uint8).copy())
            self.writer.start(self.work / CHECKPOINT, Saved(tensors, facts))
        self.saved_step = self.step

    def restore(self) -> int:
        """Load the saved state, if there is one; returns the number of steps done. Raises UserError if it is unfit."""
        self.work.mkdir(parents=True, exist_ok=True)
        step = 0
        if (saved := read_checkpoint(self.work / CHECKPOINT, self.leads_here)) is not None:
            step, state = saved.facts["step"], TrainingState.of(saved)
            for made in (self.snapshots, self.average_snapshots):
                made.reached(step, self.feedback.images_seen)
            if not state.fits(self.net):
                raise UserError(f"{self.work / CHECKPOINT}: a state of another network; delete it to start again")
            self.net.load_state_dict(state.weights)
            load_moments(self.optimizer, self.net, state.moments)
            self.averages.load_state_dict(saved.tensors, step)
            self.objective.load_state_dict(strip_prefix("objective.", saved.tensors))
            self.source.sampler.load_state_dict(saved.facts["sampler"])
            self.feedback.losses.load(saved.facts["losses"])
            self.interval = LogInterval(saved.facts["interval_steps"], strip_prefix("interval.", saved.tensors))
            if self.pictures is not None:
                self.pictures.load_state_dict(saved.tensors)
            load_moments(self.optimizer, self.objective, strip_prefix(MOMENTS_OF_OBJECTIVE, saved.tensors))
            self.lines = saved.tensors[LOG].numpy().tobytes()
        if self.accelerator.is_main_process:
            write_bytes(self.work / LOG, self.lines)
        self.accelerator.wait_for_everyone()
        return step

    def leads_here(self, saved: Saved) -> bool:
        """Say whether this training, from its beginning, comes by a saved state; one of other milestones may not."""
        images = self.feedback.images_seen(saved.facts["step"] - 1)
        ours, theirs = self.settings.lr_milestones, dict(saved.facts["lr_milestones"])
        same = reached_milestones(ours, images) == reached_milestones(theirs, images)
        return same and saved.facts["start"] == self.start

    @property
    def images_seen(self) -> int:
        return self.feedback.images_seen(self.step)

    @property
    def place(self) -> str:
        """Where the training stands, for the line of a stage that is stopped."""
        return f"at step {self.step:,} of {self.steps:,}"

    def steps_to(self, images: int) -> int:
        """Optimizer steps until so many images have been seen."""
        without_measuring = -(-images // self.training.batch_size)
        return bisect_left(range(without_measuring), images, key=self.feedback.images_seen)
