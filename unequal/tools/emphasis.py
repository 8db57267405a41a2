"""What recipes put their weight on: `python -m unequal.tools.emphasis RECIPE …` draws density × weight, and says a few.

Density, weight and their product over t, and over λ = ln SNR, where different schedules can be laid over each other
(`unequal.reporting.emphasis`).
"""

from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import ConfigDict

from unequal.errors import UserError
from unequal.reporting.emphasis import draw, emphasis
from unequal.reporting.figures import save
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, read_yaml, validate


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


@click.command(help=__doc__)
@click.argument("recipes", nargs=-1, required=True)
@click.option("--params", default="params.yaml", show_default=True, type=click.Path(path_type=Path))
@click.option("--target", default="emphasis.png", show_default=True, type=click.Path(path_type=Path))
def main(recipes: Sequence[str], params: Path, target: Path) -> None:
    """Draw some recipes of a params file."""
    try:
        settings = validate(Recipes, read_yaml(params), params)
        schedule, samplers = settings.schedule.tables(), params.parent / "artifacts/samplers"
        found = [emphasis(name, settings.named(name), schedule, samplers) for name in recipes]
        save(target, (13, 7), lambda figure: draw(figure, found, schedule))
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{'recipe':24} {'p_0':>10} {'p_(T-1)':>10} {'mean t':>12} {'× weight':>12}")
    click.echo("\n".join(one.line for one in found))
    click.echo(f"drawn: {target}")


if __name__ == "__main__":
    main()
