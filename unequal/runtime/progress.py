"""Progress of long work: a bar on a terminal, elsewhere a plain line every 30 seconds."""

import sys
from collections.abc import Iterator
from typing import Any

from unequal.errors import needs
from unequal.runtime.processes import rank

needs(__name__, "pipeline", "tqdm")
from tqdm import tqdm  # noqa: E402

SECONDS_BETWEEN = 30.0


def progress(
    total: int, unit: str, *, label: str = "", initial: int = 0, step: int = 0, shown: bool = True
) -> "tqdm[Any]":
    """Open a bar for `total` units; `update(n)` and `set_postfix` are tqdm's.

    Args:
        total: units in all.
        unit: its name in the plural, as in `images`.
        label: what is done.
        initial: units that an earlier attempt has done.
        step: units of an optimizer step, by which lines count; 0: there are no steps.
        shown: false for none at all. Of processes that share the work, only the first shows it.
    """
    hidden = not shown or rank() > 0
    if sys.stderr.isatty():
        # What takes less than two seconds shows no bar.
        named: dict[str, Any] = {"unit": f" {unit}", "unit_scale": True, "desc": label or None, "delay": 2.0}
        return tqdm(total=total, initial=initial, disable=hidden, **named)
    return ProgressLines(total, unit, label, initial, step, hidden)


def tracked(items: Any, unit: str, label: str) -> Iterator[Any]:
    """Yield the items of a sequence or an array with their progress; see `progress`."""
    with progress(len(items), unit, label=label) as bar:
        for item in items:
            yield item
            bar.update()


class ProgressLines(tqdm):  # type: ignore[type-arg]
    """A tqdm that writes lines: how much is done, the last figures, the speed, the time left."""

    def __init__(self, total: int, unit: str, label: str, initial: int, step: int, hidden: bool) -> None:
        self.step, self.label = step, label
        # No line for the first 30 seconds, so none for what takes less.
        pace: dict[str, Any] = {"mininterval": SECONDS_BETWEEN, "miniters": 1, "delay": SECONDS_BETWEEN}
        super().__init__(total=total, initial=initial, unit=unit, disable=hidden, leave=False, file=sys.stderr, **pace)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line."""
        self.fp.write(f"{self}\n")
        self.fp.flush()

    def clear(self, nolock: bool = False) -> None:
        """Leave lines where they are."""

    def close(self) -> None:
        """Write nothing more."""
        if not self.disable:
            self.disable = True
            self._decr_instances(self)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        facts = self.format_dict
        done, total = facts["n"], facts["total"]
        rate = facts["rate"] or (done - facts["initial"]) / facts["elapsed"]
        parts = [f"{done:,} of {total:,} {self.unit}"]
        if self.step:
            parts.insert(0, f"step {-(-done // self.step):,} of {-(-total // self.step):,}")
        if facts["postfix"]:
            parts.append(facts["postfix"].replace("=", " "))
        if rate:
            left = tqdm.format_interval((total - done) / rate)
            parts += [f"{rate:,.3g} {self.unit}/s" if rate < 1000 else f"{rate:,.0f} {self.unit}/s", f"{left} left"]
        return f"{self.label}: {', '.join(parts)}".removeprefix(": ")
