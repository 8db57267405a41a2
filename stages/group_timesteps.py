"""Group the timesteps by SNR and give each group its limit of FLOPs (TDC training)."""

from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import write_json
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Groups
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings
from unequal.timesteps.partition import flops_groups


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    groups: Groups


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Group the timesteps."""
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    groups = flops_groups(schedule, len(settings.groups.ids), settings.groups.min_ratio)
    names = ("group", "first", "last", "limit_ratio")
    rows = [dict(zip(names, (i, *group), strict=True)) for i, group in enumerate(groups)]
    write_json(
        run.output("artifacts/groups.json"),
        {
            "timesteps": schedule.timesteps,
            "schedule": schedule.name,
            "min_ratio": settings.groups.min_ratio,
            "groups": rows,
        },
    )
    mean = sum((last - first + 1) * limit for first, last, limit in groups) / schedule.timesteps
    run.metrics("results/metrics/groups.json", {"mean_limit_ratio": mean, "groups": len(groups)})


if __name__ == "__main__":
    main()
