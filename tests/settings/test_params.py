"""The repository's own params.yaml is sound, and each edit that makes it impossible is refused in one line."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from graph import pipeline_presets

from unequal.errors import UserError
from unequal.pipeline.params_files import json_schema
from unequal.settings.params.pipeline import Params

ROOT = Path(__file__).parents[2]
DEFAULT = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
DELETE = object()

#: Edits of the default params.yaml, and what the refusal says.
CIFAR10 = {"source": "cifar10", "path": "x", "fit": "exact", "holdout": 0.1}

PATCHES = {"source": "patches", "path": None, "image_size": 16, "channels": 3, "fit": "exact", "holdout": 0.1}

TAYLOR = {"method": "taylor", "timesteps": "all", "images": 8}
DIFF_PRUNING = {"method": "diff_pruning", "timesteps": "group", "images": 1, "threshold": 0.05}
LOW = {"kind": "low_resolution", "super_resolution_factor": 2}
LLM = {"kind": "llm", "model": "m", "base_url": "https://localhost/v1", "api_key_env": "SOME_KEY"}

BY_GRADIENTS = {"kind": "pcgrad", "clusters": 5, "cluster_by": "gradients"}
CURRICULUM = {"density": "curriculum", "target": "noise_rate"}
FLOW = {"name": "flow", "timesteps": 1000, "shift": 3.0}
#: Recipes that train the base on, and so predict what it predicts.
CONTINUING = ("longer", "stratified", "slot", "expert")
CONTINUED_BY_V = {f"recipes.{name}.prediction": "v_prediction" for name in CONTINUING}
REFUSED: list[tuple[dict[str, Any], str]] = [
    # Unknown and missing keys.
    ({"colour": "red"}, "colour: unknown key; allowed here: seed, runtime, data"),
    ({"training.batchsize": 3}, "training.batchsize: unknown key; allowed here: batch_size"),
    (
        {"recipes.base.sampler.strength": 2},
        "recipes.base.sampler.strength: unknown key; allowed here: density, draw, unbiased, normalised",
    ),
    ({"runtime.tracking.url": "x"}, "runtime.tracking.url: unknown key; allowed here: uri"),
    ({"seed": DELETE}, "seed: Field required"),
    ({"network.dropout": DELETE}, "network.dropout: Field required"),
    ({"recipes.slot": DELETE}, "recipes: 'slot' is missing; needed: base, slot, mixed, expert, longer, stratified"),
    # Wrong types.
    ({"seed": "zero"}, 'seed: "zero": Input should be a valid integer'),
    ({"seed": -1}, "seed: -1: Input should be greater than or equal to 0"),
    ({"training": 5}, "training: 5: Input should be an object"),
    ({"training.batch_size": 128.0}, "training.batch_size: 128.0: Input should be a valid integer"),
    ({"training.horizontal_flips": "yes"}, 'training.horizontal_flips: "yes": Input should be a valid boolean'),
    ({"network.block_out_channels": 16}, "network.block_out_channels: 16: Input should be a valid array"),
    ({"recipes.base.optimizer.lr": "1e"}, 'recipes.base.optimizer.lr: "1e": Input should be a valid number'),
    ({"data.holdout": float("nan")}, "data.holdout: NaN: Input should be a finite number"),
    # Values out of range.
    ({"training.batch_size": 0}, "training.batch_size: 0: Input should be greater than 0"),
    ({"training.average": {"kind": "exponential", "decay": 1.0}}, "training.average.decay: 1.0: Input should be less"),
    ({"training.average.width": 0.3}, "training.average.width: 0.3: Input should be less than or equal to 0.2886"),
    ({"training.average.decay": 0.9}, "training.average.decay: unknown key; allowed here: kind, width, keep"),
    ({"training.average.kind": "mean"}, "training.average: Input tag 'mean' found using 'kind' does not match any of"),
    ({"training.average.keep": 0}, "training.average.keep: 0: Input should be greater than 0"),
    (
        {"recipes.slot.optimizer.final_share": 0.0},
        "recipes.slot.optimizer: final_share: has no meaning for decay 'constant'; allowed: null",
    ),
    ({"recipes.base.optimizer.final_share": 1.5}, "recipes.base.optimizer.final_share: 1.5: Input should be less than"),
    # Where a training goes on from.
    (
        {"recipes.longer.warm_start": {"moments": "kept"}},
        "recipes.longer.warm_start.moments: \"kept\": Input should be 'fresh' or 'carried'",
    ),
    (
        {"recipes.base.warm_start": {"weights": "averaged"}},
        "recipes.base.warm_start: has no meaning for a recipe that starts from fresh weights",
    ),
    (
        {"recipes.longer.warm_start": {"weights": "last"}},
        "recipes.longer.warm_start: weights last, moments fresh needs recipes.base.keep_state: true",
    ),
    (
        {"recipes.base.keep_state": True, "recipes.expert.warm_start": {"moments": "carried"}},
        "recipes.expert.warm_start: weights averaged, moments carried; it trains pruned networks too",
    ),
    (
        {
            "recipes.base.keep_state": True,
            "recipes.longer.warm_start": {"moments": "carried"},
            "recipes.longer.optimizer.name": "sgd",
        },
        "recipes.longer.warm_start.moments: 'carried' from 'adamw' of the base to 'sgd'",
    ),
    (
        {
            "recipes.base.keep_state": True,
            "recipes.longer.warm_start": {"moments": "carried"},
            "network.pretrained": "x",
        },
        "recipes.longer.warm_start: weights averaged, moments carried; network.pretrained has weights alone",
    ),
    # A loss weight by running means.
    (
        {"recipes.base.loss_weight": {"kind": "running_mean"}},
        "recipes.base.loss_weight.half_life_images: Field required",
    ),
    (
        {"recipes.base.loss_weight": {"kind": "none", "bins": 3}},
        "recipes.base.loss_weight.bins: unknown key; allowed here: kind",
    ),
    (
        {"recipes.base.loss_weight": {"kind": "running_mean", "half_life_images": 9, "gamma": 5.0}},
        "recipes.base.loss_weight.gamma: unknown key; allowed here: kind, half_life_images, bins",
    ),
    (
        {"recipes.mixed.loss_weight": {"kind": "running_mean", "half_life_images": 9}},
        "recipes.mixed: loss_weight.kind: 'running_mean' is for one head; allowed for three: mixing.train 'balanced'",
    ),
    ({"recipes.base.images": 0}, "recipes.base.images: 0: Input should be greater than 0"),
    ({"recipes.base.optimizer.lr": 0.0}, "recipes.base.optimizer.lr: 0.0: Input should be greater than 0"),
    ({"recipes.base.optimizer.betas": [0.9, 1.0]}, "recipes.base.optimizer: betas: [0.9, 1.0] must lie in [0, 1)"),
    (
        {"schedule.name": "sigmoid"},
        "schedule: Input tag 'sigmoid' found using 'name' does not match any of the expected tags: 'linear', 'cosine', "
        "'scaled_linear', 'flow'",
    ),
    # Flows.
    ({"schedule.shift": 3.0}, "schedule.shift: unknown key; allowed here: name, timesteps"),
    ({"schedule": FLOW | {"shift": 0.0}}, "schedule.shift: 0.0: Input should be greater than or equal to 0.001"),
    ({"schedule": FLOW | {"shift": 1e30}}, "schedule.shift: 1e+30: Input should be less than or equal to 1000"),
    (
        {"network.variance": "learned"} | {f"recipes.{name}.prediction": "velocity" for name in ("base", *CONTINUING)},
        "recipes.base.prediction: 'velocity' with network.variance 'learned'",
    ),
    (
        {"schedule": FLOW, "recipes.base.prediction": "v_prediction"} | CONTINUED_BY_V,
        "recipes.base.prediction: 'v_prediction' has no meaning on schedule 'flow', where α² + σ² is not 1; allowed: ",
    ),
    (
        {"schedule": FLOW, "network.variance": "learned"},
        "network.variance: 'learned' has no meaning on schedule 'flow', which has no betas; allowed: fixed",
    ),
    # Densities.
    (
        {"recipes.base.sampler": {"density": "laplace", "mean": 60.0}},
        "recipes.base: sampler.density: 'laplace': the density has no mass on the grid: next to nothing of it lies",
    ),
    (
        {"recipes.base.sampler": {"density": "logit_normal", "shift": 0.0}},
        "recipes.base.sampler.shift: 0.0: Input should be greater than or equal to 0.001",
    ),
    (
        {"recipes.base.sampler": {"density": "logit_normal", "std": 0.0}},
        "recipes.base.sampler.std: 0.0: Input should be greater than 0",
    ),
    (
        {"recipes.base.sampler": {"density": "mode", "scale": 1.8}},
        "recipes.base.sampler.scale: 1.8: Input should be less than or equal to 1.75",
    ),
    ({"recipes.base.sampler": {"density": "beta", "a": 0.6}}, "recipes.base.sampler.b: Field required"),
    (
        {"recipes.base.sampler": {"density": "cosmap", "mean": 0.0}},
        "recipes.base.sampler.mean: unknown key; allowed here: density, draw, unbiased, normalised, shift, ends",
    ),
    (
        {"recipes.base.sampler": {"density": "mode", "normalised": True}},
        "recipes.base.sampler.density: 'mode' needs the base's profile; recipes that start from nothing have none",
    ),
    (
        {
            "recipes.longer.sampler": {"density": "mode", "normalised": True},
            "recipes.longer.loss_weight": {"kind": "running_mean", "half_life_images": 9},
        },
        "recipes.longer: sampler.normalised: the loss weight is learned, or there are three heads; allowed: ",
    ),
    # Weights as tables.
    (
        {"recipes.base.loss_weight": {"kind": "constant", "space": "score"}},
        "recipes.base.loss_weight.space: \"score\": Input should be 'x0', 'epsilon', 'v' or 'velocity'",
    ),
    (
        {"recipes.base.loss_weight": {"kind": "edm", "sigma_data": 0.0}},
        "recipes.base.loss_weight.sigma_data: 0.0: Input should be greater than 0",
    ),
    (
        {"recipes.mixed.loss_weight": {"kind": "learned_uncertainty"}},
        "recipes.mixed: loss_weight.kind: 'learned_uncertainty' is for one head; allowed for three: mixing.train ",
    ),
    (
        {
            "recipes.base.sampler": {"density": "loss_second_moment"},
            "recipes.base.loss_weight": {"kind": "learned_uncertainty"},
        },
        "recipes.base: loss_weight.kind: 'learned_uncertainty' takes the size of losses away, from which sampler.densi",
    ),
    ({"schedule.timesteps": 20}, "schedule.timesteps: 20: Input should be greater than 20"),
    ({"data.channels": 2}, "data.channels: 2: Input should be 1 or 3"),
    ({"data.holdout": 1.0}, "data.holdout: 1.0: Input should be less than or equal to 0.9"),
    ({"data.source": "mnist"}, "data.source: \"mnist\": Input should be 'digits', 'patches', 'cifar10'"),
    ({"groups.ids": []}, "groups.ids: Tuple should have at least 1 item"),
    ({"groups.min_ratio": 0.0}, "groups.min_ratio: 0.0: Input should be greater than 0"),
    ({"groups.min_ratio": 1.1}, "groups.min_ratio: 1.1: Input should be less than or equal to 1"),
    ({"groups.kind": "snr2"}, "groups.kind: \"snr2\": Input should be 'snr', 'constant', 'uniform_increasing'"),
    ({"slots.count": 0}, "slots.count: 0: Input should be greater than 0"),
    ({"profile.images": 1}, "profile.images: 1: Input should be greater than or equal to 2"),
    ({"profile.floor": "some"}, "profile.floor: \"some\": Input should be 'all' or 'none' or a valid integer"),
    (
        {"pruning.expert.method": "lasso"},
        "pruning.expert: Input tag 'lasso' found using 'method' does not match any of the expected tags: 'random'",
    ),
    (
        {"pruning.expert.threshold": 0.1},
        "pruning.expert.threshold: unknown key; allowed here: method, decider, ranking",
    ),
    ({"pruning.expert": TAYLOR | {"round": 1}}, "pruning.expert.round: unknown key; allowed here: method, timesteps"),
    (
        {"pruning.expert.start": [TAYLOR, {"method": "random", "x": 1}]},
        "pruning.expert.start.1.x: unknown key; allowed",
    ),
    ({"pruning.expert.ranking.images": 0}, "pruning.expert.ranking.images: 0: Input should be greater than 0"),
    ({"pruning.expert.ranking": DEFAULT["pruning"]["expert"]}, "pruning.expert.ranking: Input tag 'proxy' found using"),
    (
        {"pruning.expert.start": [], "pruning.expert.rounds": 0},
        "pruning.expert: rounds: 0 with an empty start tries no",
    ),
    (
        {"pruning.expert": DIFF_PRUNING | {"threshold": 1.0}},
        "pruning.expert.threshold: 1.0: Input should be less than 1",
    ),
    (
        {"pruning.expert.decider.kind": "oracle"},
        "pruning.expert.decider: Input tag 'oracle' found using 'kind' does not",
    ),
    (
        {"pruning.expert.decider": LLM | {"api_key": "sk-1"}},
        "pruning.expert.decider.api_key: unknown key; allowed here: kind",
    ),
    ({"pruning.expert.decider": LLM | {"base_url": "localhost:1"}}, "pruning.expert.decider: base_url: is no address"),
    *(
        ({"pruning.expert.decider": LLM | {"base_url": url}}, "pruning.expert.decider: base_url: is no address")
        for url in (
            *("http://localhost:abc/v1", "http://host:99999/v1", "http://host:0/v1", "http://host/\x01v1"),
            *("http://a..b/v1", f"http://{'a' * 300}/v1", "http://[::1/v1", "http://[::g]/v1"),
        )
    ),
    ({"pruning": {}}, "pruning: 'expert' is missing; it makes the pruned experts"),
    ({"pruning.a/b": {"method": "random"}}, 'pruning.a/b: "a/b": no name; allowed: small letters, digits and _'),
    ({"runtime.device": "tpu"}, "runtime.device: \"tpu\": Input should be 'auto', 'cpu' or 'cuda'"),
    ({"sampling.eta": 1.5}, "sampling.eta: 1.5: Input should be less than or equal to 1"),
    ({"sampling.solver": "euler"}, "sampling.solver: \"euler\": Input should be 'ddim', 'heun' or 'dpm_solver_2m'"),
    (
        {"sampling.solver": "heun", "sampling.eta": 1.0},
        "sampling: eta: 1 adds noise, which solver 'heun' does not; allowed: 0.0",
    ),
    ({"sampling.steps": 0}, "sampling.steps: 0: Input should be greater than 0 or a valid array"),
    (
        {"recipes.base.sampler.density": "gauss"},
        "recipes.base.sampler: Input tag 'gauss' found using 'density' does not match any of the expected tags:",
    ),
    ({"evaluation.seeds": []}, "evaluation.seeds: Tuple should have at least 1 item"),
    # Values that would end in an overflow, a full memory, or never.
    ({"seed": 2**63}, "seed: 9223372036854775808: Input should be less than 9223372036854775808"),
    ({"evaluation.seeds": [2**64]}, "evaluation.seeds.0: 18446744073709551616: Input should be less than"),
    ({"data.holdout": 0.9999}, "data.holdout: 0.9999: Input should be less than or equal to 0.9"),
    ({"profile.images": 10**9}, "profile.images: 1000000000: Input should be less than or equal to 1000000"),
    ({"training.batch_size": 10**7}, "training.batch_size: 10000000: Input should be less than or equal to 1048576"),
    ({"training.batch_size": 20_000}, "training.batch_size: 20000; recipes.expert sees 19200 images in all"),
    (
        {"recipes.slot.optimizer.warmup_images": 12801},
        "recipes.slot.optimizer.warmup_images: 12801 is longer than the training of 12800 images",
    ),
    ({"recipes.base.images": 10**30}, f"recipes.base.images: {10**30}: Input should be less than or equal to"),
    ({"runtime.tracking.timeout_s": 1.0e300}, "runtime.tracking.timeout_s: 1e+300: Input should be less than"),
    ({"network.block_out_channels": [4] * 13}, "network.block_out_channels: Tuple should have at most 12 items"),
    ({"network.layers_per_block": 10**9}, "network.layers_per_block: 1000000000: Input should be less than or equal"),
    ({"extractor.features": 10**12}, "extractor.features: 1000000000000: Input should be less than or equal to 65536"),
    ({"variants": []}, "variants: [] must hold base"),
    ({"profiled_models": []}, "profiled_models: [] must hold base"),
    ({"finetune_recipes": []}, "finetune_recipes: Tuple should have at least 1 item"),
    # Combinations within a section.
    ({"data.source": "folder"}, "data: source 'folder' needs a path; allowed without one: digits, patches"),
    ({"data.path": "x"}, "data: path: has no meaning for source 'digits', which lie in scikit-learn"),
    ({"data.image_size": 16}, "data: digits are 8 pixels wide with 1 channel; set image_size: 8, channels: 1"),
    ({"data.channels": 3}, "data: digits are 8 pixels wide with 1 channel"),
    (
        {"data.fit": "crop"},
        "data: fit: 'crop' has no meaning for source 'digits', of one size; allowed: exact",
    ),
    ({"data": PATCHES | {"fit": "resize"}}, "data: fit: 'resize' has no meaning for source 'patches', of one size"),
    ({"data.source": "patches"}, "data: patches have 3 channels and at most 128 pixels a side"),
    (
        {"data": {**PATCHES, "image_size": 129}},
        "data: patches have 3 channels and at most 128 pixels a side",
    ),
    (
        {"network.condition": {"kind": "denoising"}},
        "network.condition: Input tag 'denoising' found using 'kind' does not match",
    ),
    ({"network.condition": {"kind": "low_resolution"}}, "network.condition.super_resolution_factor: Field required"),
    (
        {"network.condition": LOW | {"super_resolution_factor": 1}},
        "network.condition.super_resolution_factor: 1: Input should be greater than or equal to 2",
    ),
    (
        {"network.condition": LOW | {"kind": "none"}},
        "network.condition.super_resolution_factor: unknown key; allowed here: kind",
    ),
    (
        {"sampling.variance": "learned", "network.variance": "learned"},
        "sampling: variance: 'learned' is that of eta 1, not of eta 0",
    ),
    (
        {"sampling.variance": "learned", "sampling.eta": 1.0},
        "sampling.variance: 'learned' needs network.variance: learned",
    ),
    (
        {"sampling.variance": "learned", "sampling.eta": 1.0, "network.variance": "learned"},
        "sampling.variance: 'learned'; mixed models have learned none; allowed: posterior",
    ),
    (
        {
            "recipes.longer.sampler": {"density": "loss_second_moment", "warm_start": True},
            "network.variance": "learned",
        },
        "recipes.longer.sampler.warm_start: the profile has losses of ε alone",
    ),
    ({"network.pretrained": 3}, "network.pretrained: 3: Input should be a valid string"),
    ({"network.pretrained": "a.pt"}, "network: openai: flags needed by pretrained 'a.pt'"),
    (
        {"network.openai": {"num_heads": 4}},
        "network: openai: flags have no meaning for pretrained 'None'; a .pt file has them, nothing else",
    ),
    (
        {"network.pretrained": "a.pt", "network.openai": {}},
        "network.openai: needs either num_heads or num_head_channels",
    ),
    (
        {"network.pretrained": "a.pt", "network.openai": {"num_heads": 4, "num_head_channels": 64}},
        "network.openai: needs either num_heads or num_head_channels",
    ),
    (
        {"network.pretrained": "a.pt", "network.openai": {"num_heads": 4, "heads": 4}},
        "network.openai.heads: unknown key; allowed here: num_heads, num_head_channels",
    ),
    ({"network.block_out_channels": [16, 30]}, "network: block_out_channels: 30 is no multiple of norm_num_groups 4"),
    ({"training.gradient_accumulation": 129}, "training: gradient_accumulation: 129 parts of a batch of 128"),
    ({"groups.ids": [0, 2]}, "groups: ids: [0, 2] must count 0, 1, 2"),
    ({"merging.weights": "sum"}, "merging.weights: \"sum\": Input should be 'mean' or a valid number or a valid array"),
    *(
        ({"merging.weights": weights}, f"merging.weights{place}: {shown}: Input should be {allowed}")
        for weights, place, shown, allowed in (
            (1.0e300, "", "1e+300", "'mean' or less than or equal to 1000"),
            ([1, 1, 1, -1.0e300], ".3", "-1e+300", "greater than or equal to -1000"),
        )
    ),
    ({"merging.weights": [0.5, 0.5]}, "merging.weights: 2 weights for 4 groups; allowed: one for each"),
    ({"finetune_recipes": ["merged"]}, "finetune_recipes: 'merged' is the name of another stage's model"),
    ({"variants": ["base", "experts_best"]}, "variants: 'experts_best' is not trained; allowed: base"),
    ({"slots.finetune": [11]}, "slots: finetune: 11 is no slot; allowed: 1 … 10"),
    (
        {"slots.finetune": [], "profiled_models": ["base"], "variants": ["base"]},
        "slots.finetune: []; the pipeline trains on inside one slot or more",
    ),
    ({"slots.finetune": [3, 3]}, "slots: finetune: [3, 3] names a slot twice"),
    (
        {
            "recipes.base.sampler": {
                "density": "curriculum",
                "target": "noise_rate",
                "ramp_images": 0,
                "uniform_share": 0.1,
            }
        },
        "recipes.base.sampler.ramp_images: 0: Input should be greater than 0",
    ),
    (
        {
            "recipes.base.sampler": {
                "density": "curriculum",
                "target": "noise_rate",
                "ramp_images": 10**9,
                "uniform_share": 0.1,
            }
        },
        "recipes.base: sampler.ramp_images: 1000000000 is longer than the training of 160000 images",
    ),
    (
        {
            "recipes.base.sampler": {
                "density": "curriculum",
                "target": "noise_rate",
                "ramp_images": 9,
                "uniform_share": 1.0,
            }
        },
        "recipes.base.sampler.uniform_share: 1.0: Input should be less than 1",
    ),
    *(
        (
            {"recipes.base.sampler": CURRICULUM | {"ramp_images": 9, "uniform_share": 0.1, unused: 0.2}},
            f"recipes.base: sampler.{unused}: has no meaning for target 'noise_rate'; allowed: 'gaussian'",
        )
        for unused in ("mean", "std")
    ),
    (
        {"recipes.base.sampler": {"density": "easy_to_hard", "clusters": 5, "patience_images": 40000}},
        "recipes.base: sampler.patience_images: the hardest cluster would be opened after 160000 images at the earl",
    ),
    ({"recipes.base.optimizer.betas": [1.0, 0.999]}, "recipes.base.optimizer: betas: [1.0, 0.999] must lie in [0, 1)"),
    (
        {"recipes.base.optimizer.name": "sgd", "recipes.base.optimizer.betas": [0.9, 0.99]},
        "recipes.base.optimizer: betas: [0.9, 0.99]; SGD has one coefficient, the first, and the second no meaning",
    ),
    (
        {"recipes.base.optimizer.momentum_decay": {"kind": "demon", "floor": 0.0, "lr_compensation": "raise"}},
        "recipes.base.optimizer: momentum_decay.lr_compensation: 'raise' does not fit adamw",
    ),
    (
        {"recipes.base.optimizer.momentum_decay": {"kind": "exponential", "floor": 0.0, "lr_compensation": "none"}},
        "recipes.base.optimizer: momentum_decay.floor: 0 is never reached by an exponential",
    ),
    ({"recipes.base.sampler": {"density": "near_noise"}}, "recipes.base.sampler.power: Field required"),
    (
        {"recipes.base.sampler": {"density": "uniform", "power": 2.0}},
        "recipes.base.sampler.power: unknown key; allowed here: density, draw, unbiased, normalised",
    ),
    (
        {"recipes.slot.sampler.unbiased": True},
        "recipes.slot.sampler.unbiased: true: Input should be False",
    ),
    ({"recipes.base.loss_weight.kind": "p2"}, "recipes.base.loss_weight.gamma: Field required"),
    ({"recipes.base.loss_weight.gamma": 1.0}, "recipes.base.loss_weight.gamma: unknown key; allowed here: kind"),
    ({"recipes.mixed.mixing": DELETE}, "recipes.mixed: prediction 'mixed' needs the key mixing"),
    (
        {"recipes.base.mixing": {"train": "best_common", "select": "profile"}},
        "recipes.base: prediction 'epsilon' has no use for the key mixing",
    ),
    ({"recipes.mixed.mixing.train": "balanced"}, "recipes.mixed.mixing: half_life_images: needed by 'balanced'"),
    (
        {"recipes.mixed.mixing.half_life_images": 9},
        "recipes.mixed.mixing: half_life_images: has no meaning for 'best_common'",
    ),
    (
        {
            "recipes.mixed.mixing": {"train": "balanced", "half_life_images": 9, "select": "blend"},
            "recipes.mixed.loss_weight": {"kind": "p2", "gamma": 1.0},
        },
        "recipes.mixed: loss_weight.kind: 'p2' would be divided out again by mixing.train 'balanced'; allowed: none",
    ),
    (
        {"recipes.base.sampler": {"density": "easy_to_hard", "clusters": 1500, "patience_images": 1}},
        "recipes.base: of 1500 clusters, number 2 from the data end is empty: ",
    ),
    (
        {
            "recipes.stratified.sampler": {
                "density": "adaptive",
                "bins": 5000,
                "refresh_images": 1000,
                "images_per_bin": 1,
            }
        },
        "recipes.stratified: of 5000 bins, ",
    ),
    (
        {"recipes.base.sampler": {"density": "near_noise", "power": 1.0e300}},
        "recipes.base: timestep weights must be finite, not negative and not all 0",
    ),
    (
        {"recipes.base.sampler": {"density": "asymmetric", "boundary": 0.7, "ratio": 1.0e308}},
        "recipes.base.sampler.ratio: 1e+308: Input should be less than or equal to 1000000",
    ),
    ({"profile.floor": 10**15}, "profile.floor: "),
    ({"profile.floor": {"sampled": 1}}, "profile.floor.sampled: 1: Input should be greater than or equal to 2"),
    (
        {"recipes.base.sampler": {"density": "clusters", "count": 1001, "draw": "stratified"}},
        "recipes.base: 1001 clusters of 1000 timesteps;",
    ),
    (
        {"recipes.base.conflicts": {"kind": "pcgrad", "clusters": 60}, "schedule.timesteps": 50},
        "recipes.base: 60 clusters of 50 timesteps; allowed: 1 … 50",
    ),
    (
        {"recipes.longer.conflicts": BY_GRADIENTS},
        "recipes.longer: conflicts.cluster_by: 'gradients' needs the key gradients, {} at least",
    ),
    (
        {"recipes.longer.gradients": {"images": 40}},
        "recipes.longer: gradients: has no meaning where nothing goes by them; allowed with conflicts.cluster_by or",
    ),
    (
        {"recipes.longer.conflicts": BY_GRADIENTS, "recipes.longer.gradients": {"cells": 4}},
        "recipes.longer: gradients.cells: 4 for 5 clusters; at least as many",
    ),
    (
        {"recipes.longer.conflicts": BY_GRADIENTS, "recipes.longer.gradients": {"images": 100_000}},
        "recipes.longer: gradients: 2000080 images are measured of a budget of ",
    ),
    (
        {"recipes.longer.conflicts": BY_GRADIENTS, "recipes.longer.gradients": {"images": 41}},
        "recipes.longer.gradients.images: 41: Input should be a multiple of 4",
    ),
    (
        {"recipes.base.conflicts": BY_GRADIENTS, "recipes.base.gradients": {"images": 40}},
        "recipes.base.gradients: measured of a model that is trained on; fresh weights tell nothing",
    ),
    (
        {"recipes.base.conflicts": {"kind": "pcgrad", "clusters": 1}},
        "recipes.base.conflicts.clusters: 1: Input",
    ),
    (
        {
            "recipes.base.sampler": {"density": "info_noise", "warmup_images": 5120},
            "recipes.base.loss_weight": {"kind": "learned_uncertainty"},
        },
        "recipes.base: sampler.density: 'info_noise' divides the loss by its weight, which is learned here, or of thr",
    ),
    *(
        ({f"recipes.base.sampler.{key}": value}, f"recipes.base.sampler.{key}: {value!r}: renamed; write {new}")
        for key, value, new in (
            ("kind", "uniform", "density: uniform"),
            ("kind", "low_discrepancy", "density: uniform, draw: low_discrepancy"),
            ("kind", "stratified", "density: slots, draw: stratified"),
            ("kind", "clusters", "density: clusters, draw: stratified"),
            ("low_discrepancy", True, "draw: low_discrepancy"),
            ("mirrored", True, "draw: mirrored"),
        )
    ),
    (
        {"recipes.base.conflicts": {"kind": "pcgrad", "clusters": 5, "alike_in": "log_snr"}},
        "recipes.base.conflicts.alike_in: 'log_snr': renamed; write cluster_by",
    ),
    ({"recipes.mixed.mixing.bins": 10**9}, "recipes.mixed.mixing.bins: 1000000000: Input should be less than"),
    ({"extractor.kind": "inception"}, "extractor: features: 64; inception has 2048"),
    ({"extractor.kind": "dinov2"}, "extractor: weights: null; dinov2 needs a folder with config.json and model.safet"),
    ({"extractor.images": 64}, "extractor: batch_size: 128; the classifier sees 64 images in all"),
    ({"extractor.weights": "a.pth"}, "extractor: weights: a classifier is trained on the labels; allowed: null"),
    ({"evaluation.kid_subset": 1001}, "evaluation: kid_subset: 1001 exceeds samples 1000"),
    ({"evaluation.seeds": [1, 1]}, "evaluation: seeds: [1, 1] names a seed twice"),
    (
        {"sampling.steps": [999, 500]},
        "sampling: spacing: 'uniform' has no meaning for listed steps; allowed: null",
    ),
    ({"sampling.spacing": None}, "sampling: spacing: needed by a number of steps; allowed: uniform, quadratic"),
    ({"sampling.steps": []}, "sampling: steps: [] must fall strictly"),
    ({"sampling.steps": [3, 9]}, "sampling: steps: [3, 9] must fall strictly"),
    # Combinations of sections.
    ({"slots.count": 1001}, "slots.count: 1001 ranges of 1000 timesteps; at most schedule.timesteps"),
    ({"groups.ids": list(range(1001))}, "groups: 1001 groups of 1000 timesteps; allowed: 1 … 1000"),
    (
        {"recipes.expert.sampler": {"density": "slot", "intervals": 500}},
        "recipes.expert.sampler.intervals: 500 of equal log-SNR, of which number",
    ),
    ({"groups.min_ratio": 1.0}, "groups: min_ratio 1.0 gives 1 distinct limit of FLOPs to 4 groups"),
    (
        {"groups.kind": "excess_loss", "profile.floor": "none"},
        "groups.kind: 'excess_loss' needs a floor; allowed for profile.floor: all, or a number of images",
    ),
    ({"schedule.name": "cosine", "groups.ids": list(range(10))}, "groups: of 10 groups, number 9 from the data end"),
    (
        {"finetune_recipes": ["longer", "stratified", "longer"]},
        "finetune_recipes: ['longer', 'stratified', 'longer'] na",
    ),
    ({"finetune_recipes": ["base"]}, "finetune_recipes: 'base' is the name of another stage's model"),
    ({"finetune_recipes": ["a.b"]}, 'finetune_recipes.0: "a.b": no name; allowed: small letters, digits and _'),
    (
        {"data": {**CIFAR10, "image_size": 8, "channels": 1}},
        "data: cifar10 is 32 pixels wide with 3 channels",
    ),
    (
        {"network.block_out_channels": [8, 16, 16, 16, 16]},
        "data.image_size: 8 cannot be halved 4 times by the network; allowed: multiples of 16",
    ),
    (
        {"network.condition": LOW | {"super_resolution_factor": 3}, "profile.floor": "none"},
        "network.condition.super_resolution_factor: 3 does not divide data.image_size 8",
    ),
    (
        {"network.condition": LOW},
        "profile.floor: all would be the least loss of a network that sees x_t alone; allowed for a model of super-re",
    ),
    (
        {"network.condition": {"kind": "labels", "classes": 10}},
        "profile.floor: all would be the least loss of a network that sees x_t alone; allowed for a model of 10 class",
    ),
    (
        {"network.condition": LOW | {"classes": 10}, "profile.floor": "none"},
        "network.condition.classes: unknown key; allowed here: kind, super_resolution_factor",
    ),
    (
        {"network.attention_resolutions": [7]},
        "network.attention_resolutions: 7 is no feature-map size; allowed: [8, 4]",
    ),
    ({"network.attention_head_dim": 5}, "network.attention_head_dim: 5 does not divide the 32 channels"),
    (
        {"slots.loss": "excess", "profile.floor": "none"},
        "slots.loss: 'excess' needs a floor; allowed for profile.floor: all, or a number of images",
    ),
    ({"sampling.steps": 1001}, "sampling.steps: 1001 steps of 1000 timesteps; at most schedule.timesteps"),
    (
        {"sampling.steps": [1000, 5], "sampling.spacing": None},
        "sampling.steps: 1000 reaches beyond the last timestep 999",
    ),
    (
        {"evaluation.samples": 63, "evaluation.kid_subset": 10},
        "evaluation.samples: 63 is fewer than extractor.features",
    ),
    ({"variants": ["base", "slot_4"]}, "variants: 'slot_4' is not trained; allowed: base, mixed, longer"),
    ({"variants": ["mixed"]}, "variants: ['mixed'] must hold base, and no name twice"),
    ({"profiled_models": ["base", "base"]}, "profiled_models: ['base', 'base'] must hold base, and no name twice"),
    (
        {"profiled_models": ["base", "experts_merged"]},
        "profiled_models: 'experts_merged' is not trained; allowed: base",
    ),
    (
        {"evaluation.neighbourhood": 1000},
        "evaluation: neighbourhood: 1000 neighbours among 1000 samples",
    ),
    ({"evaluation.against": "holdouts"}, "evaluation.against: \"holdouts\": Input should be 'train' or 'holdout'"),
    ({"finetune_recipes": ["longer"]}, "recipes: no stage trains by 'stratified'; delete it, or name it"),
    ({"recipes.base.sampler.density": "slot"}, "recipes.base.sampler.density: 'slot'; allowed: any but 'slot'"),
    ({"recipes.slot.sampler.density": "uniform"}, "recipes.slot.sampler.density: 'uniform'; allowed: only 'slot'"),
    ({"recipes.base.sampler.density": "loss"}, "recipes.base.sampler.density: 'loss' needs the base's profile"),
    (
        {"recipes.base.sampler": {"density": "slots", "draw": "stratified"}},
        "recipes.base.sampler.density: 'slots' needs the base's profile",
    ),
    (
        {"recipes.slot.prediction": "sample"},
        "recipes.slot.prediction: 'sample'; it trains the base on, whose prediction",
    ),
    (
        {"recipes.mixed.prediction": "epsilon", "recipes.mixed.mixing": DELETE},
        "recipes.mixed.prediction: 'epsilon'; 'mixed' is for mixed alone",
    ),
    (
        {"autoencoder": {"kind": "pretrained", "source": "x"}, "merging": DELETE},
        "autoencoder: unknown key; allowed here: seed, runtime, data, schedule, network",
    ),
]

#: Edits that a user may well make.
ACCEPTED: list[dict[str, Any]] = [
    {"network.variance": "learned"},
    {"network.pretrained": "someone/something"},
    {
        "network.pretrained": "a.pt",
        "network.openai": {"num_head_channels": 64, "use_new_attention_order": True},
    },
    {
        "network.variance": "learned",
        "sampling.variance": "learned",
        "sampling.eta": 1.0,
        "variants": ["base", "experts_pruned"],
    },
    {"recipes.longer.sampler": {"density": "near_data", "power": 0.5, "unbiased": True}},
    {"recipes.longer.loss_weight": {"kind": "min_snr", "gamma": 5}},
    {"recipes.longer.loss_weight": {"kind": "running_mean", "half_life_images": 5000, "bins": 20}},
    {"training.average": {"kind": "exponential", "decay": 0.0}},
    {"training.average.keep": 8},
    {"recipes.longer.optimizer.decay": "linear", "recipes.longer.optimizer.final_share": 0},
    {"recipes.base.keep_state": True, "recipes.longer.warm_start": {"weights": "last", "moments": "carried"}},
    {"recipes.longer.warm_start": {"weights": "averaged", "moments": "fresh"}},
    {"sampling.steps": [999, 500, 20, 0], "sampling.spacing": None},
    {"sampling.steps": 1000},
    {"recipes.base.optimizer.name": "sgd"},
    {"recipes.base.sampler": CURRICULUM | {"target": "gaussian", "ramp_images": 9, "uniform_share": 0.1, "std": 0.1}},
    {"profile.floor": 300},
    {"profiled_models": ["base", "experts_unpruned"]},
    {"evaluation.against": "holdout", "evaluation.neighbourhood": 5},
    {"slots.loss": "excess"},
    {"schedule": {"name": "cosine", "timesteps": 4000}},
    {"schedule": FLOW},
    {"schedule": {"name": "flow", "timesteps": 50}},
    {f"recipes.{name}.prediction": "velocity" for name in ("base", *CONTINUING)},
    {"recipes.base.sampler": {"density": "beta", "a": 0.6, "b": 1}, "recipes.base.loss_weight": {"kind": "edm"}},
    {"recipes.longer.sampler": {"density": "log_normal", "normalised": True, "ends": "closed"}},
    {"recipes.base.loss_weight": {"kind": "learned_uncertainty"}},
    {"recipes.base.loss_weight": {"kind": "cluster_uncertainty", "clusters": 5}},
    {"data": {"source": "folder", "path": "x", "image_size": 32, "channels": 3, "fit": "crop", "holdout": 0.2}},
    {"data": PATCHES},
    {"network.condition": {"kind": "none"}},
    {"network.condition": LOW | {"super_resolution_factor": 4}, "profile.floor": "none"},
    {"evaluation.samples": 20, "evaluation.kid_subset": 10, "evaluation.allow_singular": True},
    {"groups.ids": [0]},
    {"groups.kind": "excess_loss"},
    {"groups.kind": "log_snr_clusters", "profile.floor": {"sampled": 100}},
    {"recipes.base.conflicts": {"kind": "pcgrad", "clusters": 5}},
    {"recipes.longer.conflicts": BY_GRADIENTS, "recipes.longer.gradients": {}},
    {
        "recipes.longer.loss_weight": {"kind": "cluster_uncertainty", "clusters": 5, "cluster_by": "gradients"},
        "recipes.longer.gradients": {"cells": 8, "images": 40},
    },
    {"pruning.expert": {"method": "random"}, "pruning.other": {"method": "magnitude"}},
    {"pruning.expert": TAYLOR},
    {"pruning.expert": DIFF_PRUNING},
    {"pruning.expert.decider": LLM, "pruning.expert.start": []},
    {"pruning.expert.decider": LLM | {"base_url": "http://localhost:11434/v1", "api_key_env": None}},
    {"pruning.expert.finetuning": {"images": 1, "batch_size": 1, "lr": 1.0e-3}, "pruning.expert.replay": "bank.jsonl"},
    {"pruning.drawn": {"method": "random"}},
    {"merging.weights": 0.5},
    {"merging.weights": [1, 0.5, 0.5, -1]},
    {"schedule.name": "cosine", "groups.ids": list(range(10)), "groups.kind": "uniform_decreasing"},
]


@cache
def schema() -> dict[str, Any]:
    """The schema of the pipeline's params.yaml, as JSON carries it."""
    found: dict[str, Any] = json.loads(json.dumps(json_schema(Params)))
    return found


def edited(edits: dict[str, Any]) -> dict[str, Any]:
    """The default with values replaced or deleted at dotted keys."""
    document = copy.deepcopy(DEFAULT)
    for dotted, value in edits.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            place = place[section]
        if value is DELETE:
            del place[last]
        else:
            place[last] = value
    return document


def written(document: dict[str, Any], folder: Path) -> Path:
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", [ROOT / "params.yaml", *pipeline_presets()], ids=lambda path: path.name)
def test_files_of_the_repository_are_sound(path: Path) -> None:
    params = Params.read(path)
    assert params.schedule.timesteps == yaml.safe_load(path.read_text(encoding="utf-8"))["schedule"]["timesteps"]


@pytest.mark.parametrize(
    ("edits", "complaint"), REFUSED, ids=[f"{next(iter(e))}-{i}" for i, (e, _) in enumerate(REFUSED)]
)
def test_an_impossible_edit_is_refused_in_one_line(edits: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    path = written(edited(edits), tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: {complaint}")


@pytest.mark.parametrize("edits", ACCEPTED, ids=lambda edits: ",".join(edits))
def test_a_possible_edit_is_accepted(edits: dict[str, Any], tmp_path: Path) -> None:
    document = edited(edits)
    Params.read(written(document, tmp_path))
    jsonschema.validate(document, schema())


@pytest.mark.parametrize(
    ("secret", "edits"),
    [
        ("sk-secret-0123", {"api_key_env": "sk-secret-0123"}),
        ("s3cret", {"base_url": "https://user:s3cret@localhost/v1"}),
        ("s3cret", {"base_url": "https://localhost/v1?key=s3cret"}),
    ],
)
def test_a_secret_in_the_settings_is_refused_and_not_repeated(
    secret: str, edits: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"pruning\.expert\.decider: (api_key_env|base_url): holds") as refusal:
        Params.read(written(edited({"pruning.expert.decider": LLM | edits}), tmp_path))
    assert secret not in str(refusal.value)


def test_a_recipe_may_have_the_name_of_a_key(tmp_path: Path) -> None:
    """Even then its unknown keys are refused with the ones it may have."""
    document = edited({"recipes.images": DEFAULT["recipes"]["longer"] | {"colour": 1}, "finetune_recipes": ["images"]})
    with pytest.raises(UserError, match=r"recipes\.images\.colour: unknown key; allowed here: images, prediction"):
        Params.read(written(document, tmp_path))


def test_the_schema_is_json_and_knows_the_default() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(DEFAULT, schema())


@pytest.mark.parametrize(
    "edits",
    [
        {"colour": "red"},
        {"training.batchsize": 3},
        {"recipes.base.sampler.strength": 2},
        {"seed": DELETE},
        {"seed": "zero"},
        {"training.batch_size": 0},
        {"groups.ids": []},
        {"schedule.name": "sigmoid"},
        {"recipes.base.sampler.density": "gauss"},
        {"recipes.base.optimizer.lr": "fast"},
        {"recipes.base.optimizer.betas": [0.9]},
        {"profile.floor": "some"},
        {"sampling.steps": 0},
    ],
    ids=lambda edits: ",".join(edits),
)
def test_the_schema_refuses_what_a_single_value_gives_away(edits: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(edited(edits), schema())
