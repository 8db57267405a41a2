"""Random numbers that depend on a key of integers alone: (seed, stream, step …).

No random state is stored: the key alone gives the same numbers. Streams separate draws that share a seed.

What a training step draws (images, timesteps, noise, flips, withheld labels) are words of a counter-based generator, a
function of the key and of a number: a process computes its images' share, noise on its own device. The integers are
the same on every device. Normal numbers are computed in float64 and rounded: however a batch is cut, a device gives the
same bytes; two devices may differ in the last bit of a float32, where their logarithms and cosines round differently.
"""

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Philox's multipliers and the increments of its key (Random123).
MULTIPLIERS, INCREMENTS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
ROUNDS, WORD = 10, 0xFFFFFFFF
#: `philox` of (place, 0, low word of a number, its high word), as a kernel of a GPU.
PHILOX_KERNEL = f"""
template <typename T>
void philox_words(T place, T number, T key0, T key1, T& word0, T& word1, T& word2, T& word3) {{
  typedef unsigned int word; typedef unsigned long long product;
  word c0 = place, c1 = 0, c2 = number, c3 = (product)number >> 32, k0 = key0, k1 = key1;
  for (int i = 0; i < {ROUNDS}; ++i) {{
    product p0 = (product){MULTIPLIERS[0]}u * c0, p1 = (product){MULTIPLIERS[1]}u * c2;
    c0 = (word)(p1 >> 32) ^ c1 ^ k0; c1 = (word)p1;
    c2 = (word)(p0 >> 32) ^ c3 ^ k1; c3 = (word)p0;
    k0 += {INCREMENTS[0]}u; k1 += {INCREMENTS[1]}u;
  }}
  word0 = c0; word1 = c1; word2 = c2; word3 = c3;
}}
"""
#: Values of a draw that are computed at once, which bounds its memory.
VALUES_AT_ONCE = 1 << 22


class Stream(IntEnum):
    """One number for each purpose; never reused."""

    SHUFFLE = 0
    TIMESTEPS = 1
    NOISE = 2
    FLIPS = 3
    DROPOUT = 4
    INITIAL_WEIGHTS = 5
    PROFILE_IMAGES = 6
    PROFILE_NOISE = 7
    SAMPLE_START = 8
    SAMPLE_ADDED = 9
    PRUNING = 10
    CLASSIFIER = 11
    HEADS = 12
    MEASURED = 13
    CONSISTENCY = 15
    AUTOENCODER = 17
    SAMPLE_LABELS = 18
    LABEL_DROPOUT = 19
    FLOOR = 21
    VALIDATION_TIMESTEPS = 22
    VALIDATION_NOISE = 23


def numpy_generator(*key: int) -> np.random.Generator:
    """Make a NumPy generator of a key."""
    return np.random.default_rng(key)


def noise_of(
    shape: Sequence[int], ids: Sequence[int] | np.ndarray, *key: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Draw N(0, 1) for each image by its number alone.

    Args:
        shape: of an image.
        ids: numbers of the images, [B], from 0 to 2⁶³ − 1.
        key: of the draw.
        device: where the noise is computed.

    Returns:
        float32, [B, *shape], with absolute values below 6.8.
    """
    count, ids = math.prod(shape), ids if isinstance(ids, range) else np.asarray(ids, np.int64)
    size = max(1, VALUES_AT_ONCE // max(1, count))
    parts = [ids[start : start + size] for start in range(0, max(1, len(ids)), size)]
    return torch.cat([normals(count, part, key, device) for part in parts]).reshape(len(ids), *shape)


def normals(count: int, ids: range | np.ndarray, key: Sequence[int], device: torch.device | str) -> Tensor:
    """Draw N(0, 1) by Box and Muller's transform of pairs of words, [B, count] float32."""
    blocks = -(-count // 4)
    words = random_words(blocks, ids, key, device).double()
    radius = words[:2].add_(0.5).mul_(2.0**-32).log_().mul_(-2).sqrt_()
    angle = words[2:].mul_(2 * math.pi * 2.0**-32)
    found = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)  # [2, B, blocks, 2]
    return found.float().permute(1, 2, 0, 3).reshape(len(ids), 4 * blocks)[:, :count]


def uniforms_of(ids: Sequence[int], *key: int) -> np.ndarray:
    """Draw four multiples of 2⁻³² in [0, 1) for each image by its number alone, [4, B] float64."""
    return words_on_host(1, ids, key)[:, :, 0] * 2.0**-32


def uniform_of(ids: Sequence[int], *key: int, device: torch.device | str = "cpu") -> Tensor:
    """Draw a multiple of 2⁻³² in [0, 1) for each image by its number alone, [B] float64; the host computes them."""
    return on_device(torch.from_numpy(uniforms_of(ids, *key)[0]), device)


def permutation(count: int, window: int, *key: int, device: torch.device | str = "cpu") -> Tensor:
    """Draw an order of 0 … count − 1 by sorting random words, [count] int64.

    Windows of neighbours come in any order, and so do their members; by a random shift the borders of windows are
    others under every key, and one window may lie across the end. With a window of 1 all orders are equally likely.

    Args:
        count: at least 1.
        window: neighbours that stay together.
        key: of the draw.
        device: where the order is computed.
    """
    words = random_words(-(-count // 4), range(3), key, device).permute(1, 2, 0).reshape(3, -1)
    own, shared, shift = words[0, :count], words[1], words[2, 0]
    places = torch.arange(count, device=device)
    # 31 bits of the window's word above as many of the member's.
    keys = (shared[places // window] >> 1 << 31) | (own >> 1)
    return (torch.argsort(keys, stable=True) + shift) % count


def random_words(
    blocks: int, ids: Sequence[int] | np.ndarray, key: Sequence[int], device: torch.device | str
) -> Tensor:
    """Draw words of 32 bits, four a block, for each image by its number, [4, B, blocks] int64."""
    if torch.device(device).type == "cpu":
        return torch.from_numpy(words_on_host(blocks, ids, key))
    first, second = philox_key(key)
    values = ids if isinstance(ids, range) else torch.from_numpy(np.asarray(ids, np.int64))
    place, number = torch.arange(blocks, device=device)[None], on_device(values, device)[:, None]
    if (kernel := philox_kernel()) is not None:
        return torch.stack(kernel(place, number, key0=first, key1=second))
    return torch.stack(philox((place, 0, number & WORD, number >> 32), (first, second)))


def words_on_host(blocks: int, ids: Sequence[int] | np.ndarray, key: Sequence[int]) -> np.ndarray:
    """Draw the words by NumPy, of which a call takes half the time of one of PyTorch's."""
    places, numbers = np.arange(blocks)[None], np.asarray(ids, np.int64)[:, None]
    return np.stack(philox((places, 0, numbers & WORD, numbers >> 32), philox_key(key)))


def philox_key(key: Sequence[int]) -> tuple[int, int]:
    """Mix a key into Philox's two words."""
    first, second = np.random.SeedSequence(tuple(key)).generate_state(2).tolist()
    return first, second


def on_device(values: range | Tensor, device: torch.device | str) -> Tensor:
    """Values [B] on a device; a range is counted there, others are copied from the host without waiting."""
    if isinstance(values, range):
        return torch.arange(values.start, values.stop, values.step, device=device)
    copied = torch.device(device).type == "cuda" and not values.is_cuda
    return (values.pin_memory() if copied else values).to(device, non_blocking=True)


def philox(counter: Sequence[Any], key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Compute Philox 4×32-10 (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3").

    Products of 64 bits overflow int64, whose bits are still theirs.

    Args:
        counter: four words of 32 bits, each an int or int64 of NumPy or PyTorch; the first and the third are arrays.
        key: two words.

    Returns:
        Four words of 32 bits, of the counter's common shape.
    """
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(ROUNDS):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = ((p1 >> 32) ^ c1 ^ k0) & WORD, ((p0 >> 32) ^ c3 ^ k1) & WORD
        c1, c3 = p1, p0  # low words; higher bits are cut off where they are used
        k0, k1 = (k0 + INCREMENTS[0]) & WORD, (k1 + INCREMENTS[1]) & WORD
    return c0, c1 & WORD, c2, c3 & WORD


@cache
def philox_kernel() -> Callable[..., tuple[Tensor, ...]] | None:
    """Compile Philox for a GPU, (place, number, key0, key1) → four words: one launch instead of a hundred.

    None where that fails: PyTorch's compiler of such kernels is in beta, and needs CUDA's.
    """
    kernel = torch.cuda.jiterator._create_multi_output_jit_fn(PHILOX_KERNEL, num_outputs=4, key0=0, key1=0)
    try:
        kernel(*[torch.zeros(1, dtype=torch.int64, device="cuda")] * 2)
    except RuntimeError:
        return None
    return kernel


def torch_seed(*key: int) -> int:
    """Derive 63 bits from a key."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
