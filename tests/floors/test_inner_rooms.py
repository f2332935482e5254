# SPDX-License-Identifier: Apache-2.0
"""The inner rooms of a room have an order: its page in docs/rooms/ lists them in a table. Its
first row is the lowest, and each includes only itself and the rows above it."""

import re
from pathlib import Path

import pytest

from repo import ROOT, tracked

# The page of a room. One with tables of several rooms has the table under a heading that names the room.
PAGES = {"storage": "storage", "agent": "agent", "libckpt-cuda": "cuda", "remote/cuda/client": "remote", "softcuda/driver": "cuda"}
ROOMS = list(PAGES)
SOURCES = {".h", ".cc"}

HEADER = "| folder | what is in it |"
# A folder, or a header or table beside the folders.
ROW = re.compile(r"^\| `([a-z_-]+(?=/)|[a-z_-]+\.(?:h|api))/?` \|")


def section(text, room):
    """The text from the heading that begins with the room's name on, or all of it."""
    heading = re.search(rf"^#+ `{re.escape(room)}/`", text, re.M)
    return text[heading.start():] if heading else text


def inner_rooms(text):
    """The folders and headers of the table, lowest first."""
    lines = iter(text.splitlines())
    assert HEADER in lines, f"there is no table with the header {HEADER}"
    next(lines)  # |---|---|
    found = []
    for line in lines:
        match = ROW.match(line)
        if not match:
            break
        found.append(match.group(1))
    return found


def order_of(room):
    page = (ROOT / "docs/rooms" / f"{PAGES[room]}.md").read_text(encoding="utf-8")
    return inner_rooms(section(page, room))


def violations(room, order, path, text):
    """Messages about the includes of one file that lead to a higher inner room."""
    inside = path.relative_to(room).parts
    if inside[0] not in order or len(inside) != (1 if "." in inside[0] else 2):
        return [f"{path}: is not in one of {room}'s inner rooms ({', '.join(order)})"]
    here = order.index(inside[0])
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(rf'\s*#\s*include\s*"{room}/([^/"]+)', line)
        if match and match.group(1) not in order[: here + 1]:
            found.append(f"{path}:{number}: {line.strip()}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_inner_rooms_include_only_the_rows_above_them(room):
    order = order_of(room)
    found = []
    for path in tracked():
        if path.is_relative_to(room) and path.suffix in SOURCES:
            found += violations(room, order, path, (ROOT / path).read_text(encoding="utf-8"))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_lists_every_inner_room(room):
    order = order_of(room)
    assert len(order) == len(set(order))
    below = [p.relative_to(room).parts for p in tracked() if p.is_relative_to(room)]
    # A header may be made when building.
    assert {name for name in order if "." not in name} == {parts[0] for parts in below if len(parts) > 1}
    assert {parts[0] for parts in below if len(parts) == 1 and parts[0].endswith((".h", ".api"))} <= set(order)


TABLE = f"# A room\n\n{HEADER}\n|---|---|\n| `first.h` | f |\n| `low/` | a |\n| `high/` | b |\n\n| `other/` | c |\n"


def test_a_table_under_the_heading_of_its_room_is_found():
    page = TABLE + f"\n## `outer/`: one\n\n### `outer/inner/`: another\n\n{HEADER}\n|---|---|\n| `deep/` | d |\n"
    assert inner_rooms(section(page, "outer/inner")) == ["deep"]
    assert inner_rooms(section(page, "elsewhere")) == ["first.h", "low", "high"]


@pytest.mark.parametrize("path, include, is_allowed", [
    ("a/high/x.cc", "a/low/y.h", True),
    ("a/high/x.cc", "a/high/y.h", True),
    ("a/low/x.cc", "common/base/y.h", True),
    ("a/low/x.cc", "a/high/y.h", False),
    ("a/low/x.cc", "a/other/y.h", False),
    ("a/x.cc", "common/base/y.h", False),
    ("a/low/x.cc", "a/first.h", True),
    ("a/first.h", "common/base/y.h", True),
    ("a/first.h", "a/low/y.h", False),
    ("a/high/x.cc", "a/second.h", False),
])
def test_an_include_of_a_higher_inner_room_is_found(path, include, is_allowed):
    order = inner_rooms(TABLE)
    assert order == ["first.h", "low", "high"]
    assert (violations("a", order, Path(path), f'#include "{include}"\n') == []) == is_allowed
