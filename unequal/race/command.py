"""`unequal race`: find the recipe that pays on these data, within a budget."""

from pathlib import Path

import click

from unequal.errors import say

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
folder_argument = click.argument("folder", type=FOLDER, default=".")


@click.group()
def race() -> None:
    """Find the timestep recipe that trains best on your data, within a budget.

    `plan` writes the section `race` of params.yaml, `run` carries it out, `show` prints the standing, `adopt` writes
    the recipe into params.yaml.
    """


@race.command()
@folder_argument
@click.option("--budget", help="Time of one device: 40h, 90min, 2d.")
@click.option("--images", type=int, help="The budget in training images, instead of time.")
@click.option("--final", help="Time of the training that the recipe is for: a race that does not pay is refused.")
@click.option("--arms", default="", help="Variants to race besides the control, with commas.  [default: all that fit]")
@click.option("--rates", default="0.5,1,2", show_default=True, help="Factors of each variant's learning rate.")
@click.option("--delta", default=0.05, show_default=True, help="Difference of ln(FID) that counts as the same.")
@click.option("--whole-images", type=int, help="Images of a whole training; default: those of the recipe.")
@click.option("--recipe", default="base", show_default=True, help="The recipe of params.yaml that variants change.")
@click.option("--dry-run", is_flag=True, help="Show the plans, and write nothing.")
def plan(
    folder: Path,
    budget: str | None,
    images: int | None,
    final: str | None,
    arms: str,
    rates: str,
    delta: float,
    whole_images: int | None,
    recipe: str,
    dry_run: bool,
) -> None:
    """Price trainings here, simulate plans for the budget, and write the best one into FOLDER/params.yaml."""
    say(f"{folder / 'params.yaml'}: reads the settings …")
    from unequal.race.drafting import Draft

    draft = Draft.of(folder, recipe, split(arms), numbers(rates), delta, whole_images)
    for line in draft.lines(budget, images, final):
        say(line)
    where = "" if folder == Path() else f" {folder}"
    if dry_run:
        say("Nothing was written; next: the same command without --dry-run.")
        return
    draft.write()
    say(f"{folder / 'params.yaml'}: race written; next: unequal race run{where}")


@race.command(context_settings={"ignore_unknown_options": True})
@folder_argument
@click.argument("options", metavar="[-- ENGINE_OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--cores", default=2, show_default=True, help="Stages that run side by side (Snakemake).")
@click.option("--engine", type=click.Choice(["snakemake", "dvc"]), default="snakemake", show_default=True)
@click.option(
    "--dry-run", is_flag=True, help="List the trainings of the first rung that is not judged, and write nothing."
)
def run(folder: Path, options: tuple[str, ...], cores: int, engine: str, dry_run: bool) -> None:
    """Run the race of FOLDER to its end, or continue it; ENGINE_OPTIONS are passed to the engine.

    The same command continues after a kill or an edit; trainings that are done are not run again.
    """
    from unequal.race.adopting import standing_of
    from unequal.race.run import carry_out, preview
    from unequal.race.showing import lines

    if dry_run:
        where = "" if folder == Path() else f" {folder}"
        say(*preview(folder), f"Nothing was written; next: unequal race run{where}")
        return
    folder = folder.resolve()
    for rung in carry_out(folder, engine, cores, options):
        say(f"race: {rung} is judged")
        said = list(lines(standing_of(folder)))
        say(said[0])
        say(said[-1])
    say(folder / "results/race/report.html")


@race.command()
@folder_argument
def show(folder: Path) -> None:
    """Print the standing of the race in FOLDER."""
    from unequal.race.adopting import standing_of
    from unequal.race.showing import lines

    for line in lines(standing_of(folder.resolve())):
        say(line)


@race.command()
@folder_argument
@click.option("--recipe", default="base", show_default=True, help="The recipe of params.yaml that is changed.")
def adopt(folder: Path, recipe: str) -> None:
    """Write the best bet into FOLDER/params.yaml; comments stay, and so do images and warm-up of the recipe."""
    from unequal.race.adopting import adopt_into

    keys = adopt_into(folder.resolve(), recipe)
    say(f"{folder / 'params.yaml'}: {', '.join(keys) if keys else 'has the recipe already'}")


def split(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(one.strip() for one in text.split(",") if one.strip())


def numbers(text: str) -> tuple[float, ...]:
    """Parse a comma-separated list of numbers, in ascending order. Raises UserError."""
    from unequal.errors import UserError

    try:
        found = sorted(float(one) for one in split(text))
    except ValueError:
        raise UserError(f"--rates: '{text}'; allowed: numbers between commas, as 0.5,1,2") from None
    if not found or found[0] <= 0 or len(set(found)) < len(found):
        raise UserError(f"--rates: '{text}'; allowed: unequal numbers above 0, as 0.5,1,2")
    return tuple(found)
