"""How large the transformer of settings is, counted from the settings alone: nothing is built."""

from unequal.models.backbones.size import Size
from unequal.settings.network import DiT

#: As in `unequal.models.backbones.dit.network`, which takes long to import.
FREQUENCIES, MLP_RATIO, MODULATIONS = 256, 4, 6
#: Kept of a token in a block, times the width: inputs of both norms, what these answer and what is made of it by
#: scale and shift (6); queries, keys, values and answer of the attention (4); what gates scale (2); and
#: what goes into the MLP's activation and comes out of it.
KEPT = 12 + 2 * MLP_RATIO
#: In hand at once in an MLP: the tokens, input, hidden layer before and behind its activation.
IN_HAND = 2 + 2 * MLP_RATIO


def size_of(network: DiT, image_size: int, inputs: int, outputs: int) -> Size:
    """The size of the network that these settings make. Raises ValueError where they make none."""
    network.check_size(image_size)
    width, pixels = network.width, network.patch**2
    tokens = (image_size // network.patch) ** 2
    told = linear(FREQUENCIES, width) + linear(width, width) + (network.condition.embedded_classes or 0) * width
    block = (
        linear(width, MODULATIONS * width)
        + linear(width, 3 * width)
        + linear(width, width)
        + linear(width, MLP_RATIO * width)
        + linear(MLP_RATIO * width, width)
    )
    ends = linear(pixels * inputs, width) + linear(width, 2 * width) + linear(width, pixels * outputs)
    # The last layer keeps three times the tokens, the first one its image.
    kept = tokens * (width * (KEPT * network.depth + 3) + pixels * inputs)
    return Size(told + network.depth * block + ends, kept, IN_HAND * width * tokens)


def linear(inputs: int, outputs: int) -> int:
    """Weights and biases of a layer."""
    return inputs * outputs + outputs
