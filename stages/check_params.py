"""Gate of the pipeline: params.yaml as a whole is sound, before anything runs."""

from unequal.pipeline.gate import gate
from unequal.settings.params.pipeline import Params

main = gate(__file__, Params.read)

if __name__ == "__main__":
    main()
