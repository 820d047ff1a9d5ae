"""What the image is made of, as CycloneDX: the packages of the lock file, with their hashes."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LOCK = Path(__file__).parents[1] / "requirements.lock"
_PIN = re.compile(r"^([a-z0-9.-]+)==([^ ]+)(?: ; ([^\\]+))?", re.MULTILINE)
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


def document(lock: str) -> dict[str, Any]:
    """The whole bill.

    Args:
        lock: the text of the lock file.
    """
    own, parts = f"pkg:pypi/hushbeam@{version('hushbeam')}", components(lock)
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
