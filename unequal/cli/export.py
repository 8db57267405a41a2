"""Export of models, as a folder that diffusers loads or as one that this library loads."""

import shutil
from pathlib import Path
from textwrap import indent

from unequal.cli.card import write_card
from unequal.cli.loading import AUTOENCODER, loading_code
from unequal.errors import UserError, say
from unequal.models.autoencoder import identity
from unequal.models.backbones.backbone import Unexportable, backbone_of
from unequal.models.class_names import write_class_names
from unequal.models.folder import AVERAGES, PRUNING, RECORD, SNAPSHOTS, STATE, ModelRecord, load_record
from unequal.models.pruned import load_any_model
from unequal.models.spec import ModelSpec
from unequal.runtime.files import appearing, read_json, refuse_existing
from unequal.sampling.ensemble import Ensemble, group_folders
from unequal.settings.schedule import FlowSchedule

SCORES = Path("results/scores.json")
MODELS = Path("artifacts/models")


def export_model(source: Path, target: Path) -> None:
    """Write one model as a pipeline of diffusers or, if diffusers cannot represent it, as a copy of its folder."""
    net, record = load_any_model(source)
    try:
        if (source / PRUNING).exists():
            raise Unexportable("a pruned model")
        check_process(record.spec)
        with appearing(target) as place:
            backbone_of(net).export(net, record.spec, place, autoencoder_of(record))
            if record.classes is not None:
                write_class_names(place, record.classes)
    except Unexportable as what:
        with appearing(target) as place:
            shutil.copytree(source, place, ignore=shutil.ignore_patterns(SNAPSHOTS, AVERAGES, STATE))
        say(f"{target}: diffusers cannot load {what}; unequal.Ensemble.load does")


def check_process(spec: ModelSpec) -> None:
    """Raise Unexportable where diffusers cannot sample this prediction on this schedule."""
    of_flow, velocity = isinstance(spec.schedule, FlowSchedule), spec.prediction == "velocity"
    if velocity != of_flow and spec.prediction != "mixed":
        raise Unexportable(f"a model that predicts '{spec.prediction}' on schedule '{spec.schedule.name}'")


def autoencoder_of(record: ModelRecord) -> Path | None:
    """Folder of a model's autoencoder; None: the model works on pixels, or the autoencoder is missing."""
    name = record.spec.space.autoencoder
    return AUTOENCODER if name is not None and AUTOENCODER.exists() and identity(AUTOENCODER) == name else None


def export_experts(source: Path, target: Path) -> None:
    """Copy the experts that belong together; `Ensemble.load` takes the folder. Raises UserError if one is missing."""
    names = [f"group_{expert.record.group}" for expert in Ensemble.load(source).experts]
    with appearing(target) as place:
        for name in names:
            shutil.copytree(source / name, place / name)


def export(name: str, target: Path) -> None:
    """Export a model or a set of experts, `best` or by its name in params.yaml's `scored_models`, with a model card."""
    name = best() if name == "best" else name
    source = MODELS / name
    if not source.exists():
        raise UserError(f"{source}: no such model; there are: {trained()}")
    refuse_existing(target)
    (export_model if (source / RECORD).exists() else export_experts)(source, target)
    folders = [source] if (source / RECORD).exists() else group_folders(source)
    records = [load_record(one) for one in folders]
    write_card(target, records, name)
    say(f"{target}: {', '.join(sorted(path.name for path in target.iterdir()))}", "To load it:", "")
    say(*indent(loading_code(target, name, records[0]), "    ").splitlines())


def trained() -> str:
    """Names of the existing models, or the command that trains one."""
    names = ", ".join(sorted(path.name for path in MODELS.glob("*")))
    return names or "none; `dvc repro train_base` trains the base alone, and `dvc stage list` names the other stages"


def best() -> str:
    """Name of the model that the page of the last run recommends. Raises UserError."""
    if not SCORES.exists():
        raise UserError(
            f"{SCORES}: missing; `best` needs the scores of a whole run. Or name a model; there are: {trained()}"
        )
    match read_json(SCORES):
        case {"take": str(name)}:
            return name
    raise UserError(f"{SCORES}: names no model to take; make it again")
