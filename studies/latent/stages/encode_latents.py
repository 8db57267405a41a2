"""Encode the images as latents, which the stages behind this one take for their data."""

from unequal.data.prepared import PreparedData
from unequal.latents.autoencoder import identity, latent_shape, load_autoencoder
from unequal.latents.encoding import encode
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    batch_size: int = key("autoencoder.batch_size")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Encode the images."""
    images = PreparedData.open(run.input("artifacts/images"))
    folder = run.input("artifacts/autoencoder")
    autoencoder = load_autoencoder(folder, run.device, settings.batch_size)
    channels, size, _ = images.images.shape[1:]
    shape = latent_shape(autoencoder.net, size, channels, str(folder))
    facts = encode(images, autoencoder, shape, identity(folder), run.output("artifacts/data"))
    run.metrics("results/metrics/latents.json", facts.model_dump())


if __name__ == "__main__":
    main()
