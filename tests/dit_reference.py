"""A reference of DiT (2212.09748), and checkpoints of random weights under its names."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def positions(width: int, side: int) -> Tensor:
    """[side², width]: sines and cosines of the column, then of the row."""
    waves = 10000 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    rows, columns = torch.meshgrid(torch.arange(side).double(), torch.arange(side).double(), indexing="ij")
    angles = [place.flatten()[:, None] * waves for place in (columns, rows)]
    return torch.cat([part(angle) for angle in angles for part in (torch.sin, torch.cos)], dim=1)


def answer(weights: dict[str, Tensor], x: Tensor, t: Tensor, y: Tensor | None, heads: int, steps: int = 127) -> Tensor:
    """Compute DiT's output in float64 from the weights of a checkpoint, independently of the network."""
    weights = {name: tensor.double() for name, tensor in weights.items()}

    def layer(name: str, values: Tensor) -> Tensor:
        return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(values: Tensor) -> Tensor:
        centred = values - values.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    kernel = weights["x_embedder.proj.weight"]
    width, _, patch, _ = kernel.shape
    side = x.shape[-1] // patch
    patches = (
        x.double().unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    )
    tokens = patches @ kernel.flatten(1).T + weights["x_embedder.proj.bias"] + positions(width, side)
    # In float32 as everywhere: an angle of a thousand is known to some 10⁻⁵ then, and errs alike.
    frequencies = torch.exp(-math.log(10000) * torch.arange(128, dtype=torch.float32) / steps)
    angles = (t.float()[:, None] * frequencies).double()
    waves = torch.cat([angles.cos(), angles.sin()], dim=1)
    embedding = layer("t_embedder.mlp.2", functional.silu(layer("t_embedder.mlp.0", waves)))
    if y is not None:
        embedding = embedding + weights["y_embedder.embedding_table.weight"][y]
    for block in range(sum(name.endswith("attn.qkv.weight") for name in weights)):
        name = f"blocks.{block}"
        modulation = layer(f"{name}.adaLN_modulation.1", functional.silu(embedding))[:, None]
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = modulation.split(width, dim=2)
        qkv = layer(f"{name}.attn.qkv", norm(tokens) * (1 + scale) + shift)
        mixed = []
        for head in range(heads):
            columns = torch.arange(head * width // heads, (head + 1) * width // heads)
            queries, keys, values = (qkv[..., part * width + columns] for part in range(3))
            attention = (queries @ keys.transpose(1, 2) / (width / heads) ** 0.5).softmax(-1)
            mixed.append(attention @ values)
        tokens = tokens + gate * layer(f"{name}.attn.proj", torch.cat(mixed, dim=-1))
        hidden = layer(f"{name}.mlp.fc1", norm(tokens) * (1 + mlp_scale) + mlp_shift)
        curve = hidden * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3))) / 2
        tokens = tokens + mlp_gate * layer(f"{name}.mlp.fc2", curve)
    shift, scale = layer("final_layer.adaLN_modulation.1", functional.silu(embedding))[:, None].split(width, dim=2)
    out = layer("final_layer.linear", norm(tokens) * (1 + scale) + shift)
    out = out.reshape(len(x), side, side, patch, patch, -1)
    return torch.einsum("nhwpqc->nchpwq", out).reshape(len(x), -1, side * patch, side * patch)


def checkpoint(
    depth: int, width: int, channels: int, answers: int, patch: int, side: int, rows: int | None
) -> dict[str, Tensor]:
    """A state dict as DiT's and SiT's code writes it, of random weights; `rows` of labels' embeddings."""
    shapes: dict[str, tuple[int, ...]] = {"x_embedder.proj": (width, channels, patch, patch)}
    shapes |= {"t_embedder.mlp.0": (width, 256), "t_embedder.mlp.2": (width, width)}
    for i in range(depth):
        shapes |= {
            f"blocks.{i}.attn.qkv": (3 * width, width),
            f"blocks.{i}.attn.proj": (width, width),
            f"blocks.{i}.mlp.fc1": (4 * width, width),
            f"blocks.{i}.mlp.fc2": (width, 4 * width),
            f"blocks.{i}.adaLN_modulation.1": (6 * width, width),
        }
    shapes |= {
        "final_layer.linear": (patch * patch * answers, width),
        "final_layer.adaLN_modulation.1": (2 * width, width),
    }
    generator = torch.Generator().manual_seed(4)
    state = {"pos_embed": positions(width, side).float()[None]}
    for name, shape in shapes.items():
        state[f"{name}.weight"] = 0.2 * torch.randn(shape, generator=generator)
        state[f"{name}.bias"] = 0.2 * torch.randn(shape[0], generator=generator)
    if rows is not None:
        state["y_embedder.embedding_table.weight"] = 0.2 * torch.randn(rows, width, generator=generator)
    return state
