# SPDX-License-Identifier: Apache-2.0
"""What guests get done in the idle times of a machine, and what of it is kept when the owner is back.

A machine always has a guest while it is idle. When it becomes busy, the guest is discarded, as in the paper, or
checkpointed, to go on on another machine; then the next guest to come here is one that was restored.
"""


class Watched:
    """What ckpt-idled --replay --json said of a log: .idle, (begin, end) of each idle time; .seconds; .transitions"""

    def __init__(self, replay):
        self.seconds = replay["end"] - replay["begin"]
        self.transitions = len(replay["transitions"])
        self.idle, begin = [], None
        for t in replay["transitions"]:
            if t["idle"]:
                begin = t["at"]
            elif begin is not None:
                self.idle.append((begin, t["at"]))
                begin = None
        self.cut = begin is not None  # the last idle time ends with the log, and not by the owner
        if self.cut:
            self.idle.append((begin, replay["end"]))

    def lengths(self):
        return [end - begin for begin, end in self.idle]

    def share(self):
        return sum(self.lengths()) / self.seconds


def discarding(watched, task):
    """(successes, interruptions, useful seconds) of tasks that begin anew after an interruption. The one that the
    end of the log cuts off counts as neither."""
    done = sum(int(length / task) for length in watched.lengths())
    return done, len(watched.idle) - watched.cut, done * task


class Costs:
    """Of a checkpoint and a restore of an image of so many GB. GraceTime is how long an owner waits at most."""

    def __init__(self, gigabytes, gbps, constant, grace):
        self.dump = constant + gigabytes / gbps
        self.restore = constant + gigabytes / gbps
        self.in_time = self.dump <= grace
        self.grace = grace


def kept_by_discarding(watched, task):
    """Useful seconds, of those in which a guest was on the machine."""
    return discarding(watched, task)[2] / sum(watched.lengths())


def kept_by_checkpoints(watched, costs):
    """The same. Restores at the begin of each idle time, and checkpoints after its end, count as time of a guest
    that is of no use. An idle time that is shorter than a restore loses nothing but itself."""
    used = sum(length + min(costs.dump, costs.grace) for length in watched.lengths())
    if not costs.in_time:
        return 0.0
    return sum(max(0.0, length - costs.restore) for length in watched.lengths()) / used
