"""Error against bound, per numeric clause: one inline SVG with a histogram for each target.

matplotlib draws them and is imported only here, only when there is something to draw. The output is deterministic: a
fixed hash salt, no date, ids of its own per plot (several plots share one page), text kept as text. Colours become CSS
variables, so that a plot follows the page's theme.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from harness.records import Clause
from harness.report.model import RunReport
from harness.report.text import one_line

BINS_PER_DECADE: Final = 8
FLOOR: Final = -6.0
"""log10 of the smallest ratio that gets a bin of its own; smaller ones are drawn there."""

CEILING: Final = 6.0
ROWS: Final = 24
"""Targets drawn in one plot; the rest stand in the table below it."""

# Matplotlib wants real colours; these never occur otherwise and are replaced by the page's variables afterwards.
_INK, _MUTED, _LINE, _GOOD, _BAD = "#010203", "#010204", "#010205", "#010206", "#010207"
_VARIABLES: Final = {_INK: "--ink", _MUTED: "--muted", _LINE: "--line", _GOOD: "--good", _BAD: "--bad"}


class Spread(msgspec.Struct, frozen=True):
    """One target's error over bound under one clause (dimensionless; above 1 fails)."""

    target: str
    count: int
    exact: int  # ratio 0: not one element differs
    beyond: int  # ratio above 1
    broken: int  # not finite: NaN, or an error where the bound is zero
    middle: float
    largest: float
    logs: tuple[float, ...]  # log10 of what can be drawn

    @classmethod
    def of(cls, target: str, ratios: tuple[float, ...]) -> Spread:
        """Sum up one sample. NaN counts as not finite, never as small."""
        finite = sorted(r for r in ratios if math.isfinite(r))
        return cls(
            target=target,
            count=len(ratios),
            exact=sum(1 for r in finite if r == 0),
            beyond=sum(1 for r in finite if r > 1) + len(ratios) - len(finite),
            broken=len(ratios) - len(finite),
            middle=finite[len(finite) // 2] if finite else math.nan,
            largest=finite[-1] if len(finite) == len(ratios) else math.inf,
            logs=tuple(min(max(math.log10(r), FLOOR), CEILING) for r in finite if r > 0),
        )


class Plot(msgspec.Struct, frozen=True):
    """The plot of one clause and the numbers it shows, for readers who cannot see it."""

    clause: Clause
    svg: str
    spreads: tuple[Spread, ...]


def plots(report: RunReport, limit: int) -> Iterator[Plot]:
    """One plot per clause that has ratios, in the order of the contract, at most ``limit``."""
    for number, (clause, spreads) in enumerate(spreads_by_clause(report)[:limit]):
        yield Plot(clause, draw(spreads[:ROWS], f"plot{number}"), spreads)


def spreads_by_clause(report: RunReport) -> list[tuple[Clause, tuple[Spread, ...]]]:
    """The samples of each numeric clause, in the order of the contract; clauses without a sample are left out."""
    found = []
    for clause in report.all_clauses():
        samples = [(t, report.ratios.get(t, {}).get(clause.id, ())) for t in report.targets]
        spreads = tuple(Spread.of(target, ratios) for target, ratios in samples if ratios)
        if spreads:
            found.append((clause, spreads))
    return found


def draw(spreads: tuple[Spread, ...], name: str) -> str:
    """The histograms of one clause as an ``<svg>`` element. ``name`` prefixes every id in it."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 8.5,
        "path.simplify": False,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(6.2, 0.62 + 0.42 * len(spreads)))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        _axes(
            figure.add_axes((0.36, 0.42 / figure.get_figheight(), 0.42, 0.42 * len(spreads) / figure.get_figheight())),
            spreads,
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(buffer.getvalue(), name)


def _axes(axes: object, spreads: tuple[Spread, ...]) -> None:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

    assert isinstance(axes, Axes)
    every = [log for spread in spreads for log in spread.logs]
    low = math.floor(min([-3.0, *every]))
    high = math.ceil(max([1.0, *every]))
    bins = (high - low) * BINS_PER_DECADE
    within: list[tuple[float, float, float]] = []
    beyond: list[tuple[float, float, float]] = []
    for row, spread in enumerate(reversed(spreads)):
        counts = [0] * bins
        for log in spread.logs:
            counts[min(int((log - low) * BINS_PER_DECADE), bins - 1)] += 1
        top = max(counts) or 1
        for index, count in enumerate(counts):
            left = low + index / BINS_PER_DECADE
            if count:
                # A single outlier must stay visible beside a peak of hundreds, hence the 0.1.
                (beyond if left >= 0 else within).append((left, row, 0.1 + 0.7 * count / top))
        axes.axhline(row, color=_LINE, linewidth=0.8)
        tail = "not finite" if spread.broken else f"max {spread.largest:.3g}"
        bad = spread.beyond > 0
        axes.text(1.02, row + 0.3, f"{tail} · n {spread.count:,}", transform=axes.get_yaxis_transform(), va="center",
                  color=_BAD if bad else _MUTED, parse_math=False)  # fmt: skip
    for bars, colour in ((within, _GOOD), (beyond, _BAD)):
        if bars:
            axes.add_patch(PathPatch(_outline(bars), color=colour, linewidth=0))
    axes.axvline(0, color=_INK, linewidth=1.1, linestyle=(0, (4, 2)))
    axes.set(xlim=(low, high), ylim=(-0.05, len(spreads)))
    axes.set_xticks(range(low, high + 1), [_power(p) for p in range(low, high + 1)], color=_MUTED)
    labels = [one_line(s.target, 40).encode("ascii", "replace").decode() for s in reversed(spreads)]
    axes.set_yticks([row + 0.3 for row in range(len(spreads))], labels, color=_INK, parse_math=False)
    axes.tick_params(length=0)
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _outline(bars: list[tuple[float, float, float]]) -> Any:
    """All bars (left, bottom, height) as one path: a patch for each would make the page ten times as large."""
    from matplotlib.path import Path

    width = 1 / BINS_PER_DECADE
    points, codes = [], []
    for x, y, height in bars:
        points += [(x, y), (x, y + height), (x + width, y + height), (x + width, y), (x, y)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(points, codes)


def _power(power: int) -> str:
    return {0: "bound", 1: "10×", -1: "0.1"}.get(power, f"1e{power}" if power < 0 else f"1e{power}×")


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Matplotlib styles "*", which inside a page is every element of the page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'^<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg class="plot" viewBox="\1" aria-hidden="true">', svg)
    svg = svg.replace("xlink:href", "href")
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return re.sub(r"\n\s*", "\n", svg).strip()
