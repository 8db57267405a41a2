"""Gate of an experiment: check params.yaml as a whole before anything runs."""

from unequal.data.labels import check_images, check_labels
from unequal.evaluation.weights import check_weights
from unequal.experiments.declaration import Declaration, check_variants
from unequal.pipeline.gate import Gate

main = Gate(__name__, Declaration, check_labels, check_images, check_weights, check_variants)
