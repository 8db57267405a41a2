"""Write the page of a race, its findings, and the recipe to paste."""

from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.race.findings import Standing, chosen_sampling, measured_slots, seconds_of
from unequal.race.page import write_page
from unequal.race.results import read_done
from unequal.runtime.files import read_json
from unequal.settings.race import Race
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    race: Race
    schedule: Schedule


@stage(Settings)
def main(run: Run, settings: Settings, after: str) -> None:
    """Write the page."""
    data = PreparedData.open(run.input("artifacts/data"))
    last = run.input(after)
    done, race = read_done(last), settings.race
    run.input("results/race/measured")
    samples = run.input("artifacts/race/samples")
    seconds = seconds_of(race, done, run.input("results/race/trainings"), run.input("results/race/seconds"))
    ended, slots = read_json(last)["next"] is None, measured_slots(race)
    standing = Standing(race, done, ended, seconds, chosen_sampling(race, done), slots)
    write_page(run, standing, settings.schedule, samples, data)
