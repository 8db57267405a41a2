"""Settings of the study: ways of taking few sampling steps, with equal calls of the network."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.comparison.settings import LEAST, refuse_twice
from unequal.settings.core import FRESH, Role
from unequal.settings.evaluation import Profile, Sampling, Spacing
from unequal.settings.params import Scored
from unequal.settings.strict import Strict
from unequal.settings.values import Seed

Solver = Literal["ddim", "heun", "dpm_solver_2m"]


class Way(Strict):
    """A solver, and how its steps are spread over the timesteps."""

    solver: Solver
    spacing: Spacing

    @property
    def name(self) -> str:
        return f"{self.solver}_{self.spacing}"

    def sampling(self, common: Sampling, calls: int) -> Sampling:
        """How samples are made by so many calls of the network; all else is as in `common`."""
        steps = (calls + 1) // 2 if self.solver == "heun" else calls  # Heun's N steps take 2N − 1
        changes = {"steps": steps, "solver": self.solver, "spacing": self.spacing}
        return Sampling.model_validate(common.model_dump() | changes)


class Sweep(Strict):
    """Every way is tried with every number of calls, on the base of every block."""

    question: str = Field(min_length=1, description="of the study, the heading of its page")
    blocks: tuple[Seed, ...] = Field(description="seeds of blocks: each has a base of its own")
    fresh: tuple[Seed, ...] = Field(
        min_length=LEAST, description="blocks without a say in what comes first, which they hold against the control"
    )
    calls: tuple[int, ...] = Field(min_length=1, description="of the network for a sample; odd, from 3")
    solvers: tuple[Solver, ...] = Field(min_length=1)
    spacings: tuple[Spacing, ...] = Field(min_length=1)
    control: Way = Field(description="what all other ways are held against, with as many calls")
    delta: PositiveFloat = Field(description="δ: the difference of ln FID below which two ways are alike")

    @property
    def ways(self) -> dict[str, Way]:
        """Solvers × spacings, by their names."""
        pairs = (Way(solver=solver, spacing=spacing) for solver in self.solvers for spacing in self.spacings)
        return {one.name: one for one in pairs}

    @property
    def judged(self) -> tuple[Seed, ...]:
        """Blocks by which ways are judged."""
        return tuple(block for block in self.blocks if block not in self.fresh)

    @property
    def repeated(self) -> str:
        """The A/A arm: the control's samples from other noise."""
        return f"{self.control.name}_again"

    @property
    def compared(self) -> tuple[str, ...]:
        """Ways that have verdicts, for each number of calls a family."""
        return tuple(name for name in self.ways if name != self.control.name)

    @model_validator(mode="after")
    def calls_are_odd(self) -> Self:
        """Only then has Heun's method as many as the others."""
        for calls in self.calls:
            if calls < 3 or not calls % 2:
                raise ValueError(f"calls: {calls}; Heun's N steps take 2N − 1; allowed: odd numbers from 3")
        return self

    @model_validator(mode="after")
    def there_is_something_to_compare(self) -> Self:
        """Ways with a control among them, each once, in blocks that judge and in fresh ones."""
        for axis in ("blocks", "calls", "solvers", "spacings"):
            refuse_twice(axis, getattr(self, axis))
        if len(self.blocks) - len(self.judged) < len(self.fresh) or len(self.judged) < LEAST:
            raise ValueError(f"fresh: {list(self.fresh)}; allowed: some of blocks, {LEAST} of which are left")
        if self.control.name not in self.ways:
            raise ValueError(f"control: {self.control.name}; allowed: {', '.join(self.ways)}")
        if not self.compared:
            raise ValueError(f"solvers and spacings: {self.control.name} alone; allowed: another way besides")
        return self


class Params(Scored):
    """A base a block; its samples by all ways are scored."""

    profile: Profile
    subject: str
    sweep: Sweep

    @property
    def roles(self) -> dict[str, Role]:
        """The base."""
        return super().roles | {"base": FRESH}

    @model_validator(mode="after")
    def bases_can_be_sampled(self) -> Self:
        """Blocks begin with fresh weights, each step has a timestep of its own, and solvers follow a path."""
        if self.network.pretrained is not None:
            raise ValueError(f"network.pretrained: '{self.network.pretrained}'; blocks begin with fresh weights: null")
        if (most := max(self.sweep.calls)) > self.schedule.timesteps:
            raise ValueError(f"sweep.calls: {most}; at most schedule.timesteps: {self.schedule.timesteps}")
        if self.sampling.eta:
            raise ValueError(f"sampling.eta: {self.sampling.eta:g}; solvers of higher order add no noise; allowed: 0.0")
        return self
