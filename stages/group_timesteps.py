"""Group the timesteps and give each group its limit of FLOPs (TDC training)."""

from unequal.diffusion.schedule import noise_schedule
from unequal.evaluation.profiles import excess_of
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import write_json
from unequal.settings.groups import Groups
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings
from unequal.timesteps.groups import TimestepGroup, mean_limit, timestep_groups
from unequal.training.timestep_files import NumberedGroup


class Settings(StageSettings):
    schedule: Schedule
    groups: Groups


def sizes(groups: list[TimestepGroup]) -> dict[str, int]:
    """Count the timesteps of each group."""
    return {f"timesteps_of_group_{number}": group.range.length for number, group in enumerate(groups)}


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Group the timesteps."""
    chosen = settings.groups
    schedule = noise_schedule(settings.schedule)
    excess = None
    if chosen.needs_excess:
        excess = excess_of(run.input("artifacts/profiles/base.npz"), run.input("artifacts/profiles/floor.npz"))
    groups = timestep_groups(chosen.kind, schedule, len(chosen.ids), chosen.min_ratio, excess)
    table = {
        "timesteps": schedule.timesteps,
        "schedule": schedule.name,
        **settings.schedule.model_dump(exclude={"name", "timesteps"}),
        "kind": chosen.kind,
        "min_ratio": chosen.min_ratio,
        "groups": [NumberedGroup.of(number, one).model_dump() for number, one in enumerate(groups)],
    }
    write_json(run.output("artifacts/groups.json"), table)
    figures = {"mean_limit_ratio": mean_limit(groups), "groups": len(groups)} | sizes(groups)
    run.metrics("results/metrics/groups.json", figures)
