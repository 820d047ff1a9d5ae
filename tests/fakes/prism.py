"""Beam's runner Prism, where its program is: `go install .../sdks/v2/go/cmd/prism@v2.77.0`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions

PLACE = shutil.which("prism") or str(Path.home() / "go" / "bin" / "prism")
PRISM = ("PrismRunner",) if os.access(PLACE, os.X_OK) else ()

LOCAL = ("FnApiRunner", "BundleBasedDirectRunner", *PRISM)
"""Runners of this machine: those that Beam brings, and Prism."""


def options_of(runner: str, *more: str) -> PipelineOptions:
    """What Beam is told, so that steps run in this process and a test sees what they let out."""
    loopback = ["--environment_type=LOOPBACK"] * (runner == "PrismRunner")
    options = PipelineOptions([*loopback, *more])
    if runner == "PrismRunner":
        options.view_as(PrismRunnerOptions).prism_location = PLACE
    return options
