# SPDX-License-Identifier: Apache-2.0
"""The work that is kept, by the size of the image: a curve for each pattern of owners, as SVG."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from svg import Svg  # noqa: E402

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 190, 60
COLOURS = ["#2f6db3", "#c2571a", "#3b8a4a", "#8a4a9c", "#7a6a2f", "#b03a5b"]


def draw(title, sizes, curves, dashed):
    """curves: {name: per cent for each size}; dashed: {name: per cent}, a level for each, without checkpoints."""
    low, high = math.log(sizes[0]), math.log(sizes[-1])

    def x(size):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - low) / (high - low)

    def y(percent):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / 100

    svg = Svg(WIDTH)
    svg.text(LEFT, 20, title, size=13, weight="bold")
    for percent in range(0, 101, 20):
        svg.line(LEFT, y(percent), WIDTH - RIGHT, y(percent), "#ddd")
        svg.text(LEFT - 6, y(percent) + 4, f"{percent} %", "end")
    for size, after in zip(sizes, [*sizes[1:], math.inf]):
        if after > 1.5 * size:  # otherwise the words would overlap
            svg.text(x(size), HEIGHT - BOTTOM + 18, f"{size:g}", "middle")
    svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "image, GB", "middle")
    for i, (name, values) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        svg.curve([(x(s), y(v)) for s, v in zip(sizes, values)], colour)
        if name in dashed:
            svg.line(LEFT, y(dashed[name]), WIDTH - RIGHT, y(dashed[name]), colour, dash="5 4")
        svg.line(WIDTH - RIGHT + 12, TOP + 20 * i, WIDTH - RIGHT + 32, TOP + 20 * i, colour, 2)
        svg.text(WIDTH - RIGHT + 38, TOP + 4 + 20 * i, name)
    svg.text(WIDTH - RIGHT + 12, TOP + 20 * len(curves) + 14, "dashed: discarded", size=10)
    return svg.picture(HEIGHT)
