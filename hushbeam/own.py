"""Whether what would be imported as hushbeam's three floors is hushbeam's.

They have names that folders of Beam projects often have, and Python takes what it meets first: the
current folder's before an installed one's. Nothing would then be found, or, worse, another's code.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

FLOORS = ("mechanisms", "transforms", "pipelines")


def require_own() -> None:
    """Refuse floors that do not stand beside this package.

    Raises:
        ImportError: something else has the name of one; in one line, with what to do.
    """
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for name in FLOORS:
        place = _place(name)
        if place is None:
            raise ImportError(f"hushbeam is installed without {name}: install it whole", name=name)
        if os.path.realpath(place) != os.path.join(home, name):
            raise ImportError(
                f"{place} is found before hushbeam's own package {name}: rename it, or keep its "
                "folder off Python's path (python -P; hushbeam's docs/python.md says more)",
                name=name, path=place,
            )  # fmt: skip


def _place(name: str) -> str | None:
    """The folder, or file, that is imported, or was already; None if there is none."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else getattr(module, "__spec__", None)
    if spec is None:
        return getattr(module, "__file__", None)
    return next(iter(spec.submodule_search_locations or ()), spec.origin)
