"""Judge a rung: write the standing, and a note for each candidate that goes on."""

import math
from pathlib import Path

from unequal.errors import UserError
from unequal.pipeline.stage import Run, stage
from unequal.race.bracket import START, label, note, rungs
from unequal.race.judging import standing_document
from unequal.race.results import read_done, results_of
from unequal.race.standing import means
from unequal.runtime.files import read_json, write_json
from unequal.settings.race import Race
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    race: Race


@stage(Settings)
def main(run: Run, settings: Settings, rung: str, after: str) -> None:
    """Judge a rung."""
    noise = read_json(run.input("results/fid/reference.json"))["noise_against_real"]["fid"]
    before = {} if str(run.input(after)) == START else read_done(Path(after))
    run.input(f"results/race/measured/{rung}")
    current = rungs(settings.race, before)[-1]
    if current.name != rung:
        raise UserError(f"race/bracket.yaml: rung '{rung}', its judge said '{current.name}'; run `unequal race run`")
    results, collapsed = results_of(current, noise)
    if not any(map(math.isfinite, means(results).values())):
        reason = next(iter(collapsed.values()))
        raise UserError(f"rung '{rung}': every training has collapsed ({reason}); lower race.rates, or train longer")
    done = {**before, rung: results}
    course = rungs(settings.race, done)
    following = course[-1] if course[-1].name != rung else None
    notes = run.output(f"artifacts/race/admitted/{rung}")
    write_json(notes / "next.json", None if following is None else following.name)
    for one in following.candidates if following else ():
        write_json(notes / note(rung, one).name, {"arm": one.arm, "rate": one.rate})
    document = standing_document(settings.race, done, collapsed, following)
    run.table("standing", document["standing"])
    headline = {f"fid/{rung}/{label(one)}": mean for one, mean in means(results).items() if math.isfinite(mean)}
    run.metrics(f"results/race/standing/{rung}.json", document, headline)
