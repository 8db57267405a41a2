"""The transformer of DiT (2212.09748), under the names of its checkpoints.

Images become tokens, a patch each; timestep and label shift, scale and gate every block (adaLN-Zero). What gates begins
at 0, so that every block begins as the identity and the network with the answer 0.

diffusers' DiTTransformer2DModel is no substitute: it has an embedder of timestep and label in every block (75 M further
weights in DiT-XL), none of its layers begins at 0, it wants labels in any case, and draws for every block anew which of
them to withhold.
"""

from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from unequal.models.lazy_imports import without

# As for the U-Net: the compiler is imported where something is compiled.
with without("torch._dynamo"):
    from diffusers.models.embeddings import get_2d_sincos_pos_embed, get_timestep_embedding
    from diffusers.models.modeling_outputs import Transformer2DModelOutput

#: Sines and cosines that encode the timestep.
FREQUENCIES = 256
#: The MLP's hidden layer over the width.
MLP_RATIO = 4
#: Shift, scale and gate of the attention, and of the MLP.
MODULATIONS = 6
#: Initial deviation of the weights that embed timestep and label.
EMBEDDING_STD = 0.02
NORM_EPS = 1e-6


@dataclass(frozen=True)
class DiTConfig:
    """The architecture.

    Attributes:
        size: height and width of the images.
        inputs, outputs: channels of the images, and of the answer.
        patch: height and width of a patch.
        depth, width, heads: blocks, channels of a token, attention heads of a block.
        classes: rows of the embedding of labels; None where it takes no label.
        frequency_shift: the timestep's frequencies fall from 1 to 10⁻⁴ over 128 − shift steps; 1 in diffusers, 0 in DiT
            and SiT. A trained network goes with its own.
        time: what the network takes for t: t itself or, as SiT's, 1 − t/1000, which is 1 at the data.
        mlp_norm_eps: of the norm before each MLP, which folders of diffusers hold.
    """

    size: int
    inputs: int
    outputs: int
    patch: int
    depth: int
    width: int
    heads: int
    classes: int | None
    frequency_shift: int = 1
    time: Literal["index", "to_data"] = "index"
    mlp_norm_eps: float = NORM_EPS


class DiffusionTransformer(nn.Module):
    """[B, C, H, W], timesteps [B] and, of a class-conditional network, labels [B] → `sample` [B, outputs, H, W]."""

    pos_embed: Tensor

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.architecture = config
        width, patch = config.width, config.patch
        self.x_embedder = named(proj=PatchConvolution(config.inputs, width, patch, stride=patch))
        self.t_embedder = TimeEmbedding(width, config.frequency_shift, config.time)
        self.y_embedder = None if config.classes is None else named(embedding_table=LabelTable(config.classes, width))
        side = config.size // patch
        positions = get_2d_sincos_pos_embed(width, side, base_size=side, output_type="pt")
        # As much a part of the architecture as the number of patches: no file needs hold it.
        self.register_buffer("pos_embed", positions.float()[None], persistent=False)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, config.heads, config.mlp_norm_eps) for _ in range(config.depth)
        )
        self.final_layer = FinalLayer(width, patch**2 * config.outputs)

    @property
    def config(self) -> dict[str, Any]:
        """The architecture as JSON can carry it; of a pruned network, that of before."""
        return asdict(self.architecture)

    @property
    def present(self) -> "list[TransformerBlock]":
        """The blocks that have not been pruned away."""
        return [block for block in self.blocks if isinstance(block, TransformerBlock)]

    def forward(self, sample: Tensor, timestep: Tensor, class_labels: Tensor | None = None) -> Transformer2DModelOutput:
        tokens = self.x_embedder(sample).flatten(2).transpose(1, 2) + self.pos_embed
        embedding = self.t_embedder(timestep, tokens.dtype)
        if self.y_embedder is not None:
            embedding = embedding + self.y_embedder(class_labels)
        for block in self.blocks:
            tokens = block(tokens, embedding)
        return Transformer2DModelOutput(sample=self.image_of(self.final_layer(tokens, embedding)))

    def image_of(self, tokens: Tensor) -> Tensor:
        """Patches [B, tokens, patch·patch·outputs], put together: [B, outputs, H, W]."""
        side, patch = self.architecture.size // self.architecture.patch, self.architecture.patch
        return (
            tokens.reshape(-1, side, side, patch, patch, self.architecture.outputs)
            .permute(0, 5, 1, 3, 2, 4)
            .reshape(-1, self.architecture.outputs, self.architecture.size, self.architecture.size)
        )


class XavierLinear(nn.Linear):
    """Uniform weights of Xavier's variance, and no bias, to begin with."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class ZeroLinear(nn.Linear):
    """Zeros to begin with."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class EmbeddingLinear(nn.Linear):
    """Small normal weights, and no bias, to begin with."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=EMBEDDING_STD)
        nn.init.zeros_(self.bias)


class PatchConvolution(nn.Conv2d):
    """A linear layer over each patch, to begin with as XavierLinear."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight.view(len(self.weight), -1))
        assert self.bias is not None
        nn.init.zeros_(self.bias)


class LabelTable(nn.Embedding):
    """Small normal weights to begin with."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=EMBEDDING_STD)


def named(**layers: nn.Module) -> nn.Sequential:
    """Layers one behind the other, under their names in checkpoints."""
    return nn.Sequential(OrderedDict(layers))


class TimeEmbedding(nn.Module):
    """Timesteps [B] → [B, width]: sines and cosines, and an MLP."""

    def __init__(self, width: int, frequency_shift: int, time: str) -> None:
        super().__init__()
        self.frequency_shift, self.time = frequency_shift, time
        self.mlp = nn.Sequential(EmbeddingLinear(FREQUENCIES, width), nn.SiLU(), EmbeddingLinear(width, width))

    def forward(self, timestep: Tensor, dtype: torch.dtype) -> Tensor:
        time = 1 - timestep.float() / 1000 if self.time == "to_data" else timestep
        waves = get_timestep_embedding(time, FREQUENCIES, True, self.frequency_shift)
        return self.mlp(waves.to(dtype))


class TransformerBlock(nn.Module):
    """Attention and an MLP, shifted, scaled and gated by the embedding [B, width]; [B, tokens, width] → the same."""

    def __init__(self, width: int, heads: int, mlp_norm_eps: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=NORM_EPS)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=mlp_norm_eps)
        self.mlp = Mlp(width, MLP_RATIO * width)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), ZeroLinear(width, MODULATIONS * width))

    def forward(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = self.adaLN_modulation(embedding)[:, None].chunk(6, dim=2)
        tokens = tokens + gate * self.attn(self.norm1(tokens) * (1 + scale) + shift)
        return tokens + mlp_gate * self.mlp(self.norm2(tokens) * (1 + mlp_scale) + mlp_shift)


class Absent(nn.Module):
    """Identity in the place of a pruned block."""

    def forward(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        return tokens


class Attention(nn.Module):
    """Attention of all tokens to all, [B, tokens, width] → the same. Pruning leaves fewer heads of the same width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.qkv = XavierLinear(width, 3 * width)
        self.proj = XavierLinear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, count, _ = tokens.shape
        queries, keys, values = self.qkv(tokens).reshape(batch, count, 3, -1, self.head_width).permute(2, 0, 3, 1, 4)
        answered = functional.scaled_dot_product_attention(queries, keys, values)
        return self.proj(answered.transpose(1, 2).reshape(batch, count, -1))


class Mlp(nn.Module):
    """Two layers, [B, tokens, width] → the same."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = XavierLinear(width, hidden)
        self.fc2 = XavierLinear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(tokens), approximate="tanh"))


class FinalLayer(nn.Module):
    """[B, tokens, width], shifted and scaled by the embedding [B, width] → [B, tokens, answers]."""

    def __init__(self, width: int, answers: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=NORM_EPS)
        self.linear = ZeroLinear(width, answers)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), ZeroLinear(width, 2 * width))

    def forward(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        shift, scale = self.adaLN_modulation(embedding)[:, None].chunk(2, dim=2)
        return self.linear(self.norm_final(tokens) * (1 + scale) + shift)
