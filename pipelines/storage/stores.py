"""Object stores that can be reached at all: their packages and credentials, looked for at once.

Beam looks for credentials for half a minute, then asks the store as nobody in particular and waits
two minutes more for an answer; and without a package it says so in the words of an assertion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from pipelines.errors import RequestError

GOOGLE_EXTRA = "pip install '.[gcp]' in a clone of hushbeam"

# What Beam's file systems need beside Beam, and how it is installed.
_PACKAGES = {
    "gs": ("google.cloud.storage", GOOGLE_EXTRA),
    "s3": ("boto3", "pip install boto3"),
    "hdfs": ("hdfs", "pip install hdfs"),
    "azfs": ("azure.storage.blob", "pip install azure-storage-blob azure-identity"),
}
_STORE = re.compile(r"(?:^|=)([a-z][a-z0-9]*)://")


def require_reachable(words: Iterable[str]) -> None:
    """Refuse what can only fail: a path of a store for which a package or credentials are missing.

    Args:
        words: of a command line or a plan; each a path, COLUMN=path, --option=path, or another.

    Raises:
        RequestError: one is.
    """
    stores = {match[1]: word for word in words if (match := _STORE.search(word))}
    for store, word in stores.items():
        problem = _problem(store)
        if problem is not None:
            raise RequestError(f"{word}: {problem}")


@cache
def _problem(store: str) -> str | None:
    """Why nothing of a store can be read; None where that is not known."""
    if store not in _PACKAGES:
        return None  # an option of Beam's, or a file system that somebody has added
    module, remedy = _PACKAGES[store]
    try:
        missing = find_spec(module) is None
    except ModuleNotFoundError:  # not even what it is a part of
        missing = True
    if missing:
        return f"{store}:// needs the package {module} ({remedy})"
    return _without_credentials() if store == "gs" else None


def _without_credentials() -> str | None:
    """Why Google's services cannot be asked; None if they can, or an emulator stands for them."""
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return None
    # On a machine of Google's the first answer comes in milliseconds, and its name says it, too.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        google.auth.default()
    except (GoogleAuthError, OSError) as error:
        return (
            f"no credentials for gs:// ({type(error).__name__}); run `gcloud auth "
            "application-default login`, or name a key's file in GOOGLE_APPLICATION_CREDENTIALS"
        )
    return None
