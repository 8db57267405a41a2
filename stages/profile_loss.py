"""Measure a model's loss at every timestep, on training and held-out images."""

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.files import rounded, write_csv, write_npz
from unequal.measures.loss_profile import SPACES, LossProfile, space_factor
from unequal.measures.profiling import Draws, profile
from unequal.models.denoiser import load_denoiser
from unequal.models.folder import ModelRecord
from unequal.pipeline.stage import Run, stage
from unequal.settings.profile import Profile
from unequal.settings.strict import StageSettings
from unequal.workspace.chunks import Chunks


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, model: str) -> None:
    """Profile the loss of a model."""
    data = PreparedData.open(run.input("artifacts/data"))
    denoiser, record = load_denoiser(run.input(f"artifacts/models/{model}"), run.device)
    record.spec.check_images(data, model)
    chosen = settings.profile
    losses = {}
    for split, images in (("train", data.train[chosen.profiled]), ("holdout", data.holdout)):
        pictures, labels = tensor_of(images), data.labels_of(split)
        draws = Draws.of(pictures, record.spec.timesteps, chosen.images, settings.seed, run.device, labels)
        losses[split] = profile(denoiser, draws, chosen.batch_size, run.runtime.progress, Chunks(run.work / split))
    write_npz(run.output(f"artifacts/profiles/{model}.npz"), **losses)
    profiles = in_all_spaces({split: LossProfile.of(table) for split, table in losses.items()}, record)
    write_csv(run.output(f"results/profiles/{model}.csv"), rows(profiles))
    run.metrics(f"results/metrics/profile_{model}.json", summary(profiles) | {"images_per_timestep": chosen.images})


def in_all_spaces(profiles: dict[str, LossProfile], record: ModelRecord) -> dict[str, LossProfile]:
    """Split, with `_v` or `_x0` behind it where the loss is not told in ε-space, → profile."""
    schedule = record.spec.noise_schedule()
    suffixes = {space: "" if space == "epsilon" else f"_{space}" for space in SPACES}
    return {
        f"{split}{suffix}": profile.scaled(space_factor(space, schedule))
        for split, profile in profiles.items()
        for space, suffix in suffixes.items()
    }


def rows(profiles: dict[str, LossProfile]) -> list[dict[str, float]]:
    """A row a timestep: every profile's loss and standard error."""
    columns = {f"loss_{name}": profile.mean for name, profile in profiles.items()}
    columns |= {f"stderr_{name}": profile.stderr for name, profile in profiles.items()}
    timesteps = range(len(profiles["train"].mean))
    return [{"timestep": t} | {name: rounded(column[t]) for name, column in columns.items()} for t in timesteps]


def summary(profiles: dict[str, LossProfile]) -> dict[str, float]:
    """Mean loss of every profile, and how unequal its timesteps are."""
    means = {f"mean_{name}": float(profile.mean.mean()) for name, profile in profiles.items()}
    return means | {f"largest_over_smallest_{name}": one.largest_over_smallest for name, one in profiles.items()}


if __name__ == "__main__":
    main()
