"""DiTTransformer2DModel: DiT's transformer of latents, told a class or that there is none (2212.09748)."""

from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel
from torch import Tensor, nn

from unequal.profiler.families.family import LABEL, Asked, Family, dtype_of


class DiT(Family):
    """DiTPipeline."""

    part, kind = "transformer", DiTTransformer2DModel

    @property
    def multiple(self) -> int:
        return int(self.config["patch_size"])

    @property
    def classes(self) -> int:
        return int(self.config["num_embeds_ada_norm"])

    @property
    def null_class(self) -> int:
        return self.classes

    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        x_t = asked.x_t.to(dtype_of(net))
        return self.without_variance(net(x_t, timestep=asked.told, class_labels=asked.known[LABEL]).sample)
