"""`data`: where the images come from and what shape they are brought to."""

from typing import Literal, Self

from pydantic import Field, model_validator

from unequal.settings.outside import Outside
from unequal.settings.strict import Strict

#: Sources that come with scikit-learn, and the widest patch of which k-means finds its classes.
EMBEDDED = ("digits", "patches")
WIDEST_PATCH = 128


class Data(Strict):
    """Images and their split into a training and a held-out part."""

    source: Literal["digits", "patches", "cifar10", "folder", "array"] = Field(
        description="digits and patches of photographs (both in scikit-learn), cifar10 (torchvision), "
        "a folder of images, an .npy/.npz array"
    )
    path: Outside | None = Field(description="folder or file; for cifar10 where it lies or is downloaded to")
    image_size: int = Field(ge=4, le=4096, description="height and width in pixels")
    channels: Literal[1, 3] = Field(description="1 grey, 3 RGB")
    fit: Literal["exact", "crop", "resize"] = Field(
        description="images of another size: refused, resized and centre-cropped, or squeezed"
    )
    holdout: float = Field(gt=0, le=0.9, description="share of the images kept out of training")

    @model_validator(mode="after")
    def source_has_what_it_needs(self) -> Self:
        """Combinations of source, path, size and channels that cannot be."""
        if self.source not in EMBEDDED and self.path is None:
            raise ValueError(f"source '{self.source}' needs a path; allowed without one: {', '.join(EMBEDDED)}")
        if self.source in EMBEDDED and self.path is not None:
            raise ValueError(
                f"path: has no meaning for source '{self.source}', which lie in scikit-learn; set it to null"
            )
        if self.source in EMBEDDED and self.fit != "exact":
            raise ValueError(
                f"fit: '{self.fit}' has no meaning for source '{self.source}', of one size; allowed: exact"
            )
        if self.source == "digits" and (self.image_size, self.channels) != (8, 1):
            raise ValueError("digits are 8 pixels wide with 1 channel; set image_size: 8, channels: 1")
        if self.source == "patches" and (self.channels != 3 or self.image_size > WIDEST_PATCH):
            raise ValueError(f"patches have 3 channels and at most {WIDEST_PATCH} pixels a side")
        if self.source == "cifar10" and (self.channels != 3 or (self.fit == "exact" and self.image_size != 32)):
            raise ValueError("cifar10 is 32 pixels wide with 3 channels; another image_size needs fit: crop or resize")
        return self
