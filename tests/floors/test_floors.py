"""The rooms of docs/ARCHITECTURE.md, checked against every #include: a room includes only what its
row allows. The table there is the only one; a new edge is a change of a cell, with a reason."""

import re
from pathlib import Path

import pytest

from repo import ROOT, tracked

CPP = {".h", ".c", ".cc", ".cpp", ".api", ".inc"}

# Headers that meson writes into the build folder.
GENERATED = {"ckpt_config.h", "ckpt_commit.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def section(text, heading):
    """The lines between that heading and the next one of the same level."""
    level = heading.split()[0]
    lines = iter(text.splitlines())
    assert heading in lines, f"docs/ARCHITECTURE.md has no section {heading!r}"
    for line in lines:
        if line.startswith(level + " "):
            return
        yield line


def names(cell):
    """Folders and headers of one cell: `agent/`, common, `agent/protocol.h`; "–" is none."""
    words = re.sub(r"\([^)]*\)", "", cell).replace("`", "").split(",")
    return [word.strip().rstrip("/") for word in words if word.strip() not in ("", "–", "-")]


def parse_rooms(text):
    """{room: what it may include, besides itself} from the table under "## The rooms".

    Its columns are: room | may include | what it is. A room is a folder, also one inside another
    room; one row may name several. What it may include are rooms and single headers; an inner room
    may name its neighbours without the outer one's path. "–" means nothing. An empty cell means
    that the row has no limit (tests, benchmarks): it is left out here."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in section(text, "## The rooms") if line.strip().startswith("|")]
    assert rows and [cell.lower() for cell in rows[0][:2]] == ["room", "may include"], "the table's head has changed"
    limited = [row for row in rows[2:] if row[1]]
    known = {room for row in limited for room in names(row[0])}

    def full(room, name):
        neighbour = str(Path(room).parent / name)
        return neighbour if name not in known and neighbour in known else name

    rooms = {}
    for first, allowed, *_ in limited:
        for room in names(first):
            assert room not in rooms, f"two rows for {room}/"
            rooms[room] = {full(room, name) for name in names(allowed)}
    return rooms


ROOMS = parse_rooms((ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8"))


def owner(path, rooms):
    """The innermost room that this file or folder lies in, or None."""
    found = [room for room in rooms if path == room or path.startswith(room + "/")]
    return max(found, key=len, default=None)


def place(include):
    """The path in the repository that an #include leads to."""
    # An application writes <ckpt/ckpt.h>.
    return "include/" + include if include.startswith("ckpt/") else include


def is_within(path, folder):
    return path == folder or path.startswith(folder + "/")


def includes(root, files, rooms):
    """(file, its room, line number, quote, include) of every #include in a room."""
    for path in files:
        room = owner(str(path), rooms)
        if room is None or path.suffix not in CPP:
            continue
        text = (root / path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if match := INCLUDE.match(line):
                yield path, room, number, *match.groups()


def violations(root, files, rooms):
    """(file, line number, include, why) of every include that the table does not allow."""
    found = []
    for path, room, number, quote, include in includes(root, files, rooms):
        target = owner(place(include), rooms) if "/" in include else None
        if ".." in include.split("/"):
            found.append((path, number, include, "includes are relative to the repository's root"))
        elif target is None:
            if quote == '"' and include not in GENERATED:
                found.append((path, number, include, "belongs to no room; a system header takes <>"))
        elif not is_within(target, room) and not any(is_within(place(include), a) for a in rooms[room]):
            allowed = ", ".join(sorted(rooms[room])) or "nothing outside itself"
            found.append((path, number, include, f"{room}/ may include {allowed}"))
    return found


def listing(found):
    return "\n".join(f"{path}:{number}: {include}: {why}" for path, number, include, why in found)


@pytest.mark.parametrize("room", ROOMS)
def test_room_includes_only_what_its_row_allows(room):
    files = [f for f in tracked() if owner(str(f), ROOMS) == room]
    assert files, f"docs/ARCHITECTURE.md lists {room}/, which has no file"
    found = violations(ROOT, files, ROOMS)
    assert not found, "\n" + listing(found)


def test_every_allowed_edge_is_used():
    used = {(room, place(include)) for _, room, _, _, include in includes(ROOT, tracked(), ROOMS)}
    unused = [f"{room} → {allowed}" for room in ROOMS for allowed in sorted(ROOMS[room])
              if not any(is_within(user, room) and is_within(include, allowed) for user, include in used)]
    assert not unused, f"docs/ARCHITECTURE.md allows what no file needs: {unused}"


def test_every_name_in_the_table_exists():
    missing = {name for room in ROOMS for name in {room} | ROOMS[room] if not (ROOT / name).exists()}
    assert not missing


def test_the_rooms_have_no_cycle():
    def below(room, seen):
        assert room not in seen, f"{room}/ includes itself by way of {' → '.join(seen)}"
        for other in ROOMS[room]:
            target = owner(other, ROOMS)
            assert target, f"{room}/ may include {other}, which is no room"
            if target != room:
                below(target, seen + [room])

    for room in ROOMS:
        below(room, [])


def test_an_inner_room_may_include_no_more_than_its_outer_room():
    for room in ROOMS:
        outer = owner(str(Path(room).parent), ROOMS)
        if outer:
            more = {a for a in ROOMS[room] if not any(is_within(a, b) for b in ROOMS[outer] | {outer})}
            assert not more, f"{room}/ may include {more}, which {outer}/ may not"


@pytest.mark.parametrize("room", ["libckpt-ocl", "libckpt-cuda", "softcuda"])
def test_no_other_room_includes_an_api_room(room):
    assert not {r for r, allowed in ROOMS.items()
                if not is_within(r, room) and any(is_within(a, room) for a in allowed)}


TABLE = """
## The rooms

A sentence about the table.

| room | may include | what it is |
|---|---|---|
| `base/` | – | the ground floor, reached as `base/x.h` |
| `net/`, `disk/` | base | two rooms in one row |
| `app/` | base, `net/protocol.h` | (a remark) |
| `app/inner/` | base | a room inside |
| `app/outer/` | inner, `disk/` (read only) | another, beside it |
| `tests/`, `bench/` | | no limit |

## The next section

| room | may include | what it is |
|---|---|---|
| `ghost/` | base | not of this section |
"""


def test_the_table_is_read():
    assert parse_rooms(TABLE) == {
        "base": set(),
        "net": {"base"},
        "disk": {"base"},
        "app": {"base", "net/protocol.h"},
        "app/inner": {"base"},
        "app/outer": {"app/inner", "disk"},
    }


FORBIDDEN = [
    ("net/a.cc", '#include "disk/a.h"'),
    ("app/a.cc", '#include "net/other.h"'),
    ("app/inner/a.cc", '#include "app/outer/a.h"'),
    ("app/inner/a.cc", '#include "app/a.h"'),
    ("app/inner/a.cc", '#include "net/protocol.h"'),
    ("common/a.h", '#include "storage/format/manifest.h"'),
    ("storage/a.cc", '#include "agent/protocol.h"'),
    ("fatbin/a.cc", '#include "storage/format/format.h"'),
    ("storage/a.cc", '#include "fatbin/format.h"'),
    ("agent/a.cc", '#include "fatbin/image.h"'),
    ("agent/a.cc", '#include "ring/table.h"'),
    ("libckpt-ocl/client/a.cc", '#include "libckpt-cuda/table.h"'),
    ("libckpt-cuda/a.cc", '#include "ring/table.h"'),
    ("remote/server/a.cc", '#include "remote/cuda/protocol.h"'),
    ("remote/transport/a.cc", '#include "remote/opencl/questions.h"'),
    ("libckpt-cuda/a.cc", '#include "softcuda/device.h"'),
    ("manager/a.cc", '#include "agent/protocol.h"'),
    ("tools/a.cc", '#include "agent/agent.h"'),
    ("tools/a.cc", '#  include "ring/wire.h"  // as a habit'),
    ("tools/a.cc", "#include <ring/wire.h>"),
    ("tools/a.cc", '#include "../agent/agent.h"'),
    ("storage/a.cc", '#include "manifest.h"'),
    ("common/a.cc", "#include <ckpt/ckpt.h>"),
]

ALLOWED = [
    ("app/a.cc", '#include "net/protocol.h"'),
    ("app/a.cc", '#include "app/inner/a.h"'),
    ("app/outer/a.cc", '#include "app/inner/a.h"'),
    ("app/outer/a.cc", '#include "disk/deep/a.h"'),
    ("tools/a.cc", '#include "agent/protocol.h"'),
    ("tools/a.cc", '#include "tools/options.h"'),
    ("tools/a.cc", '#include "manager/daemon/daemon.h"'),
    ("agent/a.cc", "#include <ckpt/ckpt.h>"),
    ("common/a.cc", "#include <sys/socket.h>"),
    ("common/a.cc", '#include "ckpt_config.h"'),
    ("libckpt-cuda/a.cc", '#include "fatbin/image.h"'),
    ("tools/fatbin/a.cc", '#include "fatbin/summary.h"'),
    ("tests/unit/a.cc", '#include "ring/wire.h"'),
]


def check_one(tmp_path, name, line):
    path = Path(name)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"// SPDX\n{line}\n")
    return violations(tmp_path, [path], {**parse_rooms(TABLE), **ROOMS})


@pytest.mark.parametrize("name, line", FORBIDDEN)
def test_a_forbidden_include_is_found(tmp_path, name, line):
    assert [(str(f[0]), f[1]) for f in check_one(tmp_path, name, line)] == [(name, 2)]


@pytest.mark.parametrize("name, line", ALLOWED)
def test_an_allowed_include_is_accepted(tmp_path, name, line):
    assert check_one(tmp_path, name, line) == []
