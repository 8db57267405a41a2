"""UNet2DModel: DDPM's network, of pixels or latents, told nothing or a class."""

from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor, nn

from unequal.profiler.families.family import LABEL, Asked, Family, dtype_of


class UNet2D(Family):
    """Pipelines such as DDPMPipeline and LDMPipeline."""

    part, kind = "unet", UNet2DModel

    def check(self) -> None:
        super().check()
        if self.config.get("time_embedding_type") == "fourier":
            raise self.refusal("is told noise levels; allowed: networks that take timesteps")
        if self.config.get("class_embed_type") is not None:
            raise self.refusal(f"is told classes as '{self.config['class_embed_type']}'; allowed: as labels, or none")

    @property
    def multiple(self) -> int:
        return int(2 ** (len(self.config["block_out_channels"]) - 1))

    @property
    def classes(self) -> int | None:
        return self.config.get("num_class_embeds")

    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        labels = asked.known.get(LABEL)
        return self.without_variance(net(asked.x_t.to(dtype_of(net)), asked.told, class_labels=labels).sample)
