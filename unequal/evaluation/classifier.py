"""A small classifier whose features stand in for Inception's where images are tiny or grey, or it is not at hand.

It learns the labels or, without any, how many quarter turns an image is rotated by (RotNet, 1803.07728). Its
penultimate layer is what FID compares. Figures made with it compare variants on one data set; they are no Inception
FIDs, and every result names its extractor.
"""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "safetensors", "scipy", "tqdm")

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy.special import bdtrc
from torch import Tensor, nn
from torch.nn import functional

from unequal.data.prepared import tensor_of, to_model_range
from unequal.errors import UserError
from unequal.evaluation.sets import BATCH
from unequal.randomness import Stream, numpy_generator
from unequal.runtime.progress import progress

WIDTH = 32
#: Share of guessing classifiers that count as ones that have learned something.
CHANCE = 0.05
#: Quarter turns, the classes of images without labels.
ROTATIONS = 4


class Classifier(nn.Module):
    """Three convolutions, a feature layer, a linear classifier.

    Args:
        channels, image_size: of the images.
        features: length of the feature vector.
        classes: number of labels.
    """

    scale: Tensor

    def __init__(self, channels: int, image_size: int, features: int, classes: int) -> None:
        super().__init__()
        pooled = 2 if image_size < 16 else 4
        self.body = nn.Sequential(
            nn.Conv2d(channels, WIDTH, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1, stride=2),
            nn.SiLU(),
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(pooled),
            nn.Flatten(),
            nn.Linear(2 * WIDTH * pooled**2, features),
        )
        self.head = nn.Sequential(nn.SiLU(), nn.Linear(features, classes))
        self.register_buffer("scale", torch.ones(()))

    def features(self, images: Tensor) -> Tensor:
        """Feature vectors [B, features] of uint8 images [B, C, H, W], scaled by `normalise`."""
        return self.scale * self.body(to_model_range(images))

    @torch.no_grad()
    def normalise(self, images: Tensor) -> None:
        """Scale features to a mean square of 1 over these images: scores then do not hang on the weights' size.

        Args:
            images: uint8 [N, C, H, W] on any device.

        Raises:
            UserError: the features are all zero, or no numbers.
        """
        size = in_batches(self.features, images, self.scale.device).square().mean().sqrt()
        if not 0 < float(size) < float("inf"):
            raise UserError(
                f"extractor: the classifier's features have a root mean square of {float(size)}; lower extractor.lr"
            )
        self.scale /= size

    def forward(self, images: Tensor) -> Tensor:
        """Class scores [B, classes] of uint8 images."""
        return self.head(self.body(to_model_range(images)))


def train_classifier(
    net: Classifier,
    images: np.ndarray,
    labels: np.ndarray | None,
    budget: int,
    batch_size: int,
    lr: float,
    seed: int,
    shown: bool = False,
) -> None:
    """Train in place on [N, C, H, W] uint8 images for a budget of images: labels [N] or, without any, rotations.

    Args:
        shown: with its progress.
    """
    device = next(net.parameters()).device
    steps = -(-budget // batch_size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    with progress(steps, "steps", label="feature network", shown=shown) as bar:
        for step in range(steps):
            generator = numpy_generator(seed, Stream.CLASSIFIER, step)
            index = generator.integers(len(images), size=batch_size)
            batch = torch.from_numpy(images[index])
            if labels is None:
                turns = torch.from_numpy(generator.integers(ROTATIONS, size=batch_size))
                batch, classes = rotated(batch, turns), turns
            else:
                classes = torch.from_numpy(labels[index])
            loss = functional.cross_entropy(net(batch.to(device)), classes.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            bar.update()


def rotated(images: Tensor, turns: Tensor) -> Tensor:
    """Square images [B, C, S, S], each rotated by its number [B] of quarter turns."""
    return torch.stack([image.rot90(int(turn), (1, 2)) for image, turn in zip(images, turns, strict=True)])


@torch.no_grad()
def accuracy(net: Classifier, images: np.ndarray, labels: np.ndarray | None) -> float:
    """Share of [N, C, H, W] uint8 images that are classified as labelled or, without labels, as rotated."""
    if labels is None:
        upright = tensor_of(images)
        turns = torch.arange(ROTATIONS).repeat_interleave(len(upright))
        batch, classes = torch.cat([upright.rot90(turn, (2, 3)) for turn in range(ROTATIONS)]), turns
    else:
        batch, classes = tensor_of(images), torch.from_numpy(np.array(labels))
    return float((in_batches(net, batch, net.scale.device).argmax(1).cpu() == classes).float().mean())


def check_accuracy(accurate: float, images: int, labels: np.ndarray | None) -> None:
    """Check that a classifier has learned something: that it beats the most frequent class, beyond chance.

    Args:
        accurate: its accuracy on held-out images.
        images: their number.
        labels: theirs [images]; None: each is classified in all four rotations.

    Raises:
        UserError: so many right answers come about by chance in more than CHANCE of all cases; where the images are too
            few to say, no more right answers than by the most frequent class.
    """
    count = images if labels is not None else ROTATIONS * images
    guessing = 1 / ROTATIONS if labels is None else float(np.unique(labels, return_counts=True)[1].max()) / images
    right = round(accurate * count)
    decidable = float(bdtrc(count - 1, count, guessing)) < CHANCE
    if float(bdtrc(right - 1, count, guessing)) >= CHANCE if decidable else accurate <= guessing:
        kind, other = ("classifier", "rotations, ") if labels is not None else ("rotations", "")
        what = "class" if labels is not None else "rotation"
        raise UserError(
            f"extractor.kind: '{kind}': the network names the {what} of {right} of {count} held-out images, where "
            f"always the same answer names {round(guessing * count)}: its features distinguish nothing; raise "
            f"extractor.images, or use {other}inception or dinov2"
        )


def in_batches(answer: Callable[[Tensor], Tensor], images: Tensor, device: torch.device) -> Tensor:
    """Answers for images [N, C, H, W], [N, …] on the device, at most a batch at once."""
    return torch.cat([answer(some.to(device)) for some in images.split(BATCH)])


def save_classifier(path: Path, net: Classifier) -> None:
    """Write the weights; the shapes hold all that is needed to rebuild the network."""
    save_file({name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}, path)


def load_classifier(path: Path, image_size: int) -> Classifier:
    """Read weights that `save_classifier` wrote."""
    state = load_file(path)
    channels = state["body.0.weight"].shape[1]
    features, classes = state["body.8.weight"].shape[0], state["head.1.weight"].shape[0]
    net = Classifier(channels, image_size, features, classes)
    net.load_state_dict(state)
    return net.eval().requires_grad_(False)
