"""Charts of a session's prompts: tokens, cumulative cost, and breaks of the cached prefix.

SVG with two panels, one line per policy, and a tick for each break.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Final

from ctxmgr.bench.economy.judge import SessionResult
from ctxmgr.core.economy.policy import Prices

WIDTH: Final = 900
PANEL: Final = 260
_MARGIN: Final = 60
_COLOURS: Final = ("#888888", "#c0392b", "#e67e22", "#8e44ad", "#16a085", "#2471a3")


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    session: SessionResult


def picture(title: str, curves: Sequence[Curve], *, prices: Prices) -> str:
    """Return both panels as SVG."""
    tokens = [[float(call.tokens) for call in curve.session.calls] for curve in curves]
    costs = [
        list(
            accumulate(
                prices.read * call.cached_tokens + prices.write * (call.tokens - call.cached_tokens)
                for call in curve.session.calls
            )
        )
        for curve in curves
    ]
    height = 2 * PANEL + 3 * _MARGIN
    body = [
        *_panel("tokens of the prompt", tokens, curves, top=_MARGIN, ticks=True),
        *_panel("cost so far, without outputs", costs, curves, top=2 * _MARGIN + PANEL),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">',
            '<g font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            f'<text x="{_MARGIN}" y="24" font-size="15">{escape(title)}</text>',
            *body,
            "</g></svg>\n",
        ]
    )


def _panel(
    name: str,
    values: Sequence[Sequence[float]],
    curves: Sequence[Curve],
    *,
    top: int,
    ticks: bool = False,
) -> Iterator[str]:
    most = max((value for line in values for value in line), default=1.0) or 1.0
    calls = max((len(line) for line in values), default=1)
    bottom = top + PANEL
    yield f'<text x="{_MARGIN}" y="{top - 6}">{name}, up to {most:,.0f}</text>'
    yield (
        f'<path d="M{_MARGIN},{top} V{bottom} H{WIDTH - _MARGIN}" fill="none" stroke="black"/>'
        f'<text x="{WIDTH - _MARGIN}" y="{bottom + 16}" text-anchor="end">call {calls}</text>'
    )
    for n, (curve, line) in enumerate(zip(curves, values, strict=True)):
        colour = _COLOURS[n % len(_COLOURS)]
        points = " ".join(
            f"{_x(call, calls):.1f},{bottom - PANEL * value / most:.1f}"
            for call, value in enumerate(line)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield (
            f'<text x="{WIDTH - _MARGIN - 190}" y="{top + 14 + 15 * n}" fill="{colour}">'
            f"{escape(curve.name)}</text>"
        )
        if ticks:
            y = bottom + 3 + 3 * n
            breaks = [call for call, score in enumerate(curve.session.calls) if score.broke]
            for x in (_x(call, calls) for call in breaks):
                yield f'<path d="M{x:.1f},{y} v3" stroke="{colour}" stroke-width="1"/>'


def _x(call: int, calls: int) -> float:
    return _MARGIN + (WIDTH - 2 * _MARGIN) * call / max(1, calls - 1)
