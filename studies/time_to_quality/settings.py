"""`time_to_quality`: which recipe of a grid is to reach the quality of which."""

from pydantic import Field

from unequal.settings.names import Name
from unequal.settings.strict import Strict


class TimeToQuality(Strict):
    """The question: after how many images does a recipe reach its baseline's final FID?"""

    baselines: dict[Name, Name] = Field(min_length=1, description="recipe → the one whose final FID it is to reach")
    rivals: dict[Name, Name] = Field(
        default={}, description="the same for recipes of other papers, which are shown beside and judged by no claim"
    )
