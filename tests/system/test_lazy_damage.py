# SPDX-License-Identifier: Apache-2.0
"""A bit of an image's host memory is flipped, and the image restored with --lazy: the program reads no wrong value, and
is ended by an error that names the chunk, unless it has never needed it."""
import random
import sys

from conftest import ROOT
from lazy_program import HOLDS, RANDOM, RIGHT_LINES, dumped, touch
from tiers import parametrize

sys.path.insert(0, str(ROOT / "tests" / "format"))
from read_image import ZERO, Image  # noqa: E402

FLIPS = 20


def host_chunks(folder):
    """The stored chunks of CRIU's files of pages: number → offset and size in chunks.ckpt."""
    index = Image(str(folder))
    numbers = {n for name, (_, chunks) in index.streams.items() if name.startswith("criu/pages-") for n in chunks}
    return {n: (index.chunks[n][2], index.chunks[n][3]) for n in numbers if index.chunks[n][5] != ZERO}


class Flip:
    """A bit of a file, until the end of the with statement."""

    def __init__(self, file, at, bit):
        self.file, self.at, self.bit = file, at, bit

    def _flip(self):
        with open(self.file, "r+b") as f:
            f.seek(self.at)
            byte = f.read(1)[0]
            f.seek(self.at)
            f.write(bytes([byte ^ (1 << self.bit)]))

    def __enter__(self):
        self._flip()

    def __exit__(self, *_):
        self._flip()


def check(ckpt, chunk):
    copy = ckpt.restore("one", "--lazy")
    code = copy.wait()
    assert copy.lines == RIGHT_LINES[:len(copy.lines)], f"wrong data: {copy.text!r}"
    assert "Fatal Python error" not in copy.error_text, copy.error_text
    if code == 0:
        return copy.lines == RIGHT_LINES
    assert code == 1 and f"chunk {chunk} (" in copy.error_text and "damaged" in copy.error_text, f"{code}: {copy.error_text}"
    return False


@parametrize("batch", range(25), quick=1)
def test_a_flipped_bit_is_found(ckpt, batch):
    chance = random.Random(batch)
    image = dumped(ckpt, RANDOM if batch % 2 else HOLDS)
    chunks = host_chunks(image.folder)
    touch(ckpt, "finish", "end")
    harmless = 0
    for _ in range(FLIPS):
        [(number, (offset, size))] = chance.choices(list(chunks.items()), [size for _, size in chunks.values()])
        with Flip(image.folder / "chunks.ckpt", offset + chance.randrange(size), chance.randrange(8)):
            harmless += check(ckpt, number)
    assert harmless < FLIPS / 2
