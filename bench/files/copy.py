"""One plain copy with its digest, synced: `python -m bench.files.copy FROM TO`."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

PIECE_BYTES: Final = 1024 * 1024


def copy(source: Path, target: Path) -> str:
    """What anybody would write; the digest of what was read."""
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while piece := reader.read(PIECE_BYTES):
            digest.update(piece)
            writer.write(piece)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


if __name__ == "__main__":
    copy(Path(sys.argv[1]), Path(sys.argv[2]))
