"""Gate of the pipeline: params.yaml as a whole is sound, before anything runs."""

from unequal.pipeline.gate import gate
from unequal.settings.params.pipeline import read_pipeline_params

main = gate(__file__, read_pipeline_params)

if __name__ == "__main__":
    main()
