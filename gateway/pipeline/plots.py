"""Plots of captured traffic, drawn by matplotlib without a screen: in light and in dark, wide and for a phone."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib
import msgspec

matplotlib.use("Agg")

from matplotlib import dates, ticker
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from gateway.pipeline.trends import SECOND, Steps

PNG_DOTS = 160
"""Per inch."""


class Look(msgspec.Struct, frozen=True):
    """Colors.  series: of what is told apart, in this order; the last one for all others."""

    name: str
    card: str
    line: str
    text: str
    dim: str
    series: tuple[str, ...]


LIGHT = Look(
    "light", "#ffffff", "#e3e6ea", "#1a1e24", "#626c7a",
    ("#2563c9", "#d97706", "#1a7f4b", "#b0338f", "#0e8a96", "#bf2c47", "#7a5cc4", "#8f99a8"),
)  # fmt: skip
DARK = Look(
    "dark", "#161a21", "#272d37", "#e5e9ef", "#8f99a8",
    ("#73aaff", "#f0a540", "#4cc38a", "#e58bd0", "#5cc8d4", "#ff7288", "#b49cf2", "#626c7a"),
)  # fmt: skip


class Shape(msgspec.Struct, frozen=True):
    """inches: width, and height of one part of a plot.  text: points.  ticks: on an axis of times, at most.

    letters: of a name, at most.
    """

    name: str
    inches: tuple[float, float]
    text: float
    ticks: int
    letters: int


WIDE = Shape("wide", (9.6, 2.6), 10.0, 9, 48)
NARROW = Shape("narrow", (4.4, 2.5), 10.0, 4, 36)


class Throughput(msgspec.Struct, frozen=True):
    """By step.  commands: per second, by dialect.  written, read: records per second."""

    steps: Steps
    commands: Mapping[str, Sequence[float]]
    written: Sequence[float]
    read: Sequence[float]


class Latency(msgspec.Struct, frozen=True):
    """us, by percentile and then by step; None = nothing was answered."""

    steps: Steps
    trend: Mapping[str, Sequence[float | None]]


class Commands(msgspec.Struct, frozen=True):
    """us.  kinds: dialect and command, and its p50, p95 and p99."""

    kinds: Sequence[tuple[str, float, float, float]]


class Lag(msgspec.Struct, frozen=True):
    """Records, by topic and reader and then by step; None = not known yet."""

    steps: Steps
    readers: Mapping[str, Sequence[float | None]]


Plot = Throughput | Latency | Commands | Lag


def picture(plot: Plot, look: Look, shape: Shape, form: str) -> bytes:
    """A plot, drawn; form: `png` or `svg`.  The same is drawn of the same."""
    with _style(look, shape), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # of a name in letters that no font here has
        figure = _PARTS[type(plot)](plot, look, shape)
        octets = io.BytesIO()
        dots = {"dpi": PNG_DOTS, "metadata": {"Software": None}} if form == "png" else {"metadata": {"Date": None}}
        figure.savefig(octets, format=form, facecolor=look.card, **dots)
    return octets.getvalue()


@contextmanager
def _style(look: Look, shape: Shape) -> Iterator[None]:
    settings = {
        "font.size": shape.text,
        "axes.facecolor": look.card,
        "axes.edgecolor": look.line,
        "axes.labelcolor": look.dim,
        "axes.titlecolor": look.text,
        "axes.titlesize": shape.text + 1,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": look.line,
        "grid.linewidth": 0.8,
        "xtick.color": look.dim,
        "ytick.color": look.dim,
        "xtick.labelcolor": look.dim,
        "ytick.labelcolor": look.dim,
        "ytick.major.size": 0,
        "text.color": look.text,
        "text.parse_math": False,  # names are what clients chose
        "legend.frameon": False,
        "legend.labelcolor": look.text,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "path",
        "svg.hashsalt": "gateway",
        "timezone": "UTC",
    }
    with matplotlib.rc_context(settings):  # type: ignore[arg-type]  # which lists every name that there is
        yield


# -- the plots


def _throughput(plot: Throughput, look: Look, shape: Shape) -> Figure:
    figure, (upper, lower) = _figure(shape, 2)
    times = _times(plot.steps)
    floor = [0.0] * len(times)
    for (name, values), color in zip(plot.commands.items(), _colors(look, len(plot.commands)), strict=True):
        top = [below + above for below, above in zip(floor, _steps(values), strict=True)]
        upper.fill_between(times, floor, top, step="post", color=color, linewidth=0, label=_cut(name, shape))
        floor = top
    _finish(upper, "Commands per second, by dialect", plot.steps, shape)
    _legend(upper, shape)
    for moved, at, label in ((plot.written, 0, "written"), (plot.read, 1, "read")):
        lower.plot(times, _steps(moved), drawstyle="steps-post", color=look.series[at], label=label)
    _finish(lower, "Records per second", plot.steps, shape)
    _legend(lower, shape)
    return figure


def _latency(plot: Latency, look: Look, shape: Shape) -> Figure:
    figure, (axes,) = _figure(shape, 1, (1.25,))
    times = _times(plot.steps)
    middles = [(one + other) / 2 for one, other in pairwise(times)]
    for (name, values), color in zip(plot.trend.items(), _colors(look, len(plot.trend)), strict=True):
        axes.plot(middles, [value / 1000 for value in _known(values)], ".-", ms=4, color=color, label=name)
    axes.set_yscale("log")
    _finish(axes, "Latency of answers, ms", plot.steps, shape)
    _legend(axes, shape)
    return figure


def _commands(plot: Commands, look: Look, shape: Shape) -> Figure:
    """For each kind a line from p50 to p99, with a dot at p50 and a stroke at p95."""
    figure, (axes,) = _figure(shape, 1, (0.45 + 0.11 * len(plot.kinds),))
    rows = [(at, [us / 1000 for us in ranges]) for at, (_, *ranges) in enumerate(reversed(plot.kinds))]
    ends = [at for at, _ in rows]
    axes.hlines(
        ends, [p50 for _, (p50, _, _) in rows], [p99 for _, (_, _, p99) in rows], look.series[0], lw=5, alpha=0.35
    )
    axes.plot([p50 for _, (p50, _, _) in rows], ends, "o", ms=6, color=look.series[0], label="p50")
    axes.plot([p95 for _, (_, p95, _) in rows], ends, "|", ms=9, mew=2, color=look.series[1], label="p95")
    axes.plot([], [], color=look.series[0], linewidth=5, alpha=0.35, label="to p99")
    axes.set_yticks(ends, [_cut(label, shape) for label, *_ in reversed(plot.kinds)], fontsize=shape.text - 1)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_title("Latency by command, ms", pad=8)
    axes.set_xscale("log")
    _logarithmic(axes.xaxis)
    axes.grid(visible=False, axis="y")
    _legend(axes, shape)
    return figure


def _lag(plot: Lag, look: Look, shape: Shape) -> Figure:
    figure, (axes,) = _figure(shape, 1, (1.25 if shape is WIDE else 1.25 + 0.08 * len(plot.readers),))
    times = _times(plot.steps)
    for (name, values), color in zip(plot.readers.items(), _colors(look, len(plot.readers)), strict=True):
        axes.plot(times, _steps(values), drawstyle="steps-post", color=color, label=_cut(name, shape))
    _finish(axes, "Records not committed, by topic and reader", plot.steps, shape)
    _legend(axes, shape)
    if not plot.readers:
        axes.text(0.5, 0.5, "nobody committed an offset", ha="center", transform=axes.transAxes, color=look.dim)
    return figure


_PARTS: dict[type, Callable[..., Figure]] = {Throughput: _throughput, Latency: _latency, Commands: _commands, Lag: _lag}


# -- what they have in common


def _figure(shape: Shape, parts: int, heights: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:
    ratios = list(heights or [1.0] * parts)
    width, height = shape.inches
    figure = Figure(figsize=(width, height * sum(ratios)), layout="constrained")
    axes = figure.subplots(parts, 1, squeeze=False, height_ratios=ratios)
    return figure, list(axes[:, 0])


def _colors(look: Look, count: int) -> list[str]:
    return [look.series[min(at, len(look.series) - 1)] for at in range(count)]


def _times(steps: Steps) -> list[float]:
    """Where steps begin, and where the last one ends, in days since the epoch, as matplotlib counts."""
    return [(steps.first + at * steps.width) / SECOND / 86400 for at in range(steps.count + 1)]


def _steps(values: Sequence[float | None]) -> list[float]:
    """With the last one again, so that the last step has a width, too."""
    known = _known(values)
    return [*known, known[-1]] if known else []


def _known(values: Sequence[float | None]) -> list[float]:
    """Nothing is drawn of what is not known, not even a line across it."""
    return [float("nan") if value is None else value for value in values]


def _finish(axes: Axes, title: str, steps: Steps, shape: Shape) -> None:
    axes.set_title(title, pad=8)
    if axes.get_yscale() == "log":
        _logarithmic(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
    axes.set_xlim(_times(steps)[0], _times(steps)[-1])
    locator = dates.AutoDateLocator(minticks=2, maxticks=shape.ticks)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=False))  # type: ignore[no-untyped-call]
    axes.grid(visible=False, axis="x")


def _legend(axes: Axes, shape: Shape) -> None:
    """Below the axis, in as many columns as there is room for."""
    labels = axes.get_legend_handles_labels()[1]
    if not labels:
        return
    letters = shape.inches[0] * 72 / (0.62 * shape.text)  # as wide as most are
    columns = int(letters // (max(map(len, labels)) + 5))
    below = offset_copy(axes.transAxes, axes.get_figure(root=True), y=-2.4 * shape.text, units="points")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        ncols=max(1, min(columns, len(labels))),
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.2,
    )


def _logarithmic(axis: matplotlib.axis.Axis) -> None:
    """Milliseconds as people write them."""
    axis.set_major_locator(ticker.LogLocator(subs=(1.0,), numticks=8))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _cut(name: str, shape: Shape) -> str:
    """A name that clients chose, on one line.  What begins with `_` would be left out of a legend."""
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    plain = f" {plain}" if plain.startswith("_") else plain
    return plain if len(plain) <= shape.letters else f"{plain[: shape.letters - 3]}..."


def _short(value: float) -> str:
    """1,500,000 as 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
