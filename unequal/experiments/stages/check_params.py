"""Gate of an experiment: check params.yaml as a whole before anything runs."""

from unequal.data.labels import check_images, check_labels
from unequal.evaluation.weights import check_weights
from unequal.experiments.declaration import Declaration, check_variants
from unequal.models.pretrained import check_pretrained
from unequal.pipeline.gate import Gate
from unequal.training.optimizer import check_optimizers

main = Gate(
    __name__, Declaration, check_labels, check_images, check_weights, check_pretrained, check_optimizers, check_variants
)
