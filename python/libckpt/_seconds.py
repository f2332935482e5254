# SPDX-License-Identifier: Apache-2.0
"""Times as the tools' options write them."""
from __future__ import annotations

import math
import re
from typing import Union

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(time: Union[float, str]) -> float:
    """Seconds of a number, or of a text such as "90", "90s", "10m", "1h30m" or "2d"."""
    seconds = -1.0
    if not isinstance(time, str):
        seconds = float(time)
    elif re.fullmatch(r"\d+(\.\d+)?", time):
        seconds = float(time)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", time):
        seconds = sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", time))
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{time!r} is not a time; write it as seconds, or like \"90s\", \"10m\" or \"1h30m\"")
    return seconds
