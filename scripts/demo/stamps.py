"""Reads the files that scripts/demo/watch writes."""

import re

STEP = re.compile(r"(\S+) step (\d+)/(\d+)")


def steps(path):
    """[(time, step, of)] of the progress lines."""
    with open(path) as f:
        found = [STEP.match(line) for line in f]
    return [(float(m[1]), int(m[2]), int(m[3])) for m in found if m]
