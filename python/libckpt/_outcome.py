# SPDX-License-Identifier: Apache-2.0
"""How a checkpoint ended."""
from __future__ import annotations

import enum


class Outcome(enum.Enum):
    """How a checkpoint ended for this process. The first three are those of ``enum ckpt_outcome``."""

    CONTINUED = 0
    """The image is complete, and this is the original program."""
    RESTORED = 1
    """This is a copy, started from the image."""
    FAILED = 2
    """There is no image, and the program continues as before. Only callbacks get this."""
    NOT_DUE = -1
    """No checkpoint was made, because ``every`` has not passed yet."""
    NO_SESSION = -2
    """No checkpoint was made, because the program runs neither under ckpt-run nor under ckpt-restore."""
