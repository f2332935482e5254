# SPDX-License-Identifier: Apache-2.0
"""The table of process features: ckpt does what docs/PROCESSES.md says of each, and what plain CRIU restores is
restored, or refused by name."""
import pathlib
import re

import pytest

from conftest import let_users_in
import process_features as table
from workers import make_once, shared_folder

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PROCESSES.md"

# A row of each kind that was once lost, and some of each family.
SAMPLE = {"files/proc_status", "files/sys_file", "files/hard_link", "files/file_size_limit", "files/flock",
          "memory/reserved", "memory/mapped_hard_link", "memory/secret_memory", "memory/posix_shm_changed", "descriptors/timerfd_expired",
          "descriptors/eventfd_semaphore", "sockets/pipe_in_flight", "terminals/own_pair", "terminals/outer_and_own",
          "processes/zombie", "processes/queued_signals", "processes/bound", "processes/leader_ended", "ipc/named_semaphore", "namespaces/user",
          "memory/sparse_9t", "memory/kept_file_lost", "memory/memory_policy", "memory/lock_future", "descriptors/inotify_unread",
          "descriptors/inotify_unlinked", "sockets/unix_renamed", "sockets/unix_renamed_relative", "sockets/socket_options", "sockets/multicast",
          "processes/ended_threads_timer", "processes/own_cpu_timer", "processes/ended_threads_cpu_timer", "processes/unknown_cpu_timer",
          "processes/outer_cpu_timer", "processes/childs_cpu_timer", "processes/no_written_code", "files/folder_signals",
          "sockets/unix_datagram_sender", "processes/thread_folder", "processes/io_priority", "ipc/semaphore_of_two_names",
          "programs/mp_spawn", "programs/script", "programs/tail"}


def documented():
    """{feature: (plain CRIU, ckpt)} as the page says."""
    heading, found = None, {}
    headings = {text: family for family, (text, _) in table.FEATURES.items()}
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            heading = headings[line[4:]]
        elif heading and (row := re.fullmatch(r"\| (.*?) \| (.*?) \| (.*) \|", line)):
            ids = [f.id for f in table.features() if f.family == heading and f.text == row[1]]
            if ids:
                found[ids[0]] = (row[2], row[3])
    return found


@pytest.mark.no_criu
def test_the_page_has_every_feature():
    assert list(documented()) == [f.id for f in table.features()]


@pytest.mark.no_criu
def test_what_plain_criu_restores_is_restored_or_refused():
    lost = [name for name, (criu, ckpt) in documented().items()
            if criu == "works" and not ckpt.startswith(("works", "refused: "))]
    assert lost == []


@pytest.fixture(scope="session")
def features_built(tmp_path_factory):
    folder = shared_folder(tmp_path_factory, "features")
    let_users_in(folder)  # a row changes its user
    make_once(folder / "built", lambda: [table.build(folder), (folder / "built").touch()])
    return folder


@pytest.mark.parametrize("feature", [
    pytest.param(f, id=f.id, marks=[] if f.id in SAMPLE else [pytest.mark.full]) for f in table.features()])
def test_feature(feature, features_built):
    expected = documented()[feature.id][1].split(":")[0]
    if expected == "not here":
        pytest.skip("the machine of the measurement lacked it")
    outcome = table.outcome(table.Ckpt, feature, features_built)
    if outcome.kind == "not here":
        pytest.skip(outcome.why)
    assert outcome.kind == expected, outcome.why
