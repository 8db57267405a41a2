"""What recipes put their weight on: `python -m unequal.tools.emphasis RECIPE …` draws density × weight, and says a few.

Density, weight and their product over t, and over λ = ln SNR, where different schedules can be laid over each other
(`unequal.reporting.emphasis`). A recipe that trains inside ranges is drawn once for each: for every group where it is
`expert`, and for every slot where it is another one.
"""

from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import ConfigDict

from unequal.artifacts.partitions import read_groups, read_slots
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.reporting.emphasis import Emphasis, draw, emphasis
from unequal.reporting.figures import save
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.timesteps.partition import TimestepRange


class Recipes(Strict):
    """What a params file, of whichever kind, says of its recipes; all else in it is passed over."""

    model_config = ConfigDict(extra="ignore")

    schedule: Schedule
    recipes: dict[str, Recipe]

    def named(self, name: str) -> Recipe:
        """The recipe of that name. Raises UserError where there is none."""
        if name not in self.recipes:
            raise UserError(f"recipes: there is no '{name}'; allowed: {', '.join(self.recipes)}")
        return self.recipes[name]


def curves(name: str, recipe: Recipe, schedule: NoiseSchedule, artifacts: Path) -> list[Emphasis]:
    """One of a recipe, or one for each range that it trains inside. Raises UserError where a file is missing."""
    samplers = artifacts / "samplers"
    if recipe.sampler.for_all:
        return [emphasis(name, recipe, schedule, samplers)]
    ranges = ranges_of(name, artifacts, schedule.timesteps).items()
    return [emphasis(f"{name}_{number}", recipe, schedule, samplers, one) for number, one in ranges]


def ranges_of(name: str, artifacts: Path, timesteps: int) -> dict[int, TimestepRange]:
    """Groups, counted from 0, or slots, counted from 1. Raises UserError where their file is missing."""
    if name == "expert":
        return dict(enumerate(read_groups(artifacts / "groups.json").partition.covering(timesteps, "groups")))
    return dict(enumerate(read_slots(artifacts / "slots.json", timesteps).slots, start=1))


@click.command(help=__doc__)
@click.argument("recipes", nargs=-1, required=True)
@click.option("--params", default="params.yaml", show_default=True, type=click.Path(path_type=Path))
@click.option("--target", default="emphasis.png", show_default=True, type=click.Path(path_type=Path))
def main(recipes: Sequence[str], params: Path, target: Path) -> None:
    """Draw some recipes of a params file."""
    try:
        settings = validate(Recipes, read_yaml(params), params)
        schedule, artifacts = settings.schedule.tables(), params.parent / "artifacts"
        found = [one for name in recipes for one in curves(name, settings.named(name), schedule, artifacts)]
        save(target, (13, 7), lambda figure: draw(figure, found, schedule))
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{'recipe':24} {'p_0':>10} {'p_(T-1)':>10} {'mean t':>12} {'× weight':>12}")
    click.echo("\n".join(one.line for one in found))
    click.echo(f"drawn: {target}")


if __name__ == "__main__":
    main()
