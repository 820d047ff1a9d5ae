"""What the image is made of, as CycloneDX: the packages of the lock file, and scripts of pages."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_LOCK, _SCRIPTS = _ROOT / "requirements.lock", _ROOT / "pipelines" / "site" / "vendor"
_PIN = re.compile(r"^([a-z0-9.-]+)==([^ ]+)(?: ; ([^\\]+))?", re.MULTILINE)
_VERSION = re.compile(r"/\*! \S+ \(v([0-9.]+)\) \*/")  # the first line of a script
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, Any]]:
    """Each pinned package.

    Args:
        lock: the text of the lock file.
    """
    pins = list(_PIN.finditer(lock))
    ends = [pin.start() for pin in pins[1:]] + [len(lock)]
    return [
        _component(pin[1], pin[2], (pin[3] or "").strip(), _HASH.findall(lock, pin.end(), end))
        for pin, end in zip(pins, ends, strict=True)
    ]


def _component(name: str, number: str, marker: str, hashes: list[str]) -> dict[str, Any]:
    url = f"pkg:pypi/{name}@{number}"
    # One of these files is installed: which, the machine decides. They are no hashes of one thing.
    files = [{"alg": "SHA-256", "content": content} for content in hashes]
    condition = [{"name": "marker", "value": marker}] if marker else []
    return {
        "type": "library", "bom-ref": url, "name": name, "version": number, "purl": url,
        "externalReferences": [{"type": "distribution", "url": url, "hashes": files}],
        "properties": condition,
    }  # fmt: skip


def scripts() -> list[dict[str, Any]]:
    """Each library of the pages of sites, as it stands in the repository."""
    return [_script(path) for path in sorted(_SCRIPTS.glob("*.js"))]


def _script(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    number = _VERSION.match(content.decode())
    if number is None:
        raise ValueError(f"{path.name} does not begin with its version")
    name = path.name.partition(".")[0].lower()
    url = f"pkg:npm/{name}@{number[1]}"
    return {
        "type": "library", "bom-ref": url, "name": name, "version": number[1], "purl": url,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
    }  # fmt: skip


def document(lock: str) -> dict[str, Any]:
    """The whole bill.

    Args:
        lock: the text of the lock file.
    """
    own, parts = f"pkg:pypi/hushbeam@{version('hushbeam')}", components(lock) + scripts()
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": own, "name": "hushbeam",
                "version": version("hushbeam"), "purl": own,
            },
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }  # fmt: skip


if __name__ == "__main__":
    json.dump(document(_LOCK.read_text()), sys.stdout, indent=2)
    print()
