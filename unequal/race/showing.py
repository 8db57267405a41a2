"""Standing of a race as text."""

import math
from collections.abc import Iterator

from unequal.race.bracket import rungs
from unequal.race.findings import Standing, called, sentence
from unequal.race.plan import SHORT, Rung
from unequal.race.standing import means
from unequal.report.formatting import duration, with_prefix


def lines(standing: Standing) -> Iterator[str]:
    """Yield the sentence, the candidates of every rung, and the next step."""
    yield sentence(standing)
    for rung, results in standing.done.items():
        share = f" at {standing.race.short.share:g} of the images" if rung == SHORT and standing.race.short else ""
        yield ""
        yield f"{rung}{share}"
        for one, mean in means(results).items():
            fid = f"{math.exp(mean):8.3g}" if math.isfinite(mean) else "collapsed"
            yield f"  {called(one):44} {fid}  {len(results[one])} trainings"
    yield ""
    spent = sum(standing.images().values())
    yield f"so far: {with_prefix(spent)} images, {spent / standing.race.recipe.images:.1f} whole trainings"
    following = rungs(standing.race, standing.done)[-1]
    if following.name not in standing.done:
        count = len(following.candidates) * len(following.blocks)
        yield f"next: {following.name}, {count} trainings{time_left(standing, following)}"


def time_left(standing: Standing, following: Rung) -> str:
    """Time of the next rung, and of all remaining rungs, estimated from the times of past trainings."""
    seen, whole = sum(standing.images().values()), standing.race.recipe.images
    training, scoring = (sum(one[place] for one in standing.seconds.values()) for place in (0, 1))
    trained = sum(len(blocks) for results in standing.done.values() for blocks in results.values())
    if not training or not seen:
        return ""

    def seconds(images: float, count: int) -> float:
        return images * training / seen + count * scoring / trained

    plan, arms = standing.plan, len(standing.race.arms)
    count = len(following.candidates) * len(following.blocks)
    soon = seconds(following.share * whole * count, count)
    to_the_end = seconds(plan.cost(arms) * whole - seen, sum(plan.trainings(arms)) - trained)
    at_most = duration(to_the_end)
    return f", about {duration(soon)} of one device by what trainings have taken; to the end at most {at_most}"
