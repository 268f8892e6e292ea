"""What a notebook shows of a run: a small table, and a picture of its scale and skips. HTML and SVG, nothing to install."""
from __future__ import annotations

import math
from html import escape
from typing import Any, Dict, List

from .answers import Questions

__all__ = ["html"]

_WIDTH, _HEIGHT, _LEFT = 640, 160, 48
_COLOURS = {"critical": "#c62828", "warning": "#ef6c00", "info": "#1565c0"}


def _picture(points: List[Dict[str, Any]]) -> str:
    """log2 of the scale over attempts; a red tick below for each stretch with skips."""
    shown = [p for p in points if p.get("scale_after", 0) > 0 and math.isfinite(p["scale_after"])]
    if not shown:
        return ""
    first, last = int(shown[0]["first_attempt"]), int(shown[-1]["last_attempt"])
    octaves = [math.log2(p["scale_after"]) for p in shown]
    low, high = math.floor(min(octaves)), math.ceil(max(octaves))
    high = max(high, low + 1)

    def x(attempt: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - 8) * float(attempt - first) / max(1, last - first)

    def y(octave: float) -> float:
        return 8 + (_HEIGHT - 40) * (high - octave) / float(high - low)

    line = " ".join(f"{x(p['last_attempt']):.1f},{y(o):.1f}" for p, o in zip(shown, octaves))
    ticks = "".join(f'<line x1="{x(p["last_attempt"]):.1f}" x2="{x(p["last_attempt"]):.1f}" y1="{_HEIGHT - 26}" y2="{_HEIGHT - 18}" '
                    'stroke="#c62828"/>' for p in shown if p.get("skipped") or p.get("partial"))
    text = 'font-size="11" font-family="sans-serif" fill="currentColor"'
    return (f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="scale and skips over attempts">'
            f'<text x="0" y="{y(high) + 4:.0f}" {text}>2^{high}</text><text x="0" y="{y(low) + 4:.0f}" {text}>2^{low}</text>'
            f'<text x="0" y="{_HEIGHT - 18}" {text}>skips</text><polyline fill="none" stroke="#1565c0" points="{line}"/>{ticks}'
            f'<text x="{_LEFT}" y="{_HEIGHT - 4}" {text}>attempt {first}</text>'
            f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 4}" text-anchor="end" {text}>{last}</text></svg>')


def html(questions: Questions) -> str:
    """The run's state, findings and picture. Waits for the server; ServerError when it is away."""
    told = questions.get("")
    run = told["run"]
    facts = {"attempts": run["attempts"], "applied": run["applied"], "skipped": run["skipped"], "scale": run.get("scale", "none"),
             "loss": run.get("loss", "not told")}
    row = "".join(f"<th>{escape(key)}</th><td>{escape(str(value))}</td>" for key, value in facts.items())
    found = "".join(
        f'<tr><td style="color:{_COLOURS.get(f.severity, "inherit")}">{escape(f.severity)}</td><td>{escape(f.rule)}</td>'
        f'<td style="text-align:left">{escape(f.summary)}{"" if f.open else " (resolved)"}</td>'
        f'<td style="text-align:left">{escape(f.advice[0].text if f.advice else "")}</td></tr>' for f in questions.findings()[:20])
    picture = _picture(questions.scaler_history(max_points=400)) if told.get("scalers") else ""
    return (f"<div><b>{escape(run['name'])}</b><table><tr>{row}</tr></table>{picture}"
            f"<table>{found or '<tr><td>no findings</td></tr>'}</table></div>")
