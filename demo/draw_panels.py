"""Draws the dashboard's panels as Grafana would: a row of numbers and rows of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from demo.panels import Panel, Window

matplotlib.use("svg")
from matplotlib import pyplot as plt  # after the backend is chosen
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

_PAGE, _PANEL, _EDGE = "#111217", "#1a1d23", "#34383f"
_TEXT, _FAINT = "#e6e7ea", "#a2a6ad"
_COLOURS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
_LINES = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9")
_COLUMNS = 3
_INCH = 100
"""Points of the page per inch of the figure: 850 of them are its width."""


def draw(panels: Sequence[Panel], window: Window, title: str, path: Path) -> None:
    """Write the picture: numbers (`stat`) in the first row, three graphs in each further row."""
    numbers = [panel for panel in panels if panel.type_ == "stat"]
    graphs = [panel for panel in panels if panel.type_ == "timeseries"]
    rows = -(-len(graphs) // _COLUMNS)
    height = 0.5 + 0.75 + 1.85 * rows
    style = {
        "svg.hashsalt": path.stem,
        "font.family": "sans-serif",
        "font.size": 8.5,
        "text.color": _TEXT,
    }
    with plt.rc_context(style):
        figure = plt.figure(figsize=(8.5, height), facecolor=_PAGE, dpi=_INCH)
        figure.text(0.012, 1 - 0.3 / height, title, fontsize=10.5, va="center")
        top = 1 - 0.5 / height
        for place, panel in enumerate(numbers):
            box = (place / len(numbers), top - 0.75 / height, 1 / len(numbers), 0.75 / height)
            _draw_number(figure.add_axes(_inside(box, height)), panel)
        top -= 0.75 / height
        for place, panel in enumerate(graphs):
            row, column = divmod(place, _COLUMNS)
            tall = 1.85 / height
            box = (column / _COLUMNS, top - (row + 1) * tall, 1 / _COLUMNS, tall)
            _frame(figure.add_axes(_inside(box, height)), panel.title)
            left, bottom, wide, high = box
            plot = (
                left + 0.06,
                bottom + 0.5 / height,
                wide - 0.075,
                high - 0.87 / height,
            )
            _draw_graph(figure.add_axes(plot), panel, window)
        figure.savefig(path, metadata={"Date": None}, facecolor=_PAGE)
        plt.close(figure)


def _inside(
    box: tuple[float, float, float, float], height: float
) -> tuple[float, float, float, float]:
    """Return the box without the gap around it."""
    left, bottom, wide, high = box
    across, up = 0.04 / 8.5, 0.04 / height
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
    for place, (name, series) in enumerate(panel.lines):
        value = series.values[-1]
        mapped = panel.mapped.get(f"{value:.0f}")
        if mapped:
            text, colour = mapped["text"], mapped["color"]
        else:
            text = with_unit(value, panel.unit)
            colour = [each for least, each in panel.thresholds if value >= least][-1]
        if len(panel.lines) == 1:
            axes.text(
                0.5, 0.36, text, color=_COLOURS[colour], fontsize=17, ha="center", va="center"
            )
        else:
            axes.text(0.05, 0.44 - 0.27 * place, name, color=_FAINT, fontsize=7, va="center")
            axes.text(
                0.95, 0.44 - 0.27 * place, text, color=_COLOURS[colour], ha="right", va="center"
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
    axes.tick_params(colors=_FAINT, labelsize=7.5, length=0, pad=3)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:.0f} s"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: with_unit(value, panel.unit)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.44, -0.1),
        ncols=3,
        fontsize=7.5,
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
    shown = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return f"{shown} {name}".rstrip()
