"""Gate of the pipeline: check params.yaml as a whole before anything runs."""

from unequal.data.labels import check_images, check_labels
from unequal.evaluation.weights import check_weights
from unequal.experts.reach import check_reach
from unequal.models.pretrained import check_pretrained
from unequal.pipeline.gate import Gate
from unequal.settings.params import Params
from unequal.training.optimizer import check_optimizers

main = Gate(
    __name__, Params, check_labels, check_images, check_weights, check_reach, check_pretrained, check_optimizers
)
