"""Train the autoencoder in whose latents diffusion will work, or take a trained one."""

from unequal.data.prepared import PreparedData, tensor_of, to_model_range
from unequal.diffusion.super_resolution import psnr
from unequal.models.autoencoder import (
    Autoencoder,
    Net,
    build_autoencoder,
    latent_shape,
    take_over,
    train_autoencoder,
)
from unequal.pipeline.stage import Run, stage
from unequal.settings.data import AnyAutoencoder, PretrainedAutoencoder
from unequal.settings.strict import StageSettings

#: Held-out images by which the autoencoder is judged, at most.
JUDGED = 1000


class Settings(StageSettings):
    seed: int
    autoencoder: AnyAutoencoder


def made(run: Run, settings: Settings, images: PreparedData) -> Net:
    """The network, trained here or elsewhere. Raises UserError where it does not fit the images."""
    chosen, (channels, size, _) = settings.autoencoder, images.images.shape[1:]
    if isinstance(chosen, PretrainedAutoencoder):
        return take_over(chosen, size, channels).to(run.device)
    fresh = build_autoencoder(chosen, size, channels, settings.seed)
    latent_shape(fresh, size, channels, "the network")
    fresh.to(run.device)
    train_autoencoder(fresh, images.train, chosen, settings.seed, run.runtime.progress)
    return fresh


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Make the autoencoder."""
    images = PreparedData.open(run.input("artifacts/images"))
    run.source("autoencoder")
    autoencoder = Autoencoder(made(run, settings, images), settings.autoencoder.batch_size)
    channels, size, _ = images.images.shape[1:]
    held_out = tensor_of(images.holdout[:JUDGED])
    again = autoencoder.reconstruct(held_out)
    shape = latent_shape(autoencoder.net, size, channels, "the autoencoder")
    autoencoder.net.save_pretrained(run.output("artifacts/autoencoder"))
    figures = {
        "kind": type(autoencoder.net).__name__,
        "latent_shape": list(shape),
        "scaling_factor": autoencoder.scale,
        "shift_factor": autoencoder.shift,
        "parameters": sum(parameter.numel() for parameter in autoencoder.net.parameters()),
        "decoding_flops_per_image": autoencoder.decoding_macs(shape),
        "psnr_holdout": float(psnr(to_model_range(again), to_model_range(held_out)).mean()),
        "latent_std_holdout": float(autoencoder.encode(held_out).std()),
    }
    run.metrics("results/metrics/autoencoder.json", figures)
