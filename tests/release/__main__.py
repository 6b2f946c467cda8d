"""Makes `dist`: sdist, wheel, a list of what comes with it (CycloneDX) and checksums. The wheel is
installed in an empty environment first, and every command of the tutorial typed there."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from rollq import __version__
from tests.integration.console import run_page
from tests.release.environments import ROOT, Environment, build, install, run

SUMS = "SHA256SUMS"


def main() -> None:
    """Build, check, list, sum and sign."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="a folder that is replaced")
    parser.add_argument("--sign-key", type=Path, help="Ed25519 key, PEM without a password")
    options = parser.parse_args()
    key = read_key(options.sign_key) if options.sign_key else None
    shutil.rmtree(options.out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        sdist, wheel = build(ROOT, options.out)
        environment = install(wheel, Path(folder) / "clean")
        print(environment.run("rollq", "--version").strip(), flush=True)
        (Path(folder) / "tutorial").mkdir()
        tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
        run_page(tutorial, Path(folder) / "tutorial", environment.bin)
        print("tutorial: every command printed what it shows")
        bill = write_bill(environment, options.out / f"rollq-{__version__}.cdx.json")
    for path in write_sums([sdist, wheel, bill], key):
        print(f"{path.stat().st_size:>10} {path}")


def read_key(path: Path) -> Ed25519PrivateKey:
    """The key that signs."""
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise SystemExit(f"{path} is no Ed25519 key; make one: openssl genpkey -algorithm ed25519")
    return key


def write_bill(environment: Environment, path: Path) -> Path:
    """What is installed with the wheel, with versions and licences. The same for the same things:
    it has no time and no number of its own."""
    python = str(environment.bin / "python")
    words = ["environment", "--output-reproducible", "--output-format", "JSON", python]
    words += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(path)]
    run([sys.executable, "-m", "cyclonedx_py", *words], ROOT)
    bill = json.loads(path.read_text(encoding="utf-8"))
    bill["metadata"]["component"]["version"] = __version__  # pyproject.toml takes it from there
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return path


def write_sums(paths: list[Path], key: Ed25519PrivateKey | None) -> list[Path]:
    """The checksums of files beside them, as `sha256sum -c` reads them; and their signature."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    sums = paths[0].parent / SUMS
    sums.write_text("".join(lines), encoding="ascii")
    if key is None:
        return [*paths, sums]
    signature = sums.with_name(f"{SUMS}.sig")
    signature.write_bytes(key.sign(sums.read_bytes()))
    return [*paths, sums, signature]


if __name__ == "__main__":
    main()
