"""Runs of a race: its graph is written next to the params file, and an engine runs rung after rung."""

from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path

from unequal.comparison.run import LAID, lay, make_project, run_engine
from unequal.errors import UserError
from unequal.pipeline.fingerprint import write_fingerprints
from unequal.pipeline.params_files import read_params
from unequal.pipeline.recording import is_changed, record_finished, stages_of
from unequal.pipeline.sources import write_sources
from unequal.race.bracket import BRACKET, GRAPH, bracket, bracket_text, rungs, standing_file, training_name
from unequal.race.params import RaceParams
from unequal.race.plan import Rung
from unequal.race.results import read_done
from unequal.runtime.files import json_or_none, write_bytes
from unequal.settings.params import Raced
from unequal.settings.race import Race
from unequal.settings.strict import PARAMS, read_yaml

#: The graph of every race, and the stages that the folder's own graph must provide.
SHARED, HOME = Path(__file__).with_name("graph.yaml"), Path(__file__).with_name("home.yaml")
#: The folder's own graph, and the stage that writes the page.
OWN, PAGE = Path("dvc.yaml"), "report_race@page"
HEAD = LAID.replace("compare", "race")


def race_of(folder: Path) -> Race:
    """Read the race in a folder's params.yaml. Raises UserError where there is none."""
    params = read_raced(folder)
    if params.race is None:
        raise UserError(f"{folder / PARAMS}: race: missing; `unequal race plan --budget …` writes it")
    return params.race


def read_raced(folder: Path) -> Raced:
    """Read a folder's params.yaml as a whole. Raises UserError where it is not valid, or is a comparison's."""
    path = folder / PARAMS
    params = read_params(path) if (folder / OWN).exists() else RaceParams.read(path)
    if not isinstance(params, Raced):
        raise UserError(
            f"{folder / PARAMS}: the settings of a comparison; allowed: those of the pipeline, or of a race"
        )
    return params


def prepare(folder: Path) -> None:
    """Write the graphs of a race into a folder with a params.yaml. Raises UserError where there is none."""
    if not (folder / PARAMS).exists():
        raise UserError(f"{folder}: no {PARAMS}; allowed: a folder with the settings of a race")
    own, ignored = folder / OWN, f"{GRAPH}\n{BRACKET}\n"
    if not own.exists() or own.read_text(encoding="utf-8").startswith(HEAD):
        lay(own, f"{HEAD}\n{HOME.read_text(encoding='utf-8')}")
        ignored += f"/{OWN}\n"
    if not (folder / BRACKET).exists():
        write_bytes(folder / BRACKET, bracket_text(bracket_of_nothing()).encode())
    lay(folder / GRAPH, f"{HEAD}\n{SHARED.read_text(encoding='utf-8')}")
    make_project(folder, ignored)


def bracket_of_nothing() -> dict[str, dict[str, str]]:
    """Document of a bracket without trainings."""
    return {"trainings": {}, "single": {}, "experts": {}, "profiled": {}, "judged": {}, "sampled": {}, "reported": {}}


def preview(folder: Path) -> Iterator[str]:
    """Yield lines on the trainings of the first rung that is not judged; nothing is written."""
    race = race_of(folder)
    course = rungs(race, {})
    while (judged := folder / standing_file(course[-1].name)).exists():
        before, course = course, rungs(race, read_done(judged))
        if len(course) == len(before):
            yield "race: every rung is judged"
            return
    rung = course[-1]
    names = [training_name(one, block) for one in rung.candidates for block in rung.blocks]
    images = round(rung.share * race.recipe.images)
    yield f"race: {rung.name}: {len(names)} trainings of {images:,} images, but for those that are done:"
    yield from (f"  {name}" for name in names)


def carry_out(folder: Path, engine: str, cores: int, options: Sequence[str] = ()) -> Iterator[str]:
    """Run a race to its end, rung after rung; yield the name of each rung that is done.

    The bracket does not change during a call of the engine. Rungs that are done are not trained again.

    Raises:
        UserError: the engine ended with an error.
    """
    prepare(folder)
    race, last = race_of(folder), None
    while True:
        course = rungs(race, {} if last is None else read_done(folder / standing_file(last)))
        if course[-1].name == last:
            return
        lay(folder / BRACKET, bracket_text(bracket(race, course)))
        last = course[-1].name
        if not is_done(folder, race, course):
            run_engine(folder, engine, cores, options, graph=GRAPH)
        yield last


def is_done(folder: Path, race: Race, course: Sequence[Rung]) -> bool:
    """Say whether nothing in the bracket is stale; the page counts only where no rung follows."""
    with chdir(folder):
        write_fingerprints(OWN)
        write_sources(OWN)
        for graph in (OWN, GRAPH):
            record_finished(graph)
        stale = {stage.name for graph in (OWN, GRAPH) for stage in stages_of(graph) if is_changed(stage)}
        if stale - {PAGE}:
            return False
        done = read_done(standing_file(course[-1].name))
        return PAGE not in stale or len(rungs(race, done)) > len(course)


def last_standing(folder: Path) -> Path:
    """File of the standing of the last judged rung in the bracket. Raises UserError where no rung is judged."""
    path = folder / BRACKET
    judged = list(read_yaml(path)["judged"]) if path.exists() else []
    done = [folder / standing_file(rung) for rung in judged if json_or_none(folder / standing_file(rung))]
    if not done:
        raise UserError(f"{folder}: no rung of a race is judged yet; run `unequal race run`")
    return done[-1]
