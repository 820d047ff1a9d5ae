"""The packages of the last commit: a source archive, a wheel, their hashes, what they rest on.

The wheel is built twice, from two copies of the commit: what anybody builds of it later, with the
build tools of the lock file, is the same to the byte, or this fails.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# What `pip wheel` would ask of the same back end, without fetching another one.
_BUILD = "import sys, setuptools.build_meta as b; getattr(b, f'build_{sys.argv[1]}')(sys.argv[2])"


def built(kind: str, folder: Path, root: Path = _ROOT) -> Path:
    """A package of the last commit, which knows nothing of what else lies about.

    Args:
        kind: sdist or wheel.
        folder: where it is written.
        root: of the clone.
    """
    seconds, commit = (
        subprocess.run(words, cwd=root, check=True, capture_output=True).stdout
        for words in (
            ["git", "log", "-1", "--format=%ct"],
            ["git", "-c", "tar.umask=0022", "archive", "HEAD"],
        )
    )
    with tempfile.TemporaryDirectory() as copy:
        with tarfile.open(fileobj=io.BytesIO(commit)) as tree:
            # Only what these name is built, and modules that were not committed are not in it.
            tree.extractall(copy, filter="data")
        environment = os.environ | {"SOURCE_DATE_EPOCH": seconds.decode().strip()}
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, kind, str(folder.resolve())],
            cwd=copy, env=environment, umask=0o022, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    (package,) = folder.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[kind])
    return package


def main(folder: Path) -> None:
    """Write them all, and a line of each.

    Args:
        folder: there is none of that name yet, or it is empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: move what it holds, or `make clean`")
    packages = [built(kind, folder) for kind in ("sdist", "wheel")]
    with tempfile.TemporaryDirectory() as other:
        again = built("wheel", Path(other))
        if again.read_bytes() != packages[1].read_bytes():
            raise SystemExit(f"{again.name} came out otherwise when it was built again")
    bill = folder / "sbom.cdx.json"
    with bill.open("w") as out:
        subprocess.run(
            [sys.executable, Path(__file__).with_name("sbom.py")], stdout=out, check=True
        )
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in (*packages, bill)
    )
    (folder / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
