"""Families by the class of network that a pipeline names, each imported when it is met."""

from importlib import import_module

from unequal.errors import UserError
from unequal.profiler.families.family import Family
from unequal.profiler.pipelines import PipelineFolder, errors_in_one_line

#: Class of the network → module and class here.
FAMILIES = {
    "UNet2DModel": ("unet2d_model", "UNet2D"),
    "DiTTransformer2DModel": ("dit", "DiT"),
    "UNet2DConditionModel": ("unet2d_condition", "UNet2DCondition"),
    "SD3Transformer2DModel": ("sd3", "SD3"),
    "FluxTransformer2DModel": ("flux", "Flux"),
}
#: Where pipelines keep their networks.
PARTS = ("unet", "transformer")


def family_of(pipeline: PipelineFolder, resolution: int | None = None) -> Family:
    """The family of a pipeline. Raises UserError where its network is of none, or its configuration is unsound."""
    kinds = [pipeline.parts[part] for part in PARTS if part in pipeline.parts]
    allowed = ", ".join(FAMILIES)
    if len(kinds) != 1:
        found = " and ".join(kinds) or "no denoising network"
        raise UserError(f"{pipeline.name}: a {pipeline.index['_class_name']} with {found}; allowed: one of {allowed}")
    if kinds[0] not in FAMILIES:
        raise UserError(f"{pipeline.name}: its network is a {kinds[0]}; allowed: {allowed}")
    module, name = FAMILIES[kinds[0]]
    with errors_in_one_line(pipeline.name):
        kind: type[Family] = getattr(import_module(f"{__package__}.{module}"), name)
        return kind(pipeline, resolution)
