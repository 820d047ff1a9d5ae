"""Whether libraries are reached into at all."""

import os

VARIABLE = "HUSHBEAM_COMPAT"


def on() -> bool:
    """Whether to take shortcuts through private parts of libraries; `HUSHBEAM_COMPAT=off`: none.

    Results are the same either way, at more CPU time.
    """
    return os.environ.get(VARIABLE) != "off"
