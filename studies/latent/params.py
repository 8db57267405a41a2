"""The whole of the study's params.yaml."""

from collections.abc import Iterator

from unequal.settings.core import FRESH, PRUNED, Role
from unequal.settings.data import AnyAutoencoder, TrainedAutoencoder
from unequal.settings.params import ExpertParams


class Params(ExpertParams):
    """All sections, and what holds of several of them."""

    autoencoder: AnyAutoencoder

    @property
    def roles(self) -> dict[str, Role]:
        """The base, its groups' experts, and further recipes."""
        return {"base": FRESH, "expert": PRUNED} | super().roles

    @property
    def seen(self) -> tuple[int, int]:
        """Networks see latents."""
        return self.autoencoder.latent_channels, self.data.image_size // self.autoencoder.factor

    def checks(self) -> Iterator[str]:
        """Networks see latents, which have neither bounds nor mirror images."""
        size, factor, chosen = self.data.image_size, self.autoencoder.factor, self.autoencoder
        if size % factor or size < 2 * factor:
            halved = f"block_out_channels: halve images {factor.bit_length() - 1} times"
            which = halved if isinstance(chosen, TrainedAutoencoder) else f"factor: {factor}"
            yield (
                f"autoencoder.{which}; data.image_size {size} is no multiple of {factor} with two latent pixels a side "
                "or more"
            )
            return
        yield from super().checks()
        if self.sampling.clip:
            yield "sampling.clip: true bounds pixels, and latents have no bounds; allowed for latents: false"
        if self.training.horizontal_flips:
            yield (
                "training.horizontal_flips: true would mirror latents, which are not those of the mirrored image; "
                "allowed for latents: false"
            )
        sees_pixels = self.network.condition.kind.endswith("low_resolution")
        if sees_pixels or self.network.variance == "learned":
            what = f"condition.kind: {self.network.condition.kind}" if sees_pixels else "variance: learned"
            yield f"network.{what}; models of latents generate, and their likelihood is not that of pixels"
