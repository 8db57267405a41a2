"""Gate of a race: check params.yaml as a whole before anything runs."""

from unequal.data.labels import check_images, check_labels
from unequal.pipeline.gate import Gate
from unequal.race.params import RaceParams

main = Gate(__name__, RaceParams, check_labels, check_images)
