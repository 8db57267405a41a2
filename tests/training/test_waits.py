"""No step reads a value back from its device: operations that would wait for one are refused while a step is taken."""

from typing import Any

import pytest
import torch
from small_trainer import LEARNING, SCHEDULE
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from unequal.timesteps import batches as queue
from unequal.timesteps.partition import Partition
from unequal.training.objectives import OverRunningMean, OverUncertainty, SingleHead, Uncertainty

CPU = torch.device("cpu")
HALVES = Partition([(0, 19), (20, 49)])
#: Functions of tensors that wait for a device, and operations in which others end.
ASKED = {"item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero", "unique"}
WAITING = {"_local_scalar_dense", "nonzero", "is_nonzero", "_unique2", "unique_dim", "masked_select", "equal"}
SINGLE = SingleHead()


class Waits(Exception):
    pass


class Asked(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ASKED:
            raise Waits(func.__name__)
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        by_mask = func.overloadpacket.__name__ in ("index", "index_put", "index_put_") and any(
            one is not None and one.dtype == torch.bool for one in args[1]
        )
        if by_mask or func.overloadpacket.__name__ in WAITING:
            raise Waits(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("asking", [Tensor.tolist, bool, float, torch.unique, lambda x: x[x > 0], lambda x: x.cpu()])
def test_what_would_wait_is_noticed(asking):
    with pytest.raises(Waits), Asked(), Dispatched():
        asking(torch.ones(1))


CHOICES: dict[str, dict[str, Any]] = {
    "plain": {},
    "in parts, mirrored": {"gradient_accumulation": 2, "horizontal_flips": True},
    "losses": {"sampler": "loss_second_moment"},
    "losses in stages": {"sampler": "easy_to_hard"},
    "information": {"sampler": "info_noise"},
    "uncertainty": {"objective": OverUncertainty(SINGLE, Uncertainty(SCHEDULE))},
    "running means": {"objective": OverRunningMean(SINGLE, HALVES, 8, CPU)},
}


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_a_step_waits_for_nothing(build, monkeypatch, choice):
    chosen = {"log_every": 100, "images": 80} | CHOICES[choice]
    if "sampler" in chosen:
        chosen["sampler"] = LEARNING[chosen["sampler"]]()
    trainer = build(**chosen)
    copied: list[Tensor] = []

    def to_host(losses: Tensor) -> tuple[Tensor, None]:
        """Begin a copy that has arrived two steps later."""
        copied.append(losses)
        return losses, None

    monkeypatch.setattr(queue, "to_host", to_host)
    monkeypatch.setattr(queue.PendingLosses, "arrived_losses", arrived := lambda one: one.losses.detach().numpy())
    trainer.advance()
    trainer.advance()
    for step in range(2, 4):
        trainer.feedback.losses.learn(step)  # of a step that ended long ago
        monkeypatch.setattr(queue.PendingLosses, "arrived_losses", lambda _: pytest.fail("a step was waited for"))
        with Asked(), Dispatched():
            trainer.advance()
        monkeypatch.setattr(queue.PendingLosses, "arrived_losses", arrived)
    assert len(copied) == (4 if "sampler" in chosen else 0)
