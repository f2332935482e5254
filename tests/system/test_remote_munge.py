# SPDX-License-Identifier: Apache-2.0
"""Devices of other nodes with munge in place of certificates, with a real munged."""
import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BUILD, wait_for
from munge import WHY_NOT, Munged
from test_opencl import assert_no_driver, devices, finished, ocl  # noqa: F401
from test_remote import Server

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

PORT, BETWEEN = 7667, 7670
UNKNOWN_UID = 61236


@pytest.fixture
def daemons():
    with contextlib.ExitStack() as stack:
        def start(*options, **more):
            munged = Munged(*options, **more)
            stack.callback(munged.close)
            return munged
        yield start


@pytest.fixture
def munged(ocl, daemons):
    m = daemons()
    use(ocl, m)
    return m


def use(ocl, munged):
    """What a user's environment is where there are no certificates."""
    ocl.ckpt.env.pop("CKPT_CERTIFICATES", None)
    ocl.ckpt.env.update(CKPT_MUNGE_SOCKET=munged.socket, XDG_CONFIG_HOME=str(ocl.ckpt.folder / "config"))


def serve(ocl, *options, **more):
    server = Server(ocl, *options, certificates=False, **more)
    ocl.ckpt.env.pop("CKPT_CERTIFICATES")
    return server


def listed(server, host=None, **env):
    r = server.call("ckpt-run", "--list-devices", "--host", host or server.tls, **env)
    assert r.returncode == 0 and "Portable Computing" in r.stdout, r.stderr


def refused(server, host=None, **env):
    r = server.call("ckpt-run", "--list-devices", "--host", host or server.tls, **env)
    assert r.returncode == 125, r.stdout
    return r.stderr


def logged(server, text):
    """ckpt-devd learns of the failure after the program."""
    wait_for(lambda: text in server.job.error_text, f"{text} in the log of ckpt-devd")


def test_a_program_without_certificates_runs_and_moves_by_munge(ocl, munged):
    server = serve(ocl)
    job = ocl.start("objects", device=server.device())
    job.wait_text("READY")
    assert_no_driver(job)
    for tool, *options in (["ckpt-dump", "--suspend"], ["ckpt-restore", "--device", server.device(), "--resume"]):
        r = server.call(tool, *options, job.pid)
        assert r.returncode == 0, r.stderr
    ocl.go()
    finished(job)


def test_who_may_enter_by_munge(ocl, munged):
    other = serve(ocl, "--allow", "ada", port=7668)
    assert 'the user "root" may not use the devices' in refused(other)
    logged(other, "ckpt-devd --allow")
    plain = serve(ocl, account=(), port=7669)
    assert "rights of root" in refused(plain)
    few = serve(ocl, "--connections", "1")
    job = ocl.start("objects", device=few.device())
    job.wait_text("READY")
    assert "as many as one user may have" in refused(few)
    ocl.go()
    finished(job)


def proxy_of(uid, server, munged):
    """The tool that connects, as this user: what `ckpt-run --list-devices --host` starts."""
    proxy = BUILD / "remote" / "proxy" / "ckpt-remote-proxy"
    who = dict(user=uid, group=uid, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=60)
    if subprocess.run([proxy, "--version"], **who).returncode != 0:
        pytest.skip("the build folder is not open to other users")
    env = dict(PATH=os.environ["PATH"], HOME="/nonexistent", CKPT_MUNGE_SOCKET=munged.socket)
    return subprocess.run([proxy, "--list", "--host", server.tls], env=env, **who)


def test_a_user_is_known_by_its_uid(ocl, munged):
    server = serve(ocl, "--allow", "nobody")
    r = proxy_of(65534, server, munged)
    assert r.returncode == 0 and "Portable Computing" in r.stdout, r.stderr
    assert 'the user "root" may not use' in refused(server)
    r = proxy_of(UNKNOWN_UID, server, munged)
    assert r.returncode != 0 and f"uid {UNKNOWN_UID}" in r.stdout and "the same users on all nodes" in r.stdout, r.stdout


def test_a_ckpt_devd_of_another_user_is_trusted_only_if_it_is_named(ocl, munged):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        env = dict(ocl.ckpt.env, HOME=folder, POCL_CACHE_DIR=folder)
        who = dict(user=65534, group=65534, extra_groups=[], cwd=folder, env=env)
        if subprocess.run([BUILD / "tools" / "ckpt-devd", "--version"], **who, capture_output=True).returncode != 0:
            pytest.skip("the build folder is not open to other users")
        devd = subprocess.Popen([BUILD / "tools" / "ckpt-devd", "--socket", f"{folder}/s", "--listen", f"127.0.0.1:{PORT}", "--munge",
                                 "--allow", "root"], **who, stdout=subprocess.PIPE, text=True)
        try:
            assert "listening" in devd.stdout.readline()
            caller = Caller(ocl, f"127.0.0.1:{PORT}")
            said = refused(caller)
            assert 'runs as the user "nobody"' in said and "CKPT_DEVD_USER" in said
            listed(caller, CKPT_DEVD_USER="nobody")
            assert "no such user" in refused(caller, CKPT_DEVD_USER="abacus")
        finally:
            devd.terminate()
            devd.wait()


class Caller:
    """Calls tools as a test_remote.Server does."""

    def __init__(self, ocl, host):
        self.ocl, self.tls = ocl, host

    call = Server.call


def test_what_is_wrong_with_munge_is_said(ocl, munged, daemons):
    server = serve(ocl)
    listed(server)
    node = socket.gethostname()
    other = daemons()
    said = refused(server, CKPT_MUNGE_SOCKET=other.socket)
    assert "Invalid credential" in said and "different munge keys" in said
    said = refused(server, CKPT_MUNGE_SOCKET="/nowhere", CKPT_REMOTE_AUTH="munge")
    assert f"munge on {node} makes no credential" in said and f"restart munged on {node}" in said
    assert "set it to munge or certificates" in refused(server, CKPT_REMOTE_AUTH="kerberos")
    # The same cluster, and another munged for the client, so that only the server's can fail.
    same = daemons(key=munged.key)
    listed(server, CKPT_MUNGE_SOCKET=same.socket)
    munged.pause()
    begun = time.monotonic()
    said = refused(server, CKPT_MUNGE_SOCKET=same.socket)
    assert f"munge on {node} does not accept the credential" in said and f"restart munged on {node}" in said, said
    assert time.monotonic() - begun < 60
    munged.resume()
    listed(server)
    munged.end()
    said = refused(server, CKPT_MUNGE_SOCKET=same.socket)
    assert "munge on" in said and "restart munged" in said
    logged(server, "restart munged")


def test_ckpt_devd_does_not_start_without_munged(ocl):
    caller = Caller(ocl, "127.0.0.1:7667")
    r = caller.call("ckpt-devd", "--socket=none", "--listen", caller.tls, "--munge", "--munge-socket=/nowhere")
    assert r.returncode == 1 and "/nowhere" in r.stderr and "restart munged" in r.stderr, r.stderr
    r = caller.call("ckpt-devd", "--munge")
    assert r.returncode == 125 and "--listen" in r.stderr


def test_both_sides_must_use_the_same(ocl, munged):
    by_munge = serve(ocl)
    by_certificate = Server(ocl, port=7668)
    with_certificate = dict(CKPT_CERTIFICATES=ocl.ckpt.env.pop("CKPT_CERTIFICATES"))
    listed(by_certificate, **with_certificate)
    said = refused(by_munge, **with_certificate)
    assert "it authenticates users with munge" in said and "CKPT_REMOTE_AUTH=munge" in said
    logged(by_munge, "authenticates itself with a certificate")
    listed(by_munge, CKPT_REMOTE_AUTH="munge", **with_certificate)
    said = refused(by_certificate)
    assert "it authenticates users with certificates" in said and "--make-user" in said
    logged(by_certificate, "authenticates itself with munge")
    # Where munge is not there, what is missing is said of both ways.
    said = refused(by_munge, CKPT_MUNGE_SOCKET="/nowhere")
    assert "key.pem" in said and "ckpt-devd --munge" in said


@contextlib.contextmanager
def between(carry):
    """A port at which each connection is given to carry(its socket, a new one to ckpt-devd)."""
    with socket.create_server(("127.0.0.1", BETWEEN)) as listener:
        def serve_one():
            with contextlib.suppress(OSError):
                near, _ = listener.accept()
                with near, socket.create_connection(("127.0.0.1", PORT)) as far:
                    carry(near, far)
        thread = threading.Thread(target=serve_one, daemon=True)
        thread.start()
        yield f"127.0.0.1:{BETWEEN}"
        thread.join(60)
        assert not thread.is_alive()


def copy(source, to, before=lambda: None):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            before()
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def both_ways(near, far, before=lambda: None):
    back = threading.Thread(target=copy, args=(far, near), daemon=True)
    back.start()
    copy(near, far, before)
    back.join(60)


def test_a_credential_that_is_relayed_over_another_tls_connection_is_refused(ocl, munged):
    """A man in the middle terminates TLS on both sides and relays every byte."""
    server = serve(ocl)
    folder = pathlib.Path(ocl.ckpt.folder)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                    "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True)
    as_server, as_client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    as_server.load_cert_chain(folder / "cert", folder / "key")
    as_client.check_hostname = False
    as_client.verify_mode = ssl.CERT_NONE
    for context in (as_server, as_client):
        context.set_alpn_protocols(["ckpt-munge"])
    passed = []

    def carry(near, far):
        with as_server.wrap_socket(near, server_side=True) as n, as_client.wrap_socket(far) as f:
            def forth():
                with contextlib.suppress(OSError):
                    while data := n.recv(65536):
                        passed.append(data)
                        f.sendall(data)
            threading.Thread(target=forth, daemon=True).start()
            with contextlib.suppress(OSError):
                while data := f.recv(65536):
                    n.sendall(data)

    with between(carry) as host:
        said = refused(server, host)
    assert b"MUNGE:" in b"".join(passed)
    assert "made for another connection" in said and "terminates TLS" in said, said
    logged(server, "made for another connection")


def test_a_credential_that_arrives_late_has_expired(ocl, daemons):
    """As between two nodes with different clocks."""
    use(ocl, daemons("--max-ttl=1"))
    server = serve(ocl)
    chunks = iter([0, 0])  # of the handshake

    with between(lambda near, far: both_ways(near, far, lambda: time.sleep(next(chunks, 3)))) as host:
        said = refused(server, host)
    assert "Expired credential" in said and "compare the clocks" in said, said
