"""Numbers as text: SI prefixes, percentages, means with spreads, names of models."""

import math
from datetime import date

from matplotlib.ticker import EngFormatter

#: Names of methods that papers spell differently.
SPELLED = {"min snr": "Min-SNR", "log snr": "log-SNR", "info noise": "InfoNoise", "logit normal": "logit-normal"}


def label(name: str) -> str:
    """Name of a model in text."""
    words = name.replace("_", " ")
    for plain, spelled in SPELLED.items():
        words = words.replace(plain, spelled)
    return words


def with_prefix(value: float) -> str:
    """Format a number to three significant digits with an SI prefix: 160000 → `160 k`, 2.21e12 → `2.21 T`."""
    rounded = float(f"{value:.3g}")
    whole = rounded == 0 or (rounded.is_integer() and abs(rounded) < 1000)
    places = 0 if whole else 2 - math.floor(math.log10(abs(rounded))) % 3
    return EngFormatter(places=places, sep=" ")(rounded).strip()


def today() -> str:
    """Today's date as text, such as 7 May 2026."""
    return f"{date.today().day} {date.today():%B %Y}"


def time_unit(seconds: float) -> tuple[int, str]:
    """Unit that fits a time: its length in seconds, and its symbol."""
    return (3600, "h") if seconds >= 3600 else (60, "min") if seconds >= 60 else (1, "s")


def duration(seconds: float) -> str:
    """Format seconds in a suitable unit, to two digits or more: `12 s`, `4.2 min`, `1.9 h`, `126 h`."""
    length, unit = time_unit(seconds)
    value = seconds / length
    return f"{value:.{0 if value >= 9.95 else 1}f} {unit}".replace(".0 ", " ")


def percent(share: float, sign: bool = False) -> str:
    """Format a share of 1 in per cent, to three digits, at most two of them decimals."""
    text = f"{100 * share:{'+' if sign else ''}.{1 if abs(share) >= 0.1 else 2}f} %"
    return text.replace("-", "−")


def plus_minus(mean: float, spread: float | None, signed: bool = False) -> str:
    """Format mean and spread, to three digits of the mean or down to the spread's first digit: `12.3 ± 0.2`."""

    def place(value: float) -> int:
        # The spread is rounded first, since the first digit of 0.0996 is that of 0.1.
        return 2 if value == 0 else math.floor(math.log10(float(f"{abs(value):.1e}")))

    decimals = 2 - place(mean)
    if spread:
        decimals = min(max(decimals, -place(spread)), 1 - place(spread))

    def text(value: float, sign: str = "") -> str:
        return f"{round(value, decimals):{sign},.{max(0, decimals)}f}".replace("-", "−")

    shown = text(mean, "+" if signed else "")
    return shown if spread is None else f"{shown} ± {text(spread)}"


def signed(value: float) -> str:
    """Format a number with its sign, to one decimal, or to none from a hundred on."""
    return f"{value:+,.{0 if abs(value) >= 99.95 else 1}f}".replace("-", "−")
