"""Gate of a comparison: check params.yaml as a whole before anything runs."""

from unequal.comparison.params import ComparisonParams
from unequal.data.labels import check_images, check_labels
from unequal.evaluation.weights import check_weights
from unequal.experts.reach import check_reach
from unequal.models.pretrained import check_pretrained
from unequal.pipeline.gate import Gate

main = Gate(__name__, ComparisonParams, check_labels, check_images, check_weights, check_reach, check_pretrained)
