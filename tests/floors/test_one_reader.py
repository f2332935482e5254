# SPDX-License-Identifier: Apache-2.0
"""One place reads /proc (common/proc), one the monotonic clock (common/base/clock.h), one CRIU's messages
(common/base/proto_fields.h). What several places read, they come to read differently."""

import re

import pytest

from repo import ROOT, tracked

# A name of /proc in a string, but for this process's own executable and descriptors, which are no text.
PROC = re.compile(r'"(?:[^"\n]*\{\})?/proc/(?!self/exe")[^"\n]*"|"[^"\n]*\+ "/proc/')
# A parser that throws, or that takes what is no number for 0.
STREAM = re.compile(r"(?:[io]?stringstream|[io]?fstream|istreambuf_iterator)\b[^;]*?\bproc::"
                    r"|directory_iterator\(\s*proc::(?!fd_path\(proc::kSelf|path_of_machine)")
CLOCK = re.compile(r"\bsteady_clock\b|clock_gettime\((?:CLOCK_MONOTONIC|CLOCK_MONOTONIC_\w+)\b")
PROTO = re.compile(r"& 0x7fu?\b[)}]*\s*<<")

RULES = {
    "common/proc/": (PROC, {
        "driver-checkpoint/forked_child.cc": "names in a forked child, which may not allocate",
        "tools/session/stop_watcher.cc": "names in a forked child, which may not allocate",
        "tools/idled/guests.cc": "below another root, for tests",
        "tools/idled/processors.cc": "below another root, for tests",
        "tools/manifest/file_checks.cc": "what a path of the image begins with",
        "tools/manifest/open_rights.cc": "what a path of the image begins with",
        "common/base/cgroup_memory.h": "a default that tests replace",
    }),
    "common/base/clock.h": (CLOCK, {}),
    "common/base/proto_fields.h": (PROTO, {}),
}


def code_of(text):
    """The source without its lines of comments and includes."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("//", "#include", "*")))


def sources():
    return [f for f in tracked() if f.suffix in {".cc", ".h"} and f.parts[0] not in {"tests", "bench", "examples"}]


@pytest.mark.parametrize("home", RULES)
def test_no_other_place_does_it(home):
    pattern, exceptions = RULES[home]
    found = {str(f) for f in sources()
             if not str(f).startswith(home) and pattern.search(code_of((ROOT / f).read_text(encoding="utf-8")))}
    assert not found - set(exceptions), f"use {home}"
    assert not set(exceptions) - found, "these exceptions are not needed any more"


def test_no_stream_parses_a_file_of_proc():
    wrong = [str(f) for f in sources() if STREAM.search(code_of((ROOT / f).read_text(encoding="utf-8")))]
    assert [f for f in wrong if not f.startswith("common/proc/")] == [], "use common/base/words.h"


@pytest.mark.parametrize("pattern, line, is_found", [
    (PROC, 'file_text("/proc/self/maps")', True),
    (PROC, 'fmt::format("/proc/{}/stat", pid)', True),
    (PROC, 'fmt::format("{}/proc/{}", root_, pid)', True),
    (PROC, 'execv("/proc/self/exe", argv)', False),
    (PROC, 'proc::text(pid, "stat")', False),
    (STREAM, 'std::istringstream in(proc::text(pid, "stat"));', True),
    (STREAM, "std::istringstream in(list);", False),
    (STREAM, 'for (auto &e : fs::directory_iterator(proc::path(pid, "fd"), ec)) {', True),
    (STREAM, "for (auto &e : fs::directory_iterator(proc::fd_path(proc::kSelf, folder), ec)) {", False),
    (CLOCK, "std::chrono::steady_clock::now()", True),
    (CLOCK, "clock_gettime(CLOCK_MONOTONIC_COARSE, &t);", True),
    (CLOCK, "timerfd_create(CLOCK_MONOTONIC, 0)", False),
    (CLOCK, "Clock::now()", False),
    (PROTO, "value |= u64{byte & 0x7fu} << 7 * i;", True),
    (PROTO, "value |= static_cast<u64>(byte & 0x7f) << shift;", True),
])
def test_a_line_is_recognised(pattern, line, is_found):
    assert bool(pattern.search(line)) == is_found
