"""Encode the images as latents, which the stages behind this one take for their data."""

from unequal.data.latents import makers_of, write_latents
from unequal.data.prepared import PreparedData
from unequal.models.autoencoder import identity, latent_shape, load_autoencoder
from unequal.models.denoiser import Precision
from unequal.pipeline.stage import Run, stage
from unequal.runtime.chunks import Chunks, counted
from unequal.runtime.progress import progress
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    batch_size: int = key("autoencoder.batch_size")
    precision: Precision = key("autoencoder.precision")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Encode the images."""
    images = PreparedData.open(run.input("artifacts/images"))
    folder = run.input("artifacts/autoencoder")
    autoencoder = load_autoencoder(folder, run.device, settings.batch_size, settings.precision)
    channels, size, _ = images.images.shape[1:]
    shape = latent_shape(autoencoder.net, size, channels, str(folder))
    makers, chunks = makers_of(images.images, autoencoder, shape), Chunks(run.work / "latents")
    with progress(len(chunks.own(makers)), "parts", label="latents", shown=run.runtime.progress) as bar:
        chunks.make(counted(makers, bar))
    if run.leads:
        facts = write_latents(images, chunks.each(makers), shape, identity(folder), run.output("artifacts/data"))
        run.metrics("results/metrics/latents.json", facts.model_dump())
