# SPDX-License-Identifier: Apache-2.0
"""The time of a program that moves after x % of its steps, measured and predicted, as SVG."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from svg import Svg  # noqa: E402

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 200, 60
MEASURED, PREDICTED, LEVEL = "#2f6db3", "#c2571a", "#777"


def draw(title, percents, measured, predicted, native, remote):
    """Times in seconds; native and remote are levels."""
    most = 1.1 * max(*measured, *predicted, remote)
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / s <= 10)

    def x(percent):
        return LEFT + (WIDTH - LEFT - RIGHT) * percent / 100

    def y(seconds):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / most

    svg = Svg(WIDTH)
    svg.text(LEFT, 20, title, size=13, weight="bold")
    tick = 0
    while tick <= most:
        svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "#ddd")
        svg.text(LEFT - 6, y(tick) + 4, f"{tick:g} s", "end")
        tick += step
    for p in percents:
        svg.text(x(p), HEIGHT - BOTTOM + 18, f"{p}", "middle")
    svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "% of the steps before the move", "middle")
    for name, level in (("N, local throughout", native), ("R, remote throughout", remote)):
        svg.line(LEFT, y(level), WIDTH - RIGHT, y(level), LEVEL, dash="5 4")
        svg.text(WIDTH - RIGHT + 6, y(level) + 4, name)
    for i, (name, colour, values, dots) in enumerate((("measured", MEASURED, measured, True),
                                                      ("predicted", PREDICTED, predicted, False))):
        svg.curve([(x(p), y(v)) for p, v in zip(percents, values)], colour)
        for p, v in zip(percents, values) if dots else ():
            svg.dot(x(p), y(v), 3.5, colour, f"{v:.2f} s")
        at = HEIGHT - BOTTOM - 40 + 20 * i
        svg.line(WIDTH - RIGHT + 12, at, WIDTH - RIGHT + 32, at, colour, 2)
        svg.text(WIDTH - RIGHT + 38, at + 4, name)
    return svg.picture(HEIGHT)
