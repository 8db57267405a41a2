"""The training loop that diffusers' documentation teaches, to be measured against.

Its parts are those of the guide to unconditional generation and of the script that goes with it: encoded images
behind transforms and a DataLoader, DDPMScheduler.add_noise, accelerate, AdamW, a cosine schedule, clipping,
EMAModel, and the loss read back for the progress bar after every step.
"""

import io
from itertools import chain, repeat

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from diffusers.training_utils import EMAModel
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from unequal.settings.params import Params

#: Decay of EMAModel; the cost of an update does not depend on it.
AVERAGE_DECAY = 0.995


class Pictures(Dataset[Tensor]):
    """Images as a folder holds them: PNG, decoded whenever one is asked for; or decoded beforehand.

    Args:
        images: uint8, [N, H, W, C].
        flips: mirror each with probability ½.
        encoded: keep PNGs, as data sets of files do.
    """

    def __init__(self, images: np.ndarray, flips: bool, encoded: bool) -> None:
        whole = [Image.fromarray(image.squeeze()) for image in images]
        self.items = [png(image) for image in whole] if encoded else whole
        size, mode = images.shape[1], whole[0].mode
        self.mode = mode
        self.transform = transforms.Compose(
            [
                transforms.Resize(size),
                transforms.CenterCrop(size),
                *([transforms.RandomHorizontalFlip()] if flips else []),
                transforms.ToTensor(),
                transforms.Normalize([0.5], [0.5]),
            ]
        )

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Tensor:
        item = self.items[index]
        image = Image.open(io.BytesIO(item)) if isinstance(item, bytes) else item
        return self.transform(image.convert(self.mode))


def png(image: Image.Image) -> bytes:
    """An image as the bytes of a file."""
    content = io.BytesIO()
    image.save(content, "png")
    return content.getvalue()


class DocumentedLoop:
    """The loop, a few steps at a time.

    Args:
        params: the settings; the base's recipe has the peak learning rate.
        steps: of the learning rate's schedule.
    """

    def __init__(
        self,
        net: nn.Module,
        pictures: Pictures,
        params: Params,
        steps: int,
        device: torch.device,
        compiled: bool = False,
    ) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)
        training = params.training
        self.clip = training.gradient_clip
        self.accelerator = Accelerator(
            cpu=device.type == "cpu", mixed_precision="bf16" if training.precision == "bf16" else "no"
        )
        self.scheduler = DDPMScheduler(num_train_timesteps=params.schedule.timesteps)
        optimizer = torch.optim.AdamW(net.parameters(), lr=params.recipes["base"].optimizer.lr)
        schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
        loader = DataLoader(pictures, batch_size=training.batch_size, shuffle=True, drop_last=True)
        self.net, self.optimizer, self.loader, self.schedule = self.accelerator.prepare(
            torch.compile(net) if compiled else net, optimizer, loader, schedule
        )
        self.ema = EMAModel(self.net.parameters(), decay=AVERAGE_DECAY, use_ema_warmup=True)
        self.ema.to(self.accelerator.device)
        self.batches = chain.from_iterable(repeat(self.loader))
        self.loss = float("nan")

    def run(self, steps: int) -> None:
        """Train on for so many steps."""
        for _ in range(steps):
            self.step(next(self.batches))

    def step(self, clean: Tensor) -> None:
        """One optimizer step on images [B, C, H, W] in [−1, 1]."""
        noise = torch.randn(clean.shape, device=clean.device)
        count = self.scheduler.config["num_train_timesteps"]
        timesteps = torch.randint(0, count, (len(clean),), device=clean.device)
        noisy = self.scheduler.add_noise(clean, noise, timesteps)
        with self.accelerator.accumulate(self.net):
            predicted = self.net(noisy, timesteps).sample
            loss = torch.nn.functional.mse_loss(predicted, noise)
            self.accelerator.backward(loss)
            if self.accelerator.sync_gradients and self.clip is not None:
                self.accelerator.clip_grad_norm_(self.net.parameters(), self.clip)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
        if self.accelerator.sync_gradients:
            self.ema.step(self.net.parameters())
        self.loss = loss.detach().item()
