"""Install the pinned packages into this environment: by uv, or by pip where uv is not to be had.

Run by `make`, on the Python of an environment that holds pip alone. Both installers check every
hash, uv's own included. `make demo` of an empty clone took 188 s of CPU time by pip, 55 by uv.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_UV = Path(__file__).with_name("uv.txt")
_PIP = (sys.executable, "-m", "pip")
_INSTALL = ("install", "--no-deps", "--require-hashes", "--requirement")
_EVERY = 10  # packages between two lines of progress
_OPTION = re.compile(r"^(:env:|global|install)\.([a-z-]+)=(.+)$", re.MULTILINE)
# uv does not read pip's settings: its variables for what decides which registry is reached, and
# what stands between a machine's several addresses there.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_OFFLINE", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", " "),
    "proxy": ("ALL_PROXY", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
}


def uv_settings(listed: str) -> dict[str, str]:
    """uv's variables for a machine's settings of pip.

    Args:
        listed: what `pip config list` prints.

    Example:
        >>> uv_settings("global.index-url='https://mirror/simple'")["UV_DEFAULT_INDEX"]
        'https://mirror/simple'
    """
    # As pip chooses: every index counts, and the system's certificates hold. The hashes see to it
    # that it does not matter which index a package comes from.
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true"}
    options = [match.groups() for match in _OPTION.finditer(listed)]
    # The later overrides: of everything, of `pip install`, of the environment.
    for section in ("global", "install", ":env:"):
        for place, option, value in options:
            if place == section and option in _VARIABLES:
                name, between = _VARIABLES[option]
                variables[name] = between.join(ast.literal_eval(value).split())
    return variables


def install(lock: str, environment: Mapping[str, str]) -> int:
    """Install what a lock file pins.

    Args:
        lock: the path of the file.
        environment: variables, of which uv's own overrule pip's settings.

    Returns:
        The exit code: 0 where all is installed.
    """
    fetched = _run(*_PIP, *_INSTALL, str(_UV), "--quiet", "--only-binary=uv")
    if fetched.returncode == 0:
        listed = _run(*_PIP, "config", "list").stdout
        uv = (sys.executable, "-m", "uv", "pip")
        settings = {**uv_settings(listed), **environment}
        words = (*uv, *_INSTALL, lock, "--quiet", "--python", sys.executable)
        fetched = _run(*words, environment=settings)
    if fetched.returncode == 0:
        return 0
    reason = (fetched.stderr.strip().splitlines() or ["no reason given"])[-1].strip()
    print(f"uv cannot install them ({reason}): pip does, in a minute or two", file=sys.stderr)
    pinned = len(re.findall(r"^[\w.\[\]-]+==", Path(lock).read_text(), re.MULTILINE))
    by_pip = [*_PIP, *_INSTALL, lock]
    with subprocess.Popen(by_pip, stdout=subprocess.PIPE, text=True) as pip:
        for line in progress(pip.stdout or (), pinned):
            print(line, file=sys.stderr, flush=True)
    return pip.returncode


def progress(lines: Iterable[str], pinned: int) -> Iterator[str]:
    """How far pip has come, by what it prints: it is silent for minutes else, or says all.

    Args:
        lines: of its standard output.
        pinned: how many packages it installs.

    Example:
        >>> [*progress(["Collecting a==1", "Installing collected packages: a"], 1)]
        ['pip has fetched 1 of 1 packages', 'pip installs them']
    """
    fetched = 0
    for line in lines:
        if line.startswith(("Collecting ", "Processing ")):  # of an index, or of a folder
            fetched += 1
            if fetched % _EVERY == 0 or fetched == pinned:
                yield f"pip has fetched {fetched} of {pinned} packages"
        elif line.startswith("Installing collected packages"):
            yield "pip installs them"


def _run(
    *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command, whose words are kept."""
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(install(sys.argv[1], os.environ))
