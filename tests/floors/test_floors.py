"""The house of docs/ARCHITECTURE.md, held up by its includes: a room includes only what stands on
the floors below it. FLOORS is the one table; a new edge is a line here, with a reason."""

import re
from pathlib import Path

import pytest

from repo import ROOT, tracked

CPP = {".h", ".cc", ".cpp", ".api", ".inc"}

# room -> what its files may include, besides their own room: a room, or one header of a room.
FLOORS = {
    "common": set(),
    "include": set(),
    "storage": {"common"},
    "fatbin": {"common"},
    "agent": {"common", "include"},
    "manager-client": {"common", "include", "agent"},
    "libckpt-ocl": {"common", "include", "agent", "manager-client"},
    "libckpt-cuda": {"common", "include", "agent", "manager-client", "fatbin"},
    "softcuda": {"common", "fatbin"},  # a driver: reached by its ABI, so in nobody's list
    "manager": {"common", "fatbin"},
    "tools": {"common", "include", "storage", "fatbin", "manager", "agent/protocol.h"},
    "examples": {"include"},  # what somebody outside would write
}

# Headers that meson writes into the build folder.
GENERATED = {"ckpt_config.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def room_of(include):
    """The room that an include leads to, or None for a header that is not ours."""
    first = include.split("/")[0]
    if first == "ckpt":  # #include <ckpt/ckpt.h>, as an application writes it
        return "include"
    return first if first in FLOORS and "/" in include else None


def violations(root, files):
    """(file, line number, include, why) of every include that FLOORS does not allow."""
    found = []
    for path in files:
        room = path.parts[0]
        if room not in FLOORS or path.suffix not in CPP:
            continue
        text = (root / path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, include = match.groups()
            target = room_of(include)
            if ".." in include.split("/"):
                found.append((path, number, include, "includes are relative to the repository's root"))
            elif target is None:
                if quote == '"' and include not in GENERATED:
                    found.append((path, number, include, "is no room's; a system header takes <>"))
            elif target != room and target not in FLOORS[room] and include not in FLOORS[room]:
                allowed = ", ".join(sorted(FLOORS[room])) or "nothing of ours"
                found.append((path, number, include, f"{room}/ may include {allowed}"))
    return found


def listing(found):
    return "\n".join(f"{path}:{number}: {include}: {why}" for path, number, include, why in found)


@pytest.mark.parametrize("room", FLOORS)
def test_room_includes_only_the_floors_below(room):
    files = [f for f in tracked() if f.parts[0] == room]
    if not files:
        pytest.skip(f"{room}/ is not built yet")
    found = violations(ROOT, files)
    assert not found, "\n" + listing(found)


def test_the_floors_have_no_cycle():
    def below(room, seen):
        assert room not in seen, f"{room} stands on itself: {seen}"
        for other in FLOORS[room]:
            below(other.split("/")[0], seen + [room])

    for room in FLOORS:
        below(room, [])


@pytest.mark.parametrize("room", ["libckpt-ocl", "libckpt-cuda", "softcuda"])
def test_apis_do_not_see_each_other_and_tools_see_none(room):
    seen_by = {r for r, allowed in FLOORS.items() if any(a.split("/")[0] == room for a in allowed)}
    assert not seen_by


FORBIDDEN = [
    ("common/a.h", '#include "storage/format/manifest.h"'),
    ("storage/a.cc", '#include "agent/protocol.h"'),
    ("fatbin/a.cc", '#include "storage/format/format.h"'),
    ("storage/a.cc", '#include "fatbin/format.h"'),
    ("agent/a.cc", '#include "fatbin/image.h"'),
    ("agent/a.cc", '#include "libckpt-ocl/table.h"'),
    ("libckpt-ocl/client/a.cc", '#include "libckpt-cuda/table.h"'),
    ("libckpt-cuda/a.cc", '#include "libckpt-ocl/table.h"'),
    ("libckpt-cuda/a.cc", '#include "softcuda/device.h"'),
    ("manager/a.cc", '#include "agent/protocol.h"'),
    ("tools/a.cc", '#include "agent/runtime/agent.h"'),
    ("tools/a.cc", '#  include "libckpt-ocl/wire.h"  // as a habit'),
    ("tools/a.cc", "#include <libckpt-ocl/wire.h>"),
    ("tools/a.cc", '#include "../agent/agent.h"'),
    ("storage/a.cc", '#include "manifest.h"'),
    ("common/a.cc", "#include <ckpt/ckpt.h>"),
]

ALLOWED = [
    ("tools/a.cc", '#include "agent/protocol.h"'),
    ("tools/a.cc", '#include "tools/options.h"'),
    ("agent/a.cc", "#include <ckpt/ckpt.h>"),
    ("common/a.cc", "#include <sys/socket.h>"),
    ("common/a.cc", '#include "ckpt_config.h"'),
    ("libckpt-cuda/a.cc", '#include "fatbin/image.h"'),
    ("tools/fatbin/a.cc", '#include "fatbin/summary.h"'),
    ("tests/unit/a.cc", '#include "libckpt-ocl/wire.h"'),
]


def check_one(tmp_path, name, line):
    path = Path(name)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"// SPDX\n{line}\n")
    return violations(tmp_path, [path])


@pytest.mark.parametrize("name, line", FORBIDDEN)
def test_a_forbidden_include_is_found(tmp_path, name, line):
    assert [(str(f[0]), f[1]) for f in check_one(tmp_path, name, line)] == [(name, 2)]


@pytest.mark.parametrize("name, line", ALLOWED)
def test_an_allowed_include_is_not(tmp_path, name, line):
    assert check_one(tmp_path, name, line) == []
