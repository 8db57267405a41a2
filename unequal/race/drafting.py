"""Draft of a race for a params file: from budget and variants to the section `race`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from unequal.cli.editing import edited, in_lines
from unequal.cli.estimate import start_seconds
from unequal.cli.machine import busy
from unequal.comparison.settings import shortened
from unequal.errors import UserError
from unequal.race.arms import SLOTS, UNIFORM, chosen, fitting
from unequal.race.plan import Plan
from unequal.race.planning import (
    Budget,
    PricedRace,
    affordable,
    counted,
    measured_prices,
    race_section,
    refuse_what_does_not_pay,
    samplings_of,
    smaller_races,
    table,
)
from unequal.race.run import prepare, read_raced
from unequal.race.simulation import best_prospects
from unequal.report.formatting import duration
from unequal.runtime.files import write_bytes
from unequal.settings.params import Raced
from unequal.settings.race import Race
from unequal.settings.recipe import Recipe
from unequal.settings.strict import PARAMS, read_yaml, validate

#: Comments of the keys of a plan, written into the params file.
COMMENTS = {
    "control": "the winner is compared with it",
    "rates": "factors of each variant's own learning rate",
    "slots": "of equal loss, by the control's first training",
    "endpoint": "δ: two recipes are the same within it, in ln(FID)",
    "confirm": "fresh seeds: the claim goes by these alone",
}
#: Legend of the table of plans.
LEGEND = (
    "short: seeds of short trainings, and their share of the images; whole, finals: variants × seeds; fresh: seeds of "
    "winner and control.",
    "FID lost: how far the winner's FID lies above the best variant's; within 5 %: races that find a variant so near "
    "to it.",
    "shown: races that show the winner better than the control, with variants as far apart as on CIFAR-10; half: with "
    "variants half as far apart. One race of 24 shows a difference that is not there.",
)


@dataclass
class Draft:
    """A race to be written into a params file.

    Attributes:
        path: the params file.
        params: its content.
        recipe: recipe of a whole training, which variants change.
        arms: variant → its description, and its changes.
        left_out: shipped variants that cannot be trained here, with the reason.
        rates, delta: settings of the race.
        own_images: number of images of the recipe's own training.
        plan: the best plan; None before plans are simulated.
    """

    path: Path
    params: Raced
    recipe: Recipe
    arms: dict[str, tuple[str, dict[str, Any]]]
    left_out: dict[str, str]
    rates: tuple[float, ...]
    delta: float
    own_images: int
    plan: Plan | None = field(default=None)

    @classmethod
    def of(
        cls,
        folder: Path,
        name: str,
        arms: tuple[str, ...],
        rates: tuple[float, ...],
        delta: float,
        whole_images: int | None,
    ) -> Self:
        """Read a params file and select the variants. Raises UserError for an unknown recipe or variant."""
        params = read_raced(folder)
        if (known := params.race) is not None and known.arms.keys() >= set(arms):
            own = {
                arm: ("", one.model_dump(mode="json", exclude_defaults=True))
                for arm, one in known.arms.items()
                if not arms or arm in arms or arm == known.control
            }
            recipe = resized(known.recipe, whole_images)
            return cls(folder / PARAMS, params, recipe, own, {}, rates, delta, known.recipe.images)
        if name not in params.recipes:
            raise UserError(f"--recipe: '{name}'; {folder / PARAMS} has: {', '.join(params.recipes) or 'none'}")
        recipe = resized(params.recipes[name], whole_images)
        if recipe.optimizer.decay == "constant":
            recipe = recipe.model_copy(update={"optimizer": recipe.optimizer.model_copy(update={"decay": "cosine"})})
        fits, left_out = fitting(recipe, params.schedule, params.training.batch_size)
        raced = chosen(arms, fits, left_out)
        images = params.recipes[name].images
        return cls(folder / PARAMS, params, recipe, raced, {} if arms else left_out, rates, delta, images)

    @property
    def control(self) -> str:
        """Name of the control: that of the file's race, or uniform timesteps."""
        return UNIFORM if self.params.race is None or UNIFORM in self.arms else self.params.race.control

    def lines(self, budget: str | None, images: int | None, final: str | None) -> Iterator[str]:
        """Simulate plans, choose one, and yield lines on it. Raises UserError where none fits or pays."""
        limit = Budget.parsed(budget, images)
        if len(self.arms) < 2:
            raise UserError(f"--arms: {', '.join(self.arms)} alone; allowed: the control and one more, or more")
        for name, reason in self.left_out.items():
            yield f"The variant {name} is left out: {reason}"
        yield "Times how long a stage takes to start here …"
        start = start_seconds()
        yield "Times a few training steps and samples …"
        prices = measured_prices(self.params, self.recipe.images, self.params.sampling, start)
        yield (
            f"A whole training of {self.recipe.images:,} images takes {duration(prices.training)} here, its score "
            f"{duration(prices.scoring)}, and the start of both {duration(prices.start)}."
        )
        yield from busy(self.params)
        priced = PricedRace(tuple(self.arms), self.control, self.rates, self.delta, prices)
        if priced.cheapest(limit) > limit.amount:
            yield from smaller_races(priced, limit)
        candidates = affordable(priced, limit)
        size = f"{len(self.arms)} variants at {counted(self.rates)}"
        fitting = "1 plan fits" if len(candidates) == 1 else f"{len(candidates)} plans fit"
        yield f"Simulates races of {size}: {fitting} {limit.shown(limit.amount)} …"
        found = best_prospects(candidates, len(self.arms), lambda one: priced.price(one, limit), limit.amount)
        yield from table(found, priced, limit)
        yield from LEGEND
        self.plan = found[0].plan
        if final is not None:
            length = Budget.parsed(final, None)
            refuse_what_does_not_pay(found[0], priced.price(self.plan, length), length)
        yield from priced.worth(found[0], limit, self.own_images, final is not None)

    def section(self) -> dict[str, Any]:
        """Build the section `race`. Raises UserError where it is not valid."""
        assert self.plan is not None
        sampling = read_yaml(self.path)["sampling"]
        samplings = samplings_of(sampling, self.params.schedule.timesteps)
        if self.params.race is not None:
            samplings = {
                name: one.model_dump(mode="json", exclude_defaults=True)
                for name, one in self.params.race.samplings.items()
            }
        recipe = self.recipe.model_dump(mode="json", exclude_defaults=True)
        arms = {name: changes for name, (_, changes) in self.arms.items()}
        section = race_section(self.plan, recipe, arms, samplings, self.slots(sampling["batch_size"]))
        validate(Race, section, self.path)
        return section

    def slots(self, batch_size: int) -> dict[str, Any] | None:
        """Settings by which slots are measured: those of the file's race, if any; None: no variant draws from slots."""
        if self.params.race is not None:
            known = self.params.race.slots
            return None if known is None else known.model_dump(mode="json")
        return {"count": 10, "images": 32, "batch_size": batch_size} if SLOTS in self.arms else None

    def write(self) -> None:
        """Write the section into the file, and the graphs next to it; comments of the other sections are preserved.

        If the result is refused, the params file is restored.
        """
        section = self.section()
        lines = in_lines(section, COMMENTS)
        for key, comments in (
            ("recipe", {}),
            ("arms", {name: what for name, (what, _) in self.arms.items() if what}),
            ("samplings", {}),
        ):
            lines[key] = in_lines(section[key], comments)
        lines.yaml_add_eol_comment("what variants change; its images are those of a whole training", "recipe")
        before = self.path.read_bytes()
        write_bytes(self.path, edited(self.path, {"race": lines}).encode())
        try:
            read_raced(self.path.parent)
            prepare(self.path.parent)
        except UserError:
            write_bytes(self.path, before)
            raise


def resized(recipe: Recipe, images: int | None) -> Recipe:
    """Change the number of images of a recipe, with warm-up and curriculum in proportion; None: no change."""
    return recipe if images is None else shortened(recipe, images / recipe.images)
