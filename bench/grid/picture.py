# SPDX-License-Identifier: Apache-2.0
"""The work that is kept, by the size of the image: a curve for each pattern of owners, as SVG."""
import html
import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 190, 60
COLOURS = ["#2f6db3", "#c2571a", "#3b8a4a", "#8a4a9c", "#7a6a2f", "#b03a5b"]


def draw(title, sizes, curves, dashed):
    """curves: {name: per cent for each size}; dashed: {name: per cent}, a level for each, without checkpoints."""
    low, high = math.log(sizes[0]), math.log(sizes[-1])

    def x(size):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - low) / (high - low)

    def y(percent):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / 100

    parts = [text(LEFT, 20, title, size=13, weight="bold")]
    for percent in range(0, 101, 20):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent):.1f}" y2="{y(percent):.1f}" stroke="#ddd"/>')
        parts.append(text(LEFT - 6, y(percent) + 4, f"{percent} %", "end"))
    for size, after in zip(sizes, [*sizes[1:], math.inf]):
        if after > 1.5 * size:  # otherwise the words would overlap
            parts.append(text(x(size), HEIGHT - BOTTOM + 18, f"{size:g}", "middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "image, GB", "middle"))
    for i, (name, values) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in zip(sizes, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if name in dashed:
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(dashed[name]):.1f}" y2="{y(dashed[name]):.1f}" '
                         f'stroke="{colour}" stroke-dasharray="5 4"/>')
        parts.append(f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{TOP + 20 * i}" y2="{TOP + 20 * i}" '
                     f'stroke="{colour}" stroke-width="2"/>')
        parts.append(text(WIDTH - RIGHT + 38, TOP + 4 + 20 * i, name))
    parts.append(text(WIDTH - RIGHT + 12, TOP + 20 * len(curves) + 14, "dashed: discarded", size=10))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def text(x, y, words, anchor="start", size=11, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
            f'{html.escape(words)}</text>')
