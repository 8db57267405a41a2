"""Gate of the study: params.yaml as a whole is sound, before anything runs."""

from studies.predictions.params import Params
from unequal.pipeline.gate import gate

main = gate(__file__, Params.read)

if __name__ == "__main__":
    main()
