"""The graph of an experiment, made from its declaration: params.yaml and dvc.yaml of its folder `run`."""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from unequal.experiments.declaration import TRAINED, Declared
from unequal.pipeline.fingerprint import code_file
from unequal.pipeline.folders import shipped
from unequal.runtime.files import write_bytes
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.settings.strict import PARAMS, read_yaml

#: Where an experiment runs, below its folder.
RUN = Path("run")
#: Stages of the pipeline that every experiment has too.
SHARED = ("code", "check_params", "prepare_data", "build_extractor", "evaluate_reference")
#: Keys of a declaration, and of a plan, with paths that are relative to the folder of the declaration.
PATHS, PLAN_PATHS = ("data.path", "extractor.weights", "plan.pruning.replay"), ("pruning.replay",)
PROGRAMS = "unequal.experiments.stages"


def lay(folder: Path, declared: Declared) -> Path:
    """Write the graph of an experiment below its folder; return its place. Files of equal content stay untouched."""
    laid = Laid(declared)
    plans = {name: moved(plan, folder, PLAN_PATHS) for name, plan in laid.plans.items()}
    measured = {name: declared.settings(name, ("sampling",)) for name in declared.variants}
    made = {"trainings": laid.trainings, "plans": plans, "measured": measured}
    document = moved(declared.document, folder, PATHS) | made
    pipeline = read_yaml(Path(shipped("dvc.yaml")))["stages"]
    shared = {name: pipeline[name] for name in SHARED}
    shared["check_params"] |= {"cmd": command("check_params")}
    graph = {"stages": shared | laid.stages}
    for name, content in ((PARAMS, document), ("dvc.yaml", graph)):
        text = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120).encode()
        place = folder / RUN / name
        place.parent.mkdir(exist_ok=True)
        if not place.exists() or place.read_bytes() != text:  # Snakemake goes by the time
            write_bytes(place, text)
    return folder / RUN


class Plain(yaml.SafeDumper):
    """YAML without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def moved(document: Mapping[str, Any], folder: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Copy a document with the relative paths at some keys as they are from the folder of the run."""
    copy = deepcopy(dict(document))
    for *sections, last in (key.split(".") for key in keys):
        part: Any = copy
        for section in sections:
            part = part.get(section) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            continue
        path = part.get(last)
        if isinstance(path, str) and not os.path.isabs(os.path.expanduser(path)):
            part[last] = os.path.relpath(folder / path, folder / RUN)
    return copy


def command(program: str, **options: Any) -> str:
    """Command of a stage."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return " ".join(["python", "-P", "-m", f"{PROGRAMS}.{program}", *words])


class Laid:
    """Trainings and stages of an experiment.

    Attributes:
        trainings: name → settings of a training: a variant's, one of a learning rate that is tried, or a base's.
        plans: name of a training that continues a base → its plan.
        stages: name → stage of the graph.
    """

    def __init__(self, declared: Declared) -> None:
        self.declared, self.experiment = declared, declared.experiment
        self.trainings, self.plans, self.stages = (dict[str, dict[str, Any]]() for _ in range(3))
        rates = self.experiment.rates
        for name in declared.variants:
            training = declared.training_of(name)
            if training == name:
                for number, factor in enumerate(rates.factors if rates else ()):
                    for seed in rates.seeds if rates else ():
                        tried = self.train(name, seed, f"{name}_rate_{number}", factor)
                        self.measure(tried, tried, name, seed, "choice")
                if rates:
                    self.choose(name)
            for seed in self.experiment.seeds:
                if training == name:
                    self.train(name, seed, name)
                self.measure(name, training, name, seed, "report")

    def train(self, variant: str, seed: int, name: str, factor: float | None = None) -> str:
        """Add a training, with its base where it continues one.

        Args:
            variant: whose settings it has.
            seed: of weights, batches and noise.
            name: of the training.
            factor: of the learning rate that is tried in a shorter training; None: the whole one, at the chosen rate.
        """
        settings, rates = self.declared.variants[variant], self.experiment.rates
        share = rates.share if rates and factor is not None else 1.0
        sections = {key.rpartition(".")[2]: value for key, value in self.declared.settings(variant, TRAINED).items()}
        sections["recipe"], plan = self.shortened(settings.base, share), sections.pop("plan")
        del sections["base"]
        chosen = [f"artifacts/rates/{variant}.json"] if rates and factor is None else []
        training: dict[str, Any] = {**sections, "chosen": bool(chosen)}
        program, options, deps = "train", dict[str, Any](), chosen
        if settings.plan is None:
            if factor is not None:
                training["recipe"]["optimizer"]["lr"] = factor * settings.base.optimizer.lr
        else:
            base = self.base_of(training, seed)
            program, options = "continue_base", {"base": base}
            deps = [f"artifacts/models/{base}/seed_{seed}", f"artifacts/sources/plans/{name}.json", *chosen]
            self.plans[name] = self.shortened_plan(plan, settings.plan, share, factor or 1.0)
        self.add_training(program, name, seed, training, deps, options)
        return name

    def base_of(self, training: Mapping[str, Any], seed: int) -> str:
        """Name of a base, which is added unless it is there."""
        own = {**training, "chosen": False, "base": None}
        known = [name for name, one in self.trainings.items() if name.startswith("base_") and one == own]
        name = known[0] if known else f"base_{sum(one.startswith('base_') for one in self.trainings)}"
        if f"train_{name}_{seed}" not in self.stages:
            self.add_training("train", name, seed, own, [], {})
        return name

    def add_training(
        self, program: str, name: str, seed: int, training: dict[str, Any], deps: list[str], options: dict[str, Any]
    ) -> None:
        """Add the stage of a training."""
        self.trainings[name] = training | {"base": options.get("base")}
        place, whole = f"{name}/seed_{seed}", "base" not in options
        sections = ("schedule", "network", "training", "recipe", "chosen") if whole else ("training", "chosen")
        self.stages[f"train_{name}_{seed}"] = {
            "desc": "Fresh weights, trained by a recipe" if whole else "Models for groups of timesteps, from a base",
            "cmd": command(program, **(words := {"training": name, "seed": seed, **options})),
            "params": ["profile" if whole else f"plans.{name}", *(f"trainings.{name}.{one}" for one in sections)],
            "deps": ["artifacts/data", *deps, str(code_file(program, words))],
            "outs": [f"artifacts/models/{place}"],
            "metrics": [{f"results/trainings/{place}.json": {"cache": False}}],
            "meta": {"gpu": 1, "runtime": 1440},
        }

    def measure(self, name: str, training: str, variant: str, seed: int, half: str) -> None:
        """Add the stage that measures a training; `half` of the held-out images chooses or reports."""
        place = f"{name}/seed_{seed}"
        words = {"name": name, "training": training, "variant": variant, "seed": seed, "half": half}
        self.stages[f"measure_{name}_{seed}"] = {
            "desc": "Endpoints of a training, on draws and from noise that all trainings of its seed share",
            "cmd": command("measure", **words),
            "params": ["seed", "profile", "evaluation", f"measured.{variant}.sampling"],
            "deps": [
                "artifacts/data",
                "artifacts/extractor",
                f"artifacts/models/{training}/seed_{seed}",
                str(code_file("measure", words)),
            ],
            "outs": [f"artifacts/samples/{place}.npy"],
            "metrics": [{f"results/endpoints/{place}.json": {"cache": False}}],
            "meta": {"gpu": 1, "runtime": 720},
        }

    def choose(self, variant: str) -> None:
        """Add the stage that chooses the learning rate of a variant."""
        rates = self.experiment.rates
        assert rates is not None
        tried = [f"{variant}_rate_{number}/seed_{seed}" for number in range(len(rates.factors)) for seed in rates.seeds]
        self.stages[f"choose_rate_{variant}"] = {
            "desc": "The learning rate of a variant, by the endpoints of shorter trainings",
            "cmd": command("choose_rate", variant=variant),
            "params": ["experiment.rates"],
            "deps": [
                *(f"results/endpoints/{place}.json" for place in tried),
                str(code_file("choose_rate", {"variant": variant})),
            ],
            "metrics": [{f"artifacts/rates/{variant}.json": {"cache": False}}],
        }

    def shortened(self, recipe: Recipe, share: float) -> dict[str, Any]:
        """A recipe for a share of its images, warm-up, snapshots and curriculum included, as a document."""
        optimizer = recipe.optimizer
        warmup = {"warmup_images": round(share * optimizer.warmup_images)}
        changes = {
            "images": round(share * recipe.images),
            "snapshots": tuple(round(share * images) for images in recipe.snapshots),
            "sampler": recipe.sampler.shortened(share),
            "optimizer": optimizer.model_copy(update=warmup),
        }
        return (recipe.model_copy(update=changes) if share < 1 else recipe).model_dump(mode="json")

    def shortened_plan(self, document: dict[str, Any], plan: Plan, share: float, factor: float) -> dict[str, Any]:
        """A plan for a share of its images and of its base's, at a multiple of its learning rate, as a document."""
        recipe = self.shortened(plan.recipe, share)
        recipe["optimizer"]["lr"] = factor * plan.recipe.optimizer.lr
        start = {} if plan.from_images is None else {"from_images": round(share * plan.from_images)}
        return document | {"recipe": recipe} | start
