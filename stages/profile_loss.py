"""Measure the errors of a model or a set of experts at every timestep, on training and held-out images."""

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import SPACES, Errors, LossProfile, as_metrics, endpoints, space_factor
from unequal.evaluation.profiles import write_profile
from unequal.evaluation.profiling import Draws, profile
from unequal.pipeline.stage import Run, stage
from unequal.runtime.chunks import Chunks
from unequal.runtime.files import rounded, write_csv
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Profile
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    seed: int
    profile: Profile


def in_all_spaces(errors: dict[str, Errors], schedule: NoiseSchedule) -> dict[str, LossProfile]:
    """Collect split → profile of the loss; a name ends in `_v` or `_x0` for a loss in that space.

    `_x0_clipped` marks the error of x0 as sampling uses it, clipped for pixels.
    """
    suffixes = {space: "" if space == "epsilon" else f"_{space}" for space in SPACES}
    by_space = {
        f"{split}{suffix}": LossProfile.of(found.epsilon).scaled(space_factor(space, schedule))
        for split, found in errors.items()
        for space, suffix in suffixes.items()
    }
    return by_space | {f"{split}_x0_clipped": LossProfile.of(found.x0) for split, found in errors.items()}


def rows(profiles: dict[str, LossProfile]) -> list[dict[str, float]]:
    """Make a row for each timestep: every profile's loss and standard error."""
    columns = {f"loss_{name}": profile.mean for name, profile in profiles.items()}
    columns |= {f"stderr_{name}": profile.stderr for name, profile in profiles.items()}
    timesteps = range(len(profiles["train"].mean))
    return [{"timestep": t} | {name: rounded(column[t]) for name, column in columns.items()} for t in timesteps]


def summary(profiles: dict[str, LossProfile]) -> dict[str, float]:
    """Return the mean loss of every profile, and how unequal its timesteps are."""
    means = {f"mean_{name}": float(profile.mean.mean()) for name, profile in profiles.items()}
    return means | {f"largest_over_smallest_{name}": one.largest_over_smallest for name, one in profiles.items()}


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, model: str) -> None:
    """Profile a model, or experts by their routing."""
    data = PreparedData.open(run.input("artifacts/data"))
    experts = Ensemble.load(run.input(f"artifacts/models/{model}"), run.device)
    spec, schedule = experts.record.spec, experts.record.spec.noise_schedule()
    spec.check_images(data, model)
    chosen, runtime = settings.profile, run.runtime
    calls = 2 * chosen.calls(spec.timesteps)
    experts = experts.accelerated(chosen.precision, runtime.channels_last, runtime.compile, calls)
    errors = {}
    train = data.train[: chosen.floor if isinstance(chosen.floor, int) else None]
    for split, images in (("train", train), ("holdout", data.holdout)):
        pictures, labels = tensor_of(images), data.labels_of(split)
        draws = Draws.of(pictures, spec.timesteps, chosen.images, settings.seed, run.device, labels)
        errors[split] = profile(experts, draws, chosen.batch_size, runtime.progress, Chunks(run.work / split))
    write_profile(run.output(f"artifacts/profiles/{model}.npz"), errors)
    profiles = in_all_spaces(errors, schedule)
    write_csv(run.output(f"results/profiles/{model}.csv"), rows(profiles))
    compared = as_metrics(endpoints(schedule), errors["holdout"])
    run.metrics(
        f"results/metrics/profile_{model}.json",
        summary(profiles) | compared | {"images_per_timestep": chosen.images, "experts": len(experts.experts)},
    )
