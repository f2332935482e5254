# SPDX-License-Identifier: Apache-2.0
"""A shell script in CRIU's place, for tests of what CRIU's failures do."""
import os
import stat

CRIU = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"


def criu_wrapper(ckpt, verb, body):
    """A CKPT_CRIU that runs `body` (shell; $target is the program's PID) instead of `criu VERB`."""
    path = ckpt.folder / "criu-wrapper"
    path.write_text(f"""#!/bin/bash
criu={CRIU}
if [ "$1" != {verb} ]; then exec $criu "$@"; fi
for a; do if [ "$last" = -t ]; then target=$a; fi; last=$a; done
# Without a fork: on a loaded machine the moment may have passed before a grep has its turn.
contains() {{ local text=; read -rd '' text <"$1"; [[ $text =~ $2 ]]; }} 2>/dev/null
seized() {{ contains /proc/$target/status $'TracerPid:\t'[1-9]; }}
infected() {{ contains /proc/$target/maps CRIUMFD; }}
{body}
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"CKPT_CRIU": str(path)}
