"""The U-Net of improved-diffusion and guided-diffusion, rewritten under their checkpoints' names."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 32


def norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(GROUPS, channels)


class Residual(nn.Module):
    """Norm, SiLU, convolution; the time embedding; the same again; and the input beside it."""

    def __init__(self, inputs: int, outputs: int, embedding: int, scale_shift: bool, resize: str = "") -> None:
        super().__init__()
        self.scale_shift, self.resize = scale_shift, resize
        self.in_layers = nn.Sequential(norm(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(embedding, outputs * (2 if scale_shift else 1)))
        self.out_layers = nn.Sequential(
            norm(outputs), nn.SiLU(), nn.Dropout(0.0), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.skip_connection = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def resized(self, x: Tensor) -> Tensor:
        if self.resize == "up":
            return functional.interpolate(x, scale_factor=2, mode="nearest")
        return functional.avg_pool2d(x, 2) if self.resize == "down" else x

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        hidden = self.in_layers[2](self.resized(self.in_layers[1](self.in_layers[0](x))))
        embedded = self.emb_layers(embedding)[:, :, None, None]
        if self.scale_shift:
            scale, shift = embedded.chunk(2, dim=1)
            hidden = self.out_layers[0](hidden) * (1 + scale) + shift
        else:
            hidden = self.out_layers[0](hidden + embedded)
        for layer in self.out_layers[1:]:
            hidden = layer(hidden)
        return self.skip_connection(self.resized(x)) + hidden


class Attention(nn.Module):
    """Self-attention over positions; `by_head`: each head's rows are its queries, keys and values."""

    def __init__(self, channels: int, heads: int, by_head: bool) -> None:
        super().__init__()
        self.heads, self.by_head = heads, by_head
        self.norm = norm(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        count, channels = x.shape[:2]
        width = channels // self.heads
        flat = x.flatten(2)
        rows = self.qkv(self.norm(flat))
        if self.by_head:
            queries, keys, values = rows.reshape(count, self.heads, 3, width, -1).unbind(2)
        else:
            queries, keys, values = rows.reshape(count, 3, self.heads, width, -1).unbind(1)
        weights = torch.softmax(torch.einsum("bhct,bhcs->bhts", queries, keys) / math.sqrt(width), dim=-1)
        mixed = torch.einsum("bhts,bhcs->bhct", weights, values).reshape(flat.shape)
        return (flat + self.proj_out(mixed)).reshape(x.shape)


class Down(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.op(x)


class Up(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(functional.interpolate(x, scale_factor=2, mode="nearest"))


class Block(nn.Sequential):
    """Parts one behind the other, of which residual blocks get the time."""

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:  # type: ignore[override]
        for part in self:
            x = part(x, embedding) if isinstance(part, Residual) else part(x)
        return x


class OpenAIUNet(nn.Module):
    """The whole network."""

    def __init__(
        self,
        width: int = 32,
        multiples: Sequence[int] = (1, 2),
        layers: int = 2,
        attended: Sequence[int] = (1,),
        heads: int = 2,
        by_width: bool = False,
        by_head: bool = True,
        scale_shift: bool = True,
        updown: bool = False,
        inputs: int = 3,
        outputs: int = 6,
        classes: int | None = None,
    ) -> None:
        super().__init__()
        self.width, embedding = width, 4 * width

        def residual(before: int, after: int, resize: str = "") -> Residual:
            return Residual(before, after, embedding, scale_shift, resize)

        def attention(channels: int) -> Attention:
            return Attention(channels, channels // heads if by_width else heads, by_head)

        self.time_embed = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        if classes is not None:
            self.label_emb = nn.Embedding(classes, embedding)
        blocks, kept, channels = [Block(nn.Conv2d(inputs, width, 3, padding=1))], [width], width
        for level, multiple in enumerate(multiples):
            for _ in range(layers):
                parts: list[nn.Module] = [residual(channels, multiple * width)]
                channels = multiple * width
                if level in attended:
                    parts.append(attention(channels))
                blocks.append(Block(*parts))
                kept.append(channels)
            if level < len(multiples) - 1:
                blocks.append(Block(residual(channels, channels, "down") if updown else Down(channels)))
                kept.append(channels)
        self.input_blocks = nn.ModuleList(blocks)
        self.middle_block = Block(residual(channels, channels), attention(channels), residual(channels, channels))
        blocks = []
        for level, multiple in reversed(list(enumerate(multiples))):
            for i in range(layers + 1):
                parts = [residual(channels + kept.pop(), multiple * width)]
                channels = multiple * width
                if level in attended:
                    parts.append(attention(channels))
                if level and i == layers:
                    parts.append(residual(channels, channels, "up") if updown else Up(channels))
                blocks.append(Block(*parts))
        self.output_blocks = nn.ModuleList(blocks)
        self.out = nn.Sequential(norm(channels), nn.SiLU(), nn.Conv2d(width, outputs, 3, padding=1))

    def forward(self, x: Tensor, timesteps: Tensor, labels: Tensor | None = None) -> Tensor:
        half = self.width // 2
        angles = timesteps[:, None] * torch.exp(-math.log(10000) * torch.arange(half) / half)
        embedding = self.time_embed(torch.cat([angles.cos(), angles.sin()], dim=1))
        if labels is not None:
            embedding = embedding + self.label_emb(labels)
        kept = []
        for block in self.input_blocks:
            x = block(x, embedding)
            kept.append(x)
        x = self.middle_block(x, embedding)
        for block in self.output_blocks:
            x = block(torch.cat([x, kept.pop()], dim=1), embedding)
        return self.out(x)
