# SPDX-License-Identifier: Apache-2.0
"""Names, command lines and messages that a hostile user has chosen, in what root's tools print, log and create."""
import re
import struct
import subprocess

import pytest

import crafted
import manager
from conftest import BUILD, wait_for
from deadline import fair_share
from hostile_user import UID, user  # noqa: F401

# Clears the terminal, sets its title, begins a line like a message of root's tool, and turns the text around.
HOSTILE = "a\x1b[2J\x1b]0;root\x07\r\nckpt-dump: all is well\n\u202e\x9b31m"
NAME = "\x1b[2J\nckpt: ok"  # the kernel keeps 15 bytes of a process's name


def harmless(text):
    """Whether a terminal shows it as it is, and no line of it was chosen by the user."""
    control = [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"]
    return not control and not re.search(r"^ckpt(-dump)?: (ok|all is well)", text, flags=re.M)


def tool(ckpt, name, *arguments):
    done = subprocess.run([ckpt.tool(name), *map(str, arguments)], env=ckpt.env, cwd=ckpt.folder, capture_output=True,
                          timeout=60)
    return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def named(name, *words, below=""):
    """A Python program with this process name and these words on its command line, which runs `below` first."""
    code = f"open('/proc/self/comm', 'w').write({name!r})\n{below}\nimport time\nopen('named', 'w')\ntime.sleep(1000)"
    return ["/usr/bin/python3", "-c", code, *words]


def start_named(user, *command):
    keeper, session = user.keeper(*command)
    wait_for(lambda: (user.folder / "named").exists(), "the program")
    return keeper, session


def test_a_process_s_name_leads_a_default_image_nowhere_else(ckpt, user):
    keeper, _ = start_named(user, *named("../../../x"))
    (ckpt.folder / "a" / "b" / "c").mkdir(parents=True)
    done = subprocess.run([ckpt.tool("ckpt-dump"), str(keeper.pid)], env=ckpt.env, cwd=ckpt.folder / "a/b/c",
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    image = next((ckpt.folder / "a" / "b" / "c").iterdir())
    assert re.fullmatch(r"ckpt-_\.\._\.\._\.\._x-\d+\.img", image.name), image
    assert not [p for p in (ckpt.folder, ckpt.folder / "a", ckpt.folder / "a" / "b") for p in p.glob("*x-*")]


def test_names_control_no_terminal_and_forge_no_line(ckpt, user):
    """In what ckpt-ps and ckpt-dump say of a process. A daemon of that name is a reason against the dump."""
    daemon = ("import os, time\nif os.fork() == 0:\n if os.fork() == 0:\n  os.setsid(); time.sleep(1000)\n os._exit(0)\n"
              "os.wait()")
    keeper, _ = start_named(user, *named(NAME, HOSTILE, below=daemon))
    code, text = tool(ckpt, "ckpt-ps")
    assert code == 0 and "\\x1b[2J" in text and harmless(text), text
    code, text = tool(ckpt, "ckpt-dump", keeper.pid, "-o", "image")
    assert code == 1 and "\\x1b[2J" in text and "(a daemon?)" in text and harmless(text), text


def test_what_an_image_says_controls_no_terminal(ckpt):
    (ckpt.folder / "images").mkdir()
    manifest = dict(crafted.MANIFEST, program=HOSTILE, argv=[HOSTILE, "x"], cwd=HOSTILE, created=HOSTILE, session_dir=HOSTILE,
                    host={"name": HOSTILE}, files=[{"path": "/" + HOSTILE, "size": 1}],
                    mapped_files=[{"path": "/" + HOSTILE, "size": 1}])
    image = crafted.write(ckpt.folder / "images" / ("x" + HOSTILE.replace("/", "_")), manifest=manifest)
    for name, *arguments in (("ckpt-image", "list", "images"), ("ckpt-image", "show", image), ("ckpt-image", "verify", image),
                             ("ckpt-restore", image), ("ckpt-restore", "--all", "images"), ("ckpt-image", "show", "--json", image)):
        _, text = tool(ckpt, name, *arguments)
        assert "\\x1b[2J" in text or "\\u001b" in text, (name, arguments, text)
        assert harmless(text), (name, arguments, text)


# An agent (agent/protocol.h) that welcomes the tool, and then has only these words for it.
AGENT = """
import ctypes, os, socket, struct, threading
def text(s):
    s = s.encode(); return struct.pack("<I", len(s)) + s
path = os.path.join(os.path.dirname(os.environ["CKPT_SESSION"]), "agent-1.sock")
listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen(8)
def exactly(c, n):
    data = b""
    while len(data) < n:
        piece = c.recv(n - len(data))
        if not piece: raise EOFError
        data += piece
    return data
def serve(c):
    try:
        while True:
            size, kind, _ = struct.unpack("<IHH", exactly(c, 8)); exactly(c, size)
            body, answer = {
                10: (struct.pack("<IIBI", 1, os.getpid(), STATE, 1) + text(HOSTILE), 11),
                12: (struct.pack("<I", 2) + text(HOSTILE) * 2, 13),
                29: (struct.pack("<I", 1) + text(HOSTILE), 13),
                37: (struct.pack("<I", 1) + text(HOSTILE), 13),
            }.get(kind, (text(HOSTILE) + text(HOSTILE), 2))
            c.sendall(struct.pack("<IHH", len(body), answer, 0) + body)
    except (EOFError, OSError): pass
def accept():
    ctypes.CDLL(None).prctl(15, b"ckpt-agent")  # PR_SET_NAME: otherwise it counts as a child without a thread of its own
    while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
"""


@pytest.mark.parametrize("command", [("ckpt-dump",), ("ckpt-dump", "--suspend"), ("ckpt-dump", "--json"),
                                     ("ckpt-restore", "--resume"), ("ckpt-ps",)], ids=" ".join)
def test_an_agent_s_message_controls_no_terminal(ckpt, user, command):
    state = 6 if "--resume" in command else 0  # Suspended, Running
    agent = AGENT.replace("HOSTILE", repr(HOSTILE)).replace("STATE", str(state))
    keeper, _ = start_named(user, *named("agent", below=agent))
    _, text = tool(ckpt, *command, *([] if command == ("ckpt-ps",) else [keeper.pid]))
    assert "\\x1b[2J" in text or "\\u001b" in text, text
    assert harmless(text), text


# Each child has an agent that takes connections and says nothing.
SILENT_AGENTS = """
import os, signal, socket
ready, done = os.pipe()
for i in range(150):
    if os.fork() == 0:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(os.path.dirname(os.environ["CKPT_SESSION"]), f"agent-{i}.sock"))
        listener.listen(8)
        os.write(done, b"x")
        signal.pause()
for i in range(150): os.read(ready, 1)
"""


def test_agents_that_do_not_answer_hold_ckpt_ps_up_once(ckpt, user):
    """One alone may take half a second."""
    start_named(user, *named("silent", below=SILENT_AGENTS))
    done = subprocess.run([ckpt.tool("ckpt-ps")], env=ckpt.env, capture_output=True, text=True, timeout=20 / fair_share())
    assert done.returncode == 0 and "silent" in done.stdout, done.stdout + done.stderr


def test_a_log_s_line_is_one_message():
    """The log escapes what a message quotes, whoever calls it: a line of it never begins as the user wants."""
    done = subprocess.run([BUILD / "tools" / "ckpt-dump", "1", "-o", f"/none/{HOSTILE}"], capture_output=True, timeout=60)
    text = done.stderr.decode(errors="replace")
    assert done.returncode != 0 and harmless(text), text


class TestLogOfCkptd:
    pytestmark = manager.NEEDS

    def test_a_user_makes_ckptd_log_ten_lines_a_minute(self, ckpt, user):
        """Each refused connection would be a line."""
        path = ckpt.runtime / "ckptd.sock"
        ckpt.runtime.chmod(0o755)
        ckpt.env.update(CKPT_SOFTCUDA="1x64M", CKPTD_SOCKET=str(path))
        daemon = ckpt.start("ckptd", ["--opencl-devices", "none", "--users", "own"])
        daemon.wait_text("listening on")
        code = (f"import socket\nrefused = 0\nfor i in range(300):\n s = socket.socket(socket.AF_UNIX); s.settimeout(20)\n"
                f" s.connect({str(path)!r}); s.sendall(bytes(8))\n refused += b'does not serve' in s.recv(4096)\nprint(refused)")
        done = user.run("/usr/bin/python3", "-c", code)
        assert done.stdout == "300\n", done.stdout + done.stderr
        lines = [x for x in daemon.error_text.splitlines() if f"uid {UID}" in x]
        assert 1 <= len(lines) <= 10, daemon.error_text
        assert daemon.process.poll() is None
