"""Draws the dashboard's panels as Grafana would: a row of numbers and rows of graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

from demo.panels import Panel, Window

matplotlib.use("svg")
from matplotlib import pyplot as plt  # after the backend is chosen
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

_PAGE, _PANEL, _EDGE = "#111217", "#1a1d23", "#34383f"
_TEXT, _FAINT = "#e6e7ea", "#a2a6ad"
_COLOURS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
_LINES = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9")
_COLUMNS = 3
_WIDTH, _TITLE_HEIGHT, _NUMBER_HEIGHT, _GRAPH_HEIGHT = 8.5, 0.5, 0.75, 1.9
"""In inches, of which a page shows 100 points."""


def draw(panels: Sequence[Panel], window: Window, title: str, path: Path) -> None:
    """Write the picture: numbers (`stat`) in the first row, three graphs in each further row."""
    numbers = [panel for panel in panels if panel.type_ == "stat"]
    graphs = [panel for panel in panels if panel.type_ == "timeseries"]
    rows = -(-len(graphs) // _COLUMNS)
    height = _TITLE_HEIGHT + _NUMBER_HEIGHT + _GRAPH_HEIGHT * rows
    with plt.rc_context(
        {
            "svg.hashsalt": path.stem,
            "font.family": "sans-serif",
            "font.size": 8.5,
            "text.color": _TEXT,
        }
    ):
        figure = plt.figure(figsize=(_WIDTH, height), facecolor=_PAGE)
        figure.text(0.012, 1 - 0.27 / height, title, fontsize=10.5, va="center")
        top = 1 - _TITLE_HEIGHT / height
        for place, panel in enumerate(numbers):
            box = (
                place / len(numbers),
                top - _NUMBER_HEIGHT / height,
                1 / len(numbers),
                _NUMBER_HEIGHT / height,
            )
            _draw_number(figure.add_axes(_inside(box, height)), panel)
        top -= _NUMBER_HEIGHT / height
        for place, panel in enumerate(graphs):
            row, column = divmod(place, _COLUMNS)
            tall = _GRAPH_HEIGHT / height
            box = (column / _COLUMNS, top - (row + 1) * tall, 1 / _COLUMNS, tall)
            _frame(figure.add_axes(_inside(box, height)), panel.title)
            left, bottom, wide, high = box
            plot = (
                left + 0.064,
                bottom + 0.58 / height,
                wide - 0.087,
                high - 0.95 / height,
            )
            _draw_graph(figure.add_axes(plot), panel, window)
        figure.savefig(path, metadata={"Date": None}, facecolor=_PAGE)
        plt.close(figure)


def _inside(
    box: tuple[float, float, float, float], height: float
) -> tuple[float, float, float, float]:
    """Return the box without the gap around it."""
    left, bottom, wide, high = box
    across, up = 0.04 / _WIDTH, 0.04 / height
    return left + across, bottom + up, wide - 2 * across, high - 2 * up


def _frame(axes: Axes, title: str) -> None:
    axes.set_facecolor(_PANEL)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(_EDGE)
        spine.set_linewidth(0.7)
    axes.annotate(
        title, (0, 1), (6, -6), xycoords="axes fraction", textcoords="offset points", va="top"
    )


def _draw_number(axes: Axes, panel: Panel) -> None:
    _frame(axes, panel.title)
    for place, (_, series) in enumerate(panel.lines, start=1):
        value = series.values[-1]
        mapped = panel.mapped.get(f"{value:.0f}")
        if mapped:
            text, colour = mapped["text"], mapped["color"]
        else:
            text = with_unit(value, panel.unit)
            colour = [each for least, each in panel.thresholds if value >= least][-1]
        axes.text(
            place / (len(panel.lines) + 1),
            0.36,
            text,
            color=_COLOURS[colour],
            fontsize=17,
            ha="center",
            va="center",
        )


def _draw_graph(axes: Axes, panel: Panel, window: Window) -> None:
    axes.set_facecolor(_PANEL)
    for (name, series), colour in zip(panel.lines, _LINES, strict=False):
        seconds = [at - window.start for at in series.times]
        axes.plot(seconds, series.values, color=colour, linewidth=1.2, label=name)
        if len(panel.lines) == 1:
            axes.fill_between(seconds, series.values, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlim(0, window.end - window.start)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.1)
    axes.grid(color=_EDGE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_FAINT, labelsize=7.5, length=0, pad=4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:.0f} s"))
    if panel.unit == "bytes":
        step = 2 ** math.ceil(math.log2(max(axes.get_ylim()[1] / 4, 1)))
        axes.yaxis.set_major_locator(MultipleLocator(step))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: with_unit(value, panel.unit)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.44, -0.12),
        ncols=3 if sum(len(name) for name, _ in panel.lines) < 36 else 2,
        fontsize=7,
        frameon=False,
        labelcolor=_TEXT,
        handlelength=1,
        handletextpad=0.4,
        columnspacing=1,
    )


def with_unit(value: float, unit: str) -> str:
    """Return the value as Grafana prints it in this unit of its own."""
    if value == 0:
        return "0 s" if unit == "s" else "0"
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB"))
    if unit == "Bps":
        return _scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    plain = _scaled(value, 1000, ("", "K", "M", "G"))
    return plain + {"s": " s", "cps": "/s"}.get(unit, "")


def _scaled(value: float, base: int, names: Sequence[str]) -> str:
    name, *larger = names
    while larger and abs(value) >= base:
        value /= base
        name, *larger = larger
    shown = f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
    return f"{shown} {name}".rstrip()
