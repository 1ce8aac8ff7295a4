"""Line and bar charts as SVG text. Pure.

Enough for a report: axes from zero, a few round ticks, one line and one label per series.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 760
HEIGHT: Final = 340
LEFT: Final = 70
RIGHT: Final = 130
TOP: Final = 40
BOTTOM: Final = 45
FONT: Final = 'font-family="sans-serif" font-size="13"'
TICKS: Final = 4
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Distinguishable with colour blindness (Okabe and Ito)."""


def lines(series: Mapping[str, Sequence[int]], *, title: str, x: str, y: str) -> str:
    """Draw each series as a line, with its first value at x = 1."""
    count = max(len(values) for values in series.values())
    top = _round_up(max(max(values) for values in series.values()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, title, weight="bold"),
        *_axes(count, top, x=x, y=y),
    ]
    for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
        points = [(_x(n, count), _y(value, top)) for n, value in enumerate(values, start=1)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(points[-1][0] + 8, points[-1][1] + 4, name, fill=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(count: int, top: int, *, x: str, y: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    drawn = [
        f'<path d="M{LEFT},{TOP} V{bottom} H{right}" fill="none" stroke="#555"/>',
        _text(right - 30, HEIGHT - 10, x),
        _text(8, TOP - 18, y),
    ]
    for tick in range(TICKS + 1):
        value = top * tick // TICKS
        height = _y(value, top)
        drawn.append(f'<path d="M{LEFT},{height:.1f} H{right}" stroke="#ddd"/>')
        drawn.append(_text(LEFT - 8, height + 4, f"{value:,}", anchor="end"))
    marked = sorted({1, *(round(count * tick / TICKS) for tick in range(1, TICKS + 1))})
    below = [_text(_x(n, count), bottom + 18, str(n), anchor="middle") for n in marked]
    return [*drawn, *below]


def _x(n: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (n - 1) / max(count - 1, 1)


def _y(value: int, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _round_up(value: int) -> int:
    """Round up to a multiple of a power of ten that the ticks divide evenly."""
    unit = max(TICKS, int("1" + "0" * (len(str(value)) - 2)) * TICKS)
    return -(-value // unit) * unit


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    fill: str = "#222",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{fill}">{escape(text)}</text>'
    )


def bars(groups: Mapping[str, tuple[float, ...]], *, title: str, names: tuple[str, ...]) -> str:
    """Draw a few bars per group, scaled from zero to one."""
    step = 14 * len(names) + 10
    height = TOP + step * len(groups) + BOTTOM
    left, width = 330, WIDTH - 330 - 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(8, 22, title, weight="bold"),
    ]
    for row, (group, values) in enumerate(groups.items()):
        top = TOP + row * step
        parts.append(_text(left - 8, top + 12, group, anchor="end"))
        for n, (colour, value) in enumerate(zip(COLOURS, values, strict=False)):
            y = top + 14 * n
            size = f'width="{width * value:.1f}" height="12"'
            parts.append(f'<rect x="{left}" y="{y}" {size} fill="{colour}"/>')
            parts.append(_text(left + width * value + 6, y + 11, f"{names[n]} {value:.3f}"))
    return "\n".join([*parts, "</svg>"]) + "\n"
