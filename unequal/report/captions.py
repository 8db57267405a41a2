"""Captions of the pipeline's pictures, for the page and for Snakemake's report."""

#: Picture of the first screen → heading and caption; the page adds what it says of one run.
FIRST_SCREEN = {
    "overview_samples": (
        "Samples",
        "Every column starts from one noise. Below the model to take: the training image nearest to each of its "
        "samples, by mean squared difference; memorized images are at distance 0.",
    ),
    "fid_cost": (
        "Quality against cost",
        "FID against the time of processors or GPUs for training, and against training FLOPs (three times "
        "the multiply–accumulates of all images); the base's are included where a model continues it. The broad "
        "line joins models that none beats in both. Bars: ± standard deviation over sampling seeds. Dotted: real data.",
    ),
    "fid_changes": (
        "FID against the control",
        "Change of FID with its 95 % interval over sampling seeds, which does not cover another training. Models that "
        "saw fewer images are not at equal cost.",
    ),
}
#: Picture below it → heading and caption, in the order of the page.
CAPTIONS = {
    "training_curves": (
        "Training curves",
        "Loss over the images of each training, weighted by its recipe, over the timesteps that it draws: curves of "
        "different samplers and ranges are not comparable in height.",
    ),
    "progress": (
        "Samples during the training",
        "What the base's averaged weights make of the same noises, a row a point of the training.",
    ),
    "loss_profile": (
        "Loss over timesteps",
        "Mean squared error of the predicted noise, in bins of equal width on the log scale, with ± 1 standard error. "
        "Grey lines: the training losses of the other models. Optimal denoiser: the least loss that any network can "
        "reach on the training images, by memorizing them; for held-out images it is no bound. Shaded and numbered: "
        "slots, ranges of timesteps with equal sums of the base's training loss.",
    ),
    "loss_changes": (
        "What further training changed",
        "Training loss of every further model as a multiple of the base's, on the same images and noise, with ± 1 "
        "paired standard error for models of all timesteps. The thick part of a slot model's line is its own slot.",
    ),
    "interference": (
        "Interference of slots",
        "Change of a slot's summed training loss after fine-tuning the base on one slot, in percent ± standard error "
        "of paired draws. Framed: the fine-tuned slot. Blue is lower loss, red is higher.",
    ),
    "samplers": (
        "Timestep samplers",
        "How often each recipe draws a timestep, as a multiple of uniform drawing.",
    ),
    "head_wins": (
        "Which head wins at which timestep",
        "Share of the training images at which each of the three heads has the smallest error, by the rule of "
        "mixing.train. Only the winner of an image learns from it, unless all heads are balanced.",
    ),
    "groups": (
        "Groups of timesteps and their FLOPs",
        "Above: signal-to-noise ratio. Below: the share of the base's FLOPs that its SNR assigns to each timestep, "
        "the limit of its group, and the FLOPs of the group's pruned model.",
    ),
    "samples": (
        "Samples of all models",
        "Every column starts from one noise, every row is one model.",
    ),
}
