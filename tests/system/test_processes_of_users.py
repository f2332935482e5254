# SPDX-License-Identifier: Apache-2.0
"""The table of process features for the programs of an ordinary user, dumped and restored by ckpt-helper: as for root's
programs, but for the rows of "Programs of users" in docs/PROCESSES.md."""
import os
import pathlib
import re
import shutil
import tempfile

import pytest

import process_features as table
from rootless import UID, as_user, helper, needs_helper, user  # noqa: F401 (the last two are fixtures)
from test_processes import PAGE, documented

pytestmark = needs_helper

# Without --full: rows that differ, and what once did.
SAMPLE = {"files/hard_link", "descriptors/inotify", "sockets/unix_renamed", "terminals/own_pair", "terminals/outer", "processes/niceness",
          "processes/seccomp_filter", "ipc/named_semaphore_changed", "ipc/semaphore_of_two_names", "programs/script"}


def of_users():
    """{feature: what ckpt does with a user's program}, where that is another thing than with root's."""
    headings = {text: family for family, (text, _) in table.FEATURES.items()}
    section = PAGE.read_text().split("## Programs of users\n")[1].split("\n## ")[0]
    found = {}
    for row in re.finditer(r"^\| (.*?) \| (.*?) \| (.*) \|$", section, re.M):
        ids = [f.id for f in table.features() if f.text == row[2] and headings.get(row[1]) == f.family]
        found.update(dict.fromkeys(ids, row[3]))
    return found


@pytest.fixture(scope="session")
def programs():
    """Not in pytest's folder, which every other session of pytest closes to users again."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="features-", dir="/var/tmp"))
    folder.chmod(0o755)
    table.build(folder)
    yield folder
    shutil.rmtree(folder)


class OfUser:
    """A program in a folder of the user's, as the user starts it."""

    def __init__(self, feature, programs):
        super().__init__(feature, programs)
        (self.folder / "out").touch()
        for path in (self.folder, self.work, self.folder / "out", getattr(self, "runtime", self.work)):
            os.chown(path, UID, UID)

    def start(self, prefix=()):
        return super().start([*as_user(), *prefix])


class Native(OfUser, table.Program):
    pass


def by_helper(socket):
    class Checkpointed(OfUser, table.Ckpt):
        def environment(self):
            return dict(super().environment(), CKPT_HELPER=socket, HOME=str(self.folder))

        def run(self, *command, **options):
            return super().run(*as_user(), *command, **options)

    return Checkpointed


@pytest.mark.no_criu
def test_the_rows_of_users_differ_from_those_of_root():
    rows = of_users()
    assert len(rows) >= 10
    assert [i for i, text in rows.items() if text.split(":")[0] == documented()[i][1].split(":")[0]] == []


@pytest.mark.parametrize("feature", [
    pytest.param(f, id=f.id, marks=[] if f.id in SAMPLE else [pytest.mark.full]) for f in table.features()])
def test_feature_of_a_user(feature, helper, programs):  # noqa: F811
    expected = of_users().get(feature.id, documented()[feature.id][1]).split(":")[0]
    if expected == "not here":
        pytest.skip("the machine of the measurement lacked it")
    native = table.outcome(Native, feature, programs)
    if native.kind != "works":
        pytest.skip(f"a user does not have it: {native.why}")
    outcome = table.outcome(by_helper(helper.socket), feature, programs)
    assert outcome.kind == expected, outcome.why
