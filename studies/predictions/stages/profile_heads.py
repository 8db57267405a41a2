"""Measure the error of every head of a trial at every timestep, on the same held-out draws for all trials."""

import numpy as np

from studies.grid.settings import trial_name
from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.files import write_npz
from unequal.measures.profiling import Draws, head_products
from unequal.models.denoiser import load_denoiser
from unequal.models.folder import load_heads
from unequal.pipeline.stage import Run, stage
from unequal.settings.profile import Profile
from unequal.settings.strict import StageSettings
from unequal.workspace.chunks import Chunks


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Profile the heads of a trial: three of a mixed one, one of the others."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(f"artifacts/models/{trial_name(recipe, batch, seed)}")
    folder = run.input(f"artifacts/models/{trial_name(recipe, batch, seed)}")
    denoiser, record = load_denoiser(folder, run.device)
    chosen, heads = settings.profile, load_heads(folder)
    images, labels = tensor_of(data.holdout), data.holdout_labels
    draws = Draws.of(images, record.spec.timesteps, chosen.images, settings.seed, run.device, labels)
    products = head_products(denoiser, draws, chosen.batch_size, run.runtime.progress, Chunks(run.work))
    # Beside them the products by which the heads are combined: of the same images, but of other noise.
    settled = {} if heads is None else {"settled": heads.products.numpy()}
    path = run.output(f"artifacts/heads/{trial_name(recipe, batch, seed)}.npz")
    write_npz(path, products=products.astype(np.float32), **settled)


if __name__ == "__main__":
    main()
