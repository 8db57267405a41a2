"""Gate of the study: params.yaml as a whole is sound, before anything runs."""

from studies.latent.params import Params
from unequal.data.labels import check_labels
from unequal.pipeline.gate import Gate
from unequal.experts.reach import check_reach

main = Gate(__name__, Params, check_labels, check_reach)
