"""/proc/PID is read by common/base/file_text.h and common/proc alone: a stream of the C++ library, or an iterator of its
std::filesystem, throws when the process ends between open(2) and read(2)."""

import re

from repo import ROOT, tracked

OWN = r'"/proc/(?:self/(?:fd|exe)|driver)'  # of this process, or of none
FORBIDDEN = re.compile(rf'(?:[io]?fstream|directory_iterator|istreambuf_iterator)\b[^;]*?(?!{OWN})"/proc/')


def test_no_stream_reads_a_process():
    sources = [f for f in tracked() if f.suffix in {".cc", ".h"} and f.parts[0] not in {"tests", "bench"}]
    wrong = []
    for source in sources:
        lines = (ROOT / source).read_text(encoding="utf-8").splitlines()
        code = "\n".join(line for line in lines if not line.lstrip().startswith(("//", "#include")))
        wrong += [str(source)] if FORBIDDEN.search(code) else []
    assert not wrong, "use common/base/file_text.h or common/proc/status.h"
