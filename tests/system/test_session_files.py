# SPDX-License-Identifier: Apache-2.0
"""What others do to the files of a session does not take the session: cleaners of /tmp, the end of a login."""
import shutil
import subprocess


def session_of(ckpt):
    (folder,) = [f for f in ckpt.runtime.iterdir() if f.is_dir() and not f.is_symlink()]
    return folder


def remove_files(folder):
    """As tmpreaper(8) does, which leaves sockets alone and knows no locks."""
    removed = [f for f in folder.iterdir() if f.is_file() and not f.is_socket()]
    for f in removed:
        f.unlink()
    assert removed


def test_a_session_without_its_files(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    ckpt.dump(job.pid, "one", "--leave-running")
    remove_files(session_of(ckpt))
    listed = subprocess.run([ckpt.tool("ckpt-ps"), "--json"], env=ckpt.env, capture_output=True, text=True).stdout
    assert '"state": "running"' in listed and str(ckpt.folder / "one") in listed, listed
    remove_files(session_of(ckpt))
    ckpt.dump(job.pid, "two")
    assert job.wait() == 85
    copy = ckpt.restore("two")
    copy.wait_lines(3)
    remove_files(session_of(ckpt))
    ckpt.dump(copy.pid, "three")
    assert copy.wait() == 85


def test_a_cleaner_that_goes_by_locks_leaves_the_session_alone(ckpt):
    """systemd-tmpfiles(8) tries to lock each folder (flock(2)), and passes by those that it cannot."""
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    folder = session_of(ckpt)
    assert subprocess.run(["flock", "--nonblock", "--exclusive", folder, "true"]).returncode == 1
    if shutil.which("systemd-tmpfiles"):
        rules = ckpt.folder / "rules.conf"
        rules.write_text(f"q {ckpt.runtime} 0755 - - 0s\n")
        before = sorted(folder.iterdir())
        subprocess.run(["systemd-tmpfiles", "--clean", rules], capture_output=True)
        assert sorted(folder.iterdir()) == before
    job.kill()
    assert subprocess.run(["flock", "--nonblock", "--exclusive", folder, "true"]).returncode == 0


def test_a_session_outlives_the_login(ckpt, tmp_path):
    """$XDG_RUNTIME_DIR goes when the user logs out, also if a program of the user is left running."""
    login = tmp_path / "login"
    login.mkdir(mode=0o700)
    del ckpt.env["CKPT_RUNTIME_DIR"]
    ckpt.env["XDG_RUNTIME_DIR"] = str(login)
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    assert list(login.iterdir()) == []
    shutil.rmtree(login)
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85


def test_a_login_folder_of_another_user(ckpt):
    """Inherited by su or sudo -E."""
    del ckpt.env["CKPT_RUNTIME_DIR"]
    r = subprocess.run(["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", ckpt.tool("ckpt-run"), "true"],
                       env={**ckpt.env, "XDG_RUNTIME_DIR": "/root"}, capture_output=True, text=True, cwd="/")
    assert (r.returncode, r.stderr) == (0, "")
    r = subprocess.run(["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", ckpt.tool("ckpt-run"), "true"],
                       env={**ckpt.env, "CKPT_RUNTIME_DIR": "/etc"}, capture_output=True, text=True, cwd="/")
    assert r.returncode == 125 and "CKPT_RUNTIME_DIR" in r.stderr
