"""A plan as a picture, in Graphviz's language or as SVG with a layout of our own: results at the top, streams of the
path matching engine at the bottom, as in the paper's figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from twigcast.papers.plans.explain import Drawn, drawn
from twigcast.papers.plans.planner import Plan

_WIDEST = 34
_CHAR, _LINE = 7.3, 17.0
_PAD, _BETWEEN, _RISE = 9.0, 22.0, 34.0


def dot(plan: Plan) -> str:
    lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, fontname="monospace", fontsize=11];']
    count = 0

    def write(one: Drawn) -> int:
        nonlocal count
        number, count = count, count + 1
        text = r"\n".join(line.replace("\\", r"\\").replace('"', r"\"") for line in _lines(one))
        shape = ", shape=ellipse" if one.kind == "Stream" else ""
        lines.append(f'  n{number} [label="{text}"{shape}];')
        for below in one.inputs:
            lines.append(f"  n{write(below)} -> n{number};")
        return number

    write(drawn(plan.root))
    return "\n".join([*lines, "}"])


def svg(plan: Plan) -> str:
    root = _Box(drawn(plan.root))
    width = root.place(_BETWEEN)
    boxes = list(root.walk())
    deepest = max(box.level for box in boxes)
    heights = [max(box.height for box in boxes if box.level == level) for level in range(deepest + 1)]
    tops = [_BETWEEN + sum(heights[:level]) + _RISE * level for level in range(deepest + 1)]
    engine = tops[-1] + heights[-1] + _RISE
    parts = []
    for box in boxes:
        box.y = tops[box.level]
        # a leaf is what the engine delivers: an arrow from it
        ends = [(below.x + below.width / 2, tops[below.level]) for below in box.below]
        for x, y in ends or [(box.x + box.width / 2, engine)]:
            parts.append(_arrow(x, y, box.x + box.width / 2, box.y + box.height))
    for box in boxes:
        parts += box.drawing()
    width = max(width, 260.0)
    parts.append(_rect(_BETWEEN, engine, width - 2 * _BETWEEN, _LINE + 2 * _PAD, "engine"))
    middle = width / 2
    parts.append(f'<text x="{middle:.1f}" y="{engine + _PAD + 12:.1f}" class="middle">path matching engine</text>')
    height = engine + _LINE + 2 * _PAD + _BETWEEN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    )
    title = f"<title>{escape(f'PathSharing-{plan.sharing}')}</title>"
    return "\n".join([head, title, _STYLE, *parts, "</svg>"])


_STYLE = """<style>
  text { font: 12px monospace; fill: #222 }
  .middle { text-anchor: middle }
  .claim { fill: #1a6 }
  rect { fill: #fff; stroke: #444 }
  rect.stream { fill: #eef4ff; stroke: #47a }
  rect.engine { fill: #f2f2f2 }
  path { stroke: #444; fill: none }
  polygon { fill: #444 }
</style>"""


@dataclass(eq=False)
class _Box:
    of: Drawn
    level: int = 0
    x: float = 0.0
    y: float = 0.0
    below: list[_Box] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.below = [_Box(one, self.level + 1) for one in self.of.inputs]
        self.lines = _lines(self.of)
        self.width = max(map(len, self.lines)) * _CHAR + 2 * _PAD
        self.height = len(self.lines) * _LINE + 2 * _PAD

    def place(self, left: float) -> float:
        """Inputs side by side from ``left`` on, this one centred above them; where the next may begin."""
        at = left
        for one in self.below:
            at = one.place(at)
        if self.below:
            first, last = self.below[0], self.below[-1]
            self.x = (first.x + last.x + last.width - self.width) / 2
            if self.x < left:
                for one in self.below:
                    one.shift(left - self.x)
                at += left - self.x
                self.x = left
        else:
            self.x = left
        return max(at, self.x + self.width + _BETWEEN)

    def shift(self, by: float) -> None:
        for one in self.walk():
            one.x += by

    def walk(self) -> list[_Box]:
        return [self, *(box for one in self.below for box in one.walk())]

    def drawing(self) -> list[str]:
        parts = [_rect(self.x, self.y, self.width, self.height, "stream" if self.of.kind == "Stream" else "")]
        for at, line in enumerate(self.lines):
            y = self.y + _PAD + 12 + at * _LINE
            claim = ' class="claim"' if self.of.note and line.startswith("(") else ""
            parts.append(f'<text x="{self.x + _PAD:.1f}" y="{y:.1f}"{claim} xml:space="preserve">{escape(line)}</text>')
        return parts


def _lines(one: Drawn) -> list[str]:
    lines = _wrapped(one.label)
    return lines + (_wrapped(f"({one.note})") if one.note else [])


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDEST:
            lines.append(word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return lines


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"{named}/>'


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Up from the top of a box to the bottom of another."""
    half = (y + to_y) / 2
    tip = f"{to_x - 4:.1f},{to_y + 8:.1f} {to_x + 4:.1f},{to_y + 8:.1f} {to_x:.1f},{to_y:.1f}"
    line = f"M {x:.1f} {y:.1f} C {x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y + 7:.1f}"
    return f'<path d="{line}"/><polygon points="{tip}"/>'
