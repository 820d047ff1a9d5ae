"""The packages of the last commit: for PyPI and npm, with their hashes and what they rest on.

The wheel and npm's package are built twice, from two copies of the commit: what anybody builds of
it later, with the build tools of the lock files, is the same to the byte, or this fails.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# What `pip wheel` would ask of the same back end, without fetching another one.
_BUILD = "import sys, setuptools.build_meta as b; getattr(b, f'build_{sys.argv[1]}')(sys.argv[2])"
_PYTHON = [[sys.executable, "-c", _BUILD, "KIND", "FOLDER"]]
_NPM = [
    ["npm", "ci", "--no-audit", "--no-fund"],
    ["npm", "run", "build"],
    ["npm", "pack", "--pack-destination", "FOLDER"],
]
# Of each kind: in which folder of the copy, by what, and what comes out.
_KINDS = {
    "sdist": (".", _PYTHON, "*.tar.gz"),
    "wheel": (".", _PYTHON, "*.whl"),
    "npm": ("clients/typescript", _NPM, "*.tgz"),
}


def built(kind: str, folder: Path, root: Path = _ROOT) -> Path:
    """A package of the last commit, which knows nothing of what else lies about.

    Args:
        kind: sdist, wheel or npm.
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
        where, commands, pattern = _KINDS[kind]
        given = {"KIND": kind, "FOLDER": str(folder.resolve())}
        for words in commands:
            done = subprocess.run(
                [given.get(word, word) for word in words],
                cwd=Path(copy, where), env=environment, umask=0o022, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(done.stdout + done.stderr)
    (package,) = folder.glob(pattern)
    return package


def main(folder: Path) -> None:
    """Write them all, and a line of each.

    Args:
        folder: there is none of that name yet, or it is empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: move what it holds, or `make clean`")
    if shutil.which("npm") is None:
        raise SystemExit("npm is missing, which packs the TypeScript client: install Node 20")
    packages = [built(kind, folder) for kind in _KINDS]
    with tempfile.TemporaryDirectory() as other:
        for kind, package in zip(_KINDS, packages, strict=True):
            if kind != "sdist" and built(kind, Path(other)).read_bytes() != package.read_bytes():
                raise SystemExit(f"{package.name} came out otherwise when it was built again")
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
