"""Private parts are reached into only of versions that somebody has looked at; and at will of none.

With another version each piece of `compat` is looked at again: whether what it takes is still
there, still the same, and still saves a tenth of a CPU second. Then the version is written anew.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from mechanisms import compat as of_mechanisms
from mechanisms.compat import roots
from mechanisms.compat.switch import VARIABLE, on
from pipelines import compat as of_pipelines


@pytest.mark.parametrize(
    ("package", "known"),
    [
        ("scipy", of_mechanisms.SCIPY),
        ("dp-accounting", of_mechanisms.DP_ACCOUNTING),
        ("apache-beam", of_pipelines.BEAM),
    ],
)
def test_the_version_is_one_that_was_looked_at(package: str, known: str) -> None:
    assert version(package).startswith(f"{known}."), f"look at each piece of compat for {package}"


def test_the_switch_takes_the_public_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    from apache_beam.options.pipeline_options import StandardOptions

    from pipelines.compat import signatures, worker_processes
    from pipelines.compat.signatures import ViewedOptions

    assert on()
    kept = roots.brentq(lambda x: x * x - 2, 0, 2)
    monkeypatch.setenv(VARIABLE, "off")
    assert not on()
    roots._brentq.cache_clear()
    try:
        assert roots.brentq(lambda x: x * x - 2, 0, 2) == kept
    finally:
        roots._brentq.cache_clear()
    options = ViewedOptions(["--runner=FnApiRunner"])
    assert options.view_as(StandardOptions) is not options.view_as(StandardOptions)
    assert not worker_processes.may_fork()
    jobs = signatures._Jobs()  # those of the tests have begun before
    jobs.begin()
    assert not jobs.usual
    jobs.end()


def test_the_switch_imports_the_accountant_as_it_is() -> None:
    text = (
        "from mechanisms.compat.pld import accounting; accounting(); import scipy.signal, sys; "
        "sys.exit('scipy.stats' not in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", text], env={VARIABLE: "off"}, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr
