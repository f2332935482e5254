# SPDX-License-Identifier: Apache-2.0
"""Deadlines in seconds of an idle machine. While the machine has more to run than it has cores, a second
counts as the fair share that one program gets of it, but at least as a tenth."""
import os
import time


def fair_share():
    return max(0.1, min(1, len(os.sched_getaffinity(0)) / max(os.getloadavg()[0], 1)))


class Deadline:
    def __init__(self, seconds):
        self.left = seconds
        self.at = time.monotonic()

    def passed(self):
        now = time.monotonic()
        self.left -= (now - self.at) * fair_share()
        self.at = now
        return self.left <= 0
