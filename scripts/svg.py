# SPDX-License-Identifier: Apache-2.0
"""Pictures in SVG, for the benchmarks and the demo. Lengths are pixels, y grows downwards."""
import html


def _points(points):
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _title(words):
    return f"<title>{html.escape(words)}</title>" if words else ""


class Svg:
    def __init__(self, width, font="sans-serif", ink="#000"):
        self.width, self.font, self.ink = width, font, ink
        self.parts = []

    def text(self, x, y, words, anchor="start", size=11, weight="normal", fill=""):
        """anchor: which end of the words is at x (start, middle, end)."""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
                          f'fill="{fill or self.ink}">{html.escape(words)}</text>')

    def box(self, x, y, width, height, fill, title="", opacity=1, corner=0):
        """title is shown below the pointer."""
        self.parts.append(f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height}" rx="{corner}" fill="{fill}" '
                          f'fill-opacity="{opacity}">{_title(title)}</rect>')

    def line(self, x1, y1, x2, y2, stroke, width=1, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
                          f'stroke-width="{width}"{dashed}/>')

    def curve(self, points, stroke, width=2):
        self.parts.append(f'<polyline points="{_points(points)}" fill="none" stroke="{stroke}" stroke-width="{width}" '
                          f'stroke-linejoin="round"/>')

    def area(self, points, fill):
        self.parts.append(f'<polygon points="{_points(points)}" fill="{fill}"/>')

    def dot(self, x, y, radius, fill, title=""):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}">{_title(title)}</circle>')

    def picture(self, height):
        """The whole, on white."""
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" width="{self.width}" height="{height}" '
                f'font-family="{self.font}"><rect width="100%" height="100%" fill="white"/>')
        return "\n".join([head, *self.parts, "</svg>\n"])
