# SPDX-License-Identifier: Apache-2.0
"""ckptd's journal as a picture: one row a program, its time from left to right, coloured by GPU; grey while it
is evicted, light while it waits for its first device."""
from xml.sax.saxutils import escape

COLOURS = ["#3b6ea5", "#c1666b", "#4f9d69", "#d4a24c", "#7e5aa2", "#5ea3a3", "#8f6f56", "#7a7a2e"]
WAITS, EVICTED, MOVES = "#e6e6e6", "#9a9a9a", "#000000"
ROW, WIDTH, LEFT = 14, 900, 190


def spans(journal):
    """{program: (name, [(begin, end, state, gpu)])}, in microseconds since the first message."""
    if not journal:
        return {}
    start = journal[0]["us"]
    rows = {}
    for e in journal:
        name, row = rows.setdefault(e["program"], ["", []])
        rows[e["program"]][0] = e.get("name") or name
        now = e["us"] - start
        if row:
            row[-1][1] = now
        if "state" in e:
            row.append([now, now, e["state"], e["gpu"]])
    return {p: (name, row) for p, (name, row) in rows.items() if row}


def colour(state, gpu):
    if state in ("leaving", "returning"):
        return MOVES
    if state == "evicted":
        return EVICTED
    return COLOURS[gpu % len(COLOURS)] if state == "running" and gpu >= 0 else WAITS


def svg(journal):
    rows = spans(journal)
    end = max((r[-1][1] for _, r in rows.values()), default=1) or 1
    height = ROW * (len(rows) + 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
           'font-family="sans-serif" font-size="10">']
    for i, (program, (name, row)) in enumerate(rows.items()):
        y = ROW * (i + 1)
        out.append(f'<text x="4" y="{y + 10}">{program} {escape(name)}</text>')
        for begin, stop, state, gpu in row:
            x, w = LEFT + begin * WIDTH / end, max((stop - begin) * WIDTH / end, 0.2)
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{ROW - 3}" fill="{colour(state, gpu)}">'
                       f'<title>{state}, GPU {gpu}, {(stop - begin) / 1e6:.2f} s</title></rect>')
    out.append(f'<text x="{LEFT}" y="{height - 3}">0</text><text x="{LEFT + WIDTH - 30}" y="{height - 3}">{end / 1e6:.1f} s</text>')
    return "\n".join(out + ["</svg>", ""])
