"""Group the timesteps and give each group its limit of FLOPs (TDC training)."""

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import read_npz, write_json
from unequal.measures.loss_profile import excess_loss
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Groups
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings
from unequal.timesteps.partition import TimestepGroup, mean_limit, timestep_groups


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    groups: Groups


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Group the timesteps."""
    chosen = settings.groups
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    excess = measured_excess(run) if chosen.kind == "excess_loss" else None
    groups = timestep_groups(chosen.kind, schedule, len(chosen.ids), chosen.min_ratio, excess)
    table = {
        "timesteps": schedule.timesteps,
        "schedule": schedule.name,
        "kind": chosen.kind,
        "min_ratio": chosen.min_ratio,
        "groups": [{"group": number} | group._asdict() for number, group in enumerate(groups)],
    }
    write_json(run.output("artifacts/groups.json"), table)
    figures = {"mean_limit_ratio": mean_limit(groups), "groups": len(groups)} | sizes(groups)
    run.metrics("results/metrics/groups.json", figures)


def measured_excess(run: Run) -> np.ndarray:
    """What the base loses beyond the floor, [T]. Raises UserError where the floor has not been computed."""
    base = read_npz(run.input("artifacts/profiles/base.npz"), ["train"])["train"]
    floor = read_npz(run.input("artifacts/profiles/floor.npz"), ["train"])["train"]
    if not floor.size:
        raise UserError("groups.kind: 'excess_loss' needs a floor; set profile.floor to all, or a number of images")
    return excess_loss(base, floor)


def sizes(groups: list[TimestepGroup]) -> dict[str, int]:
    """How many timesteps each group holds."""
    return {f"timesteps_of_group_{number}": group.timesteps for number, group in enumerate(groups)}


if __name__ == "__main__":
    main()
