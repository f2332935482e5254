# SPDX-License-Identifier: Apache-2.0
"""The paper's figures 4 and 5 as SVG: which program was on which GPU, and when."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from svg import Svg  # noqa: E402

WIDTH, LEFT, ROW, GAP, BAR = 900, 150, 15, 34, 10
# One hue for each GPU: strong while a program runs there, pale while it is evicted or resumes.
GPUS = ["#2f6db3", "#c2571a", "#3b8a4a", "#8a4a9c"]
WAITS = {"unassigned": "#d9d9d9", "pending": "#d9d9d9", "evicted": "#b0b0b0"}
PALE = {"evicting", "resuming"}


def colour(state, gpu):
    if state in WAITS or gpu is None or gpu < 0:
        return WAITS.get(state, "#d9d9d9"), 1
    return GPUS[gpu % len(GPUS)], 0.45 if state in PALE else 1


class Picture:
    def __init__(self, seconds, scale):
        self.seconds, self.scale = seconds, scale
        self.svg, self.y = Svg(WIDTH), 10

    def box(self, x, y, width, height, fill, opacity=1.0, title=""):
        self.svg.box(x, y, max(width, 0.3), height, fill, title, opacity)

    def at(self, seconds):
        return LEFT + (WIDTH - LEFT - 20) * seconds / self.seconds

    def axis(self, y):
        step = next(s for s in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9) if self.seconds / self.scale / s <= 12)
        tick = 0
        while tick * self.scale <= self.seconds:
            x = self.at(tick * self.scale)
            self.svg.line(x, y, x, y + 4, "#666")
            self.svg.text(x, y + 15, str(tick), "middle", 10)
            tick += step

    def chart(self, title, runs):
        """One row for each program, in the order in which they first had a GPU."""
        begin = min(r.begun for r in runs)
        self.svg.text(10, self.y + 12, title, size=13, weight="bold")
        self.y += 22
        for run in sorted(runs, key=lambda r: min((s[2] for s in r.spans if s[0] == "running"), default=r.ended)):
            self.svg.text(LEFT - 6, self.y + BAR, run.program.name, "end", 10)
            for state, gpu, start, end in run.spans:
                fill, opacity = colour(state, gpu)
                height = BAR if state not in WAITS else 3
                place = f" on GPU {gpu}" if state not in WAITS else ""
                self.box(self.at(start - begin), self.y + (BAR - height) / 2 + 1, self.at(end - begin) - self.at(start - begin),
                         height, fill, opacity, f"{run.program.name}: {state}{place}, {(end - start) / self.scale:.1f} s")
            self.y += ROW
        self.axis(self.y + 2)
        self.y += GAP

    def legend(self, gpus):
        x = LEFT
        for i in range(gpus):
            self.box(x, self.y, 14, BAR, GPUS[i % len(GPUS)])
            self.svg.text(x + 18, self.y + 9, f"GPU {i}", size=10)
            x += 75
        for fill, words in (("#b0b0b0", "evicted"), ("#d9d9d9", "not started")):
            self.box(x, self.y + 3, 14, 3, fill)
            self.svg.text(x + 18, self.y + 9, words, size=10)
            x += 85
        self.svg.text(x, self.y + 9, "pale: evicting or resuming; seconds of the paper's node", size=10)
        self.y += 24


def draw(charts, gpus, scale):
    """The SVG of charts, [(title, runs)], all with the same time axis."""
    seconds = max(max(r.ended for r in runs) - min(r.begun for r in runs) for _, runs in charts)
    picture = Picture(seconds, scale)
    for title, runs in charts:
        picture.chart(title, runs)
    picture.legend(gpus)
    return picture.svg.picture(picture.y)
