# SPDX-License-Identifier: Apache-2.0
"""The time of a program that moves after x % of its steps, measured and predicted, as SVG."""
import html

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 200, 60
MEASURED, PREDICTED, LEVEL = "#2f6db3", "#c2571a", "#777"


def text(x, y, words, anchor="start", size=11, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
            f'{html.escape(words)}</text>')


def line(x1, y1, x2, y2, colour, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def draw(title, percents, measured, predicted, native, remote):
    """Times in seconds; native and remote are levels."""
    most = 1.1 * max(*measured, *predicted, remote)
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / s <= 10)

    def x(percent):
        return LEFT + (WIDTH - LEFT - RIGHT) * percent / 100

    def y(seconds):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / most

    parts = [text(LEFT, 20, title, size=13, weight="bold")]
    tick = 0
    while tick <= most:
        parts += [line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "#ddd"), text(LEFT - 6, y(tick) + 4, f"{tick:g} s", "end")]
        tick += step
    parts += [text(x(p), HEIGHT - BOTTOM + 18, f"{p}", "middle") for p in percents]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "% of the steps before the move", "middle"))
    for name, level in (("N, local throughout", native), ("R, remote throughout", remote)):
        parts += [line(LEFT, y(level), WIDTH - RIGHT, y(level), LEVEL, 'stroke-dasharray="5 4"'),
                  text(WIDTH - RIGHT + 6, y(level) + 4, name)]
    for i, (name, colour, values, dots) in enumerate((("measured", MEASURED, measured, True),
                                                      ("predicted", PREDICTED, predicted, False))):
        points = " ".join(f"{x(p):.1f},{y(v):.1f}" for p, v in zip(percents, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if dots:
            parts += [f'<circle cx="{x(p):.1f}" cy="{y(v):.1f}" r="3.5" fill="{colour}"><title>{v:.2f} s</title></circle>'
                      for p, v in zip(percents, values)]
        at = HEIGHT - BOTTOM - 40 + 20 * i
        parts += [line(WIDTH - RIGHT + 12, at, WIDTH - RIGHT + 32, at, colour, 'stroke-width="2"'),
                  text(WIDTH - RIGHT + 38, at + 4, name)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')
