"""Gate of the study: params.yaml as a whole is sound, before anything runs."""

from studies.latent.params import Params
from unequal.data.labels import check_labels
from unequal.experts.reach import check_reach
from unequal.pipeline.gate import Gate

main = Gate(__name__, Params, check_labels, check_reach)
