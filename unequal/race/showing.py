"""The standing of a race as text."""

import math
from collections.abc import Iterator

from unequal.race.bracket import rungs
from unequal.race.findings import Standing, called, sentence
from unequal.race.plan import SHORT
from unequal.race.standing import means
from unequal.report.formatting import with_prefix


def lines(standing: Standing) -> Iterator[str]:
    """The sentence, the candidates of every rung, and what comes next."""
    yield sentence(standing)
    for rung, results in standing.done.items():
        share = f" at {standing.race.short.share:g} of the images" if rung == SHORT and standing.race.short else ""
        yield ""
        yield f"{rung}{share}"
        for one, mean in means(results).items():
            fid = f"{math.exp(mean):8.4g}" if math.isfinite(mean) else "collapsed"
            yield f"  {called(one):44} {fid}  {len(results[one])} trainings"
    yield ""
    spent = sum(standing.images().values())
    yield f"so far: {with_prefix(spent)} images, {spent / standing.race.recipe.images:.1f} whole trainings"
    following = rungs(standing.race, standing.done)[-1]
    if following.name not in standing.done:
        count = len(following.candidates) * len(following.blocks)
        left = seconds_left(standing)
        time = "" if left is None else f", about {hours(left)} of one device by what trainings have taken"
        yield f"next: {following.name}, {count} trainings{time}"


def seconds_left(standing: Standing) -> float | None:
    """Seconds of the next rung by the time of those that are done; None where nothing was timed."""
    images, following = sum(standing.images().values()), rungs(standing.race, standing.done)[-1]
    training, scoring = (sum(one[place] for one in standing.seconds.values()) for place in (0, 1))
    trained = sum(len(blocks) for results in standing.done.values() for blocks in results.values())
    if not training or not images:
        return None
    count = len(following.candidates) * len(following.blocks)
    return count * (following.share * standing.race.recipe.images * training / images + scoring / trained)


def hours(seconds: float) -> str:
    """Seconds as hours, or minutes where they are few."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
