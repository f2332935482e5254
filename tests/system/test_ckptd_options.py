# SPDX-License-Identifier: Apache-2.0
"""The options of ckptd: on the command line, in its file, in its environment."""
import pytest

from manager import NEEDS

pytestmark = NEEDS


@pytest.fixture
def ckptd(ckpt):
    ckpt.env.update(CKPT_SOFTCUDA="1x64M")
    file = ckpt.folder / "ckptd.conf"

    def start(text, *flags, **environment):
        file.write_text(text)
        ckpt.env.update({"CKPTD_SOCKET": str(ckpt.runtime / "ckptd.sock"), **environment})
        return ckpt.start("ckptd", ["--config", file, "--opencl-devices", "none", *flags])

    return start


def refused(daemon):
    assert daemon.wait() != 0
    return daemon.error_text + daemon.text


@pytest.mark.parametrize("flag", (True, False))
@pytest.mark.parametrize("file", (True, False))
def test_a_flag_overrides_the_file_and_the_file_the_environment(ckpt, ckptd, flag, file):
    by = {word: str(ckpt.runtime / word) for word in ("flag", "file", "environment")}
    daemon = ckptd(f"socket = {by['file']}\n" if file else "", *(["--socket", by["flag"]] if flag else []),
                   CKPTD_SOCKET=by["environment"])
    daemon.wait_text(f"listening on {by['flag' if flag else 'file' if file else 'environment']}\n")


def test_the_file_overrides_the_users_of_the_unit(ckptd):
    assert "no user" in refused(ckptd("", CKPTD_USERS="nobody-of-that-name"))
    ckptd("users = own\n").wait_text("listening on")


@pytest.mark.parametrize("text,word", (("program-memry = 1G\n", "program-memry"), ("starvation-limit = soon\n", "soon"),
                                       ("placement = all\n", "placement"), ("users = 4294967296\n", "4294967296"),
                                       ("users = 99999999999999999999\n", "99999999999999999999"),
                                       ("disk-folder = here\n", "absolute"), ("disk-memory = 1G\n", "disk-folder")))
def test_a_mistake_is_named(ckptd, text, word):
    assert word in refused(ckptd(text))


def test_an_unknown_user_ends_the_daemon_as_other_wrong_arguments_do(ckptd):
    """With the exit code at which its unit is not started again (RestartPreventExitStatus)."""
    assert ckptd("", "--users", "nobody-of-that-name").wait() == 125
    assert ckptd("users = nobody-of-that-name\n").wait() == 125
    assert ckptd("", CKPTD_USERS="nobody-of-that-name").wait() == 125


def test_an_unknown_name_is_reported_with_its_file(ckpt, ckptd):
    assert f"{ckpt.folder}/ckptd.conf: " in refused(ckptd("program-memry = 1G\n"))


def test_a_folder_that_is_not_writable_by_all_users_is_named(ckpt, ckptd):
    folder = ckpt.folder / "disk"
    folder.mkdir(mode=0o700)
    daemon = ckptd("users = all\n", "--disk-folder", folder, "--disk-memory", "1G", "--socket", ckpt.runtime / "s")
    daemon.wait_text("listening on")
    assert str(folder) in daemon.error_text and "1777" in daemon.error_text
