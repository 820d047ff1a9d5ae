"""A command leaves unimported what its job does not use; whoever needs it has it all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mechanisms.compat.switch import VARIABLE
from tests.fakes.installed import install

_BEGUN = "import sys; from pipelines.compat import sparing; sparing.begin()\n"
_LOADED = "loaded = lambda *names: [name for name in names if name in sys.modules]\n"
_OPTIONAL = '"pandas", "pymongo", "apitools", "apache_beam.io.gcp", "google.cloud.dataflow"'
_LISTS = f"assert loaded({_OPTIONAL}) == "


def run(program: str, **environment: str) -> None:
    """Run a program in a process of its own, which must end well."""
    process = subprocess.run(
        [sys.executable, "-c", _BEGUN + _LOADED + program],
        env={"PYTHONPATH": str(Path(__file__).parents[3]), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


def test_beam_is_imported_alone() -> None:
    run(f"""
import apache_beam, apache_beam.runners.portability.fn_api_runner
{_LISTS} []
with apache_beam.Pipeline("FnApiRunner") as pipeline:
    pipeline | apache_beam.Create([1, 2]) | apache_beam.Map(print)
assert not loaded("IPython", "absl", "bson", "beartype", "yaml.reader")
""")


def test_beams_questions_about_types_are_answered_by_beartype() -> None:
    run("""
from apache_beam.typehints.typehints import is_consistent_with
from transforms.elements.pieces import Piece
from transforms.encoders.block import CellBlock, RowBlock
kinds = [bool, int, float, str, bytes, object, tuple, list, type(None), Piece, CellBlock, RowBlock]
ours = is_consistent_with.__globals__["is_subhint"]
plain = [[ours(one, other) for one in kinds] for other in kinds]
assert is_consistent_with(bool, int) and not is_consistent_with(Piece, CellBlock)
assert not loaded("beartype", "beartype.door", "beartype.roar")
import beartype.door, beartype.roar, collections.abc
hints = [*kinds, list[int], list[bool], collections.abc.Sized, type("Ints", (list,), {})]
assert plain == [[beartype.door.is_subhint(one, other) for one in kinds] for other in kinds]
for one in hints:
    assert [ours(one, other) for other in hints] == \
        [beartype.door.is_subhint(one, other) for other in hints]
assert not ours(3, 4)  # neither is a hint
""")


def test_a_beartype_in_use_stays() -> None:
    run("""
from beartype.door import is_subhint
from apache_beam.typehints.typehints import is_consistent_with
assert is_consistent_with.__globals__["is_subhint"] is is_subhint
assert sys.modules["beartype.door"].is_subhint is is_subhint
""")


def test_arrows_functions_are_what_they_are_but_for_some_docstrings() -> None:
    run("""
import pyarrow.compute as pc, yaml
assert pc.round([1.26], ndigits=1).to_pylist() == [1.3]
assert list(pc.round.__arrow_compute_function__.values())[0] == "round"
assert yaml.safe_load("a: 1") == {"a": 1} and yaml.YAMLError
""")


def test_what_was_left_out_can_be_imported_afterwards() -> None:
    run("""
import apache_beam, pyarrow as pa
frame = pa.table({"x": [1, None]}).to_pandas()
import pandas as pd
assert isinstance(frame, pd.DataFrame)
assert pa.array(pd.Series([1.0, None])).null_count == 1
import apache_beam.io.gcp.pubsub, google.cloud.storage, numpy
assert numpy.testing.assert_equal and numpy.rec.array
""")


def test_a_name_in_googles_storage_brings_all_that_beam_has_for_it() -> None:
    run("""
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils import retry
assert type(FileSystems.get_filesystem("here")).__name__ == "LocalFileSystem"
assert retry.HttpError is None
assert type(FileSystems.get_filesystem("gs://a/b")).__name__ == "GCSFileSystem"
from apitools.base.py.exceptions import HttpError
from google.api_core.exceptions import GoogleAPICallError
assert (retry.HttpError, retry.GoogleAPICallError) == (HttpError, GoogleAPICallError)
""")


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        ([], True),
        (["--direct_num_workers=2"], True),
        (["--direct_running_mode", "multi_processing"], True),
        (["--runner=DataflowRunner"], False),
        (["--direct_num_workers=1", "--runner", "FlinkRunner"], False),
    ],
)
def test_another_runner_gets_all_of_beam(words: list[str], spared: bool) -> None:
    run(f"""
sparing.end_unless_local({words})
import apache_beam
assert ("apache_beam.io.gcp.bigquery" in sys.modules) is not {spared}
assert hasattr(apache_beam.io, "ReadFromPubSub") is not {spared}
""")


def test_the_switch_spares_nothing() -> None:
    run("import apache_beam; assert hasattr(apache_beam.io, 'ReadFromPubSub')", **{VARIABLE: "off"})


def test_what_others_add_gets_all_of_beam(tmp_path: Path) -> None:
    install(
        '[project]\nname = "even"\nversion = "1"\n'
        '[project.entry-points."hushbeam.metrics"]\neven = "even:Options"\n',
        tmp_path,
    )
    run(f"""
sys.path.append({str(tmp_path)!r})
import apache_beam
{_LISTS} [{_OPTIONAL}]
""")


def test_what_is_in_use_stays() -> None:
    run("""
import pandas, google.cloud.storage
before = {name: sys.modules[name] for name in ("pandas", "google.cloud.storage")}
import apache_beam
assert before == {name: sys.modules[name] for name in before}
""")


def test_nobody_who_imports_the_library_is_spared() -> None:
    program = "import hushbeam, sys; hushbeam.count; from pipelines.compat import sparing; "
    process = subprocess.run(
        [sys.executable, "-c", program + "sys.exit(sparing._FINDER in sys.meta_path)"],
        cwd=Path(__file__).parents[3], check=False,
    )  # fmt: skip
    assert process.returncode == 0


def test_what_comes_later_is_executed_once_and_whole_whichever_threads_ask() -> None:
    run("""
import threading, numpy, scipy.special
assert vars(numpy.f2py) and not loaded("numpy.f2py.crackfortran", "numpy.testing._private")
barrier, seen = threading.Barrier(8), []
def look():
    barrier.wait()
    seen.append((numpy.testing.assert_equal, numpy.testing._private.utils))
threads = [threading.Thread(target=look) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(seen) == 8 and len(set(seen)) == 1
assert not hasattr(numpy.testing, "nothing") and "compare_chararrays" in numpy.char.__all__
from numpy.testing import assert_equal
""")


def test_scipys_functions_are_what_they_are_but_for_their_docstrings() -> None:
    run("""
import scipy.special, scipy.fft, scipy.stats, scipy.optimize
assert loaded("scipy._lib._docscrape") and not scipy.special.ndtr.__doc__
assert abs(scipy.special.ndtr(0.0) - 0.5) < 1e-15
assert abs(scipy.stats.norm.cdf(0.0) - 0.5) < 1e-15
assert scipy.stats.ttest_ind([1.0, 2, 3], [1.0, 2, 4]).pvalue < 1
""")


def test_a_class_that_others_inherit_from_makes_no_validator() -> None:
    run("""
from pipelines.metrics.counting.options import CountOptions
from pipelines.metrics.options import ReleaseOptions
CountOptions(input=("log.parquet",), output="release", epsilon=1)
assert not ReleaseOptions.__pydantic_complete__ and CountOptions.__pydantic_complete__
""")


def test_a_command_on_a_ledger_leaves_what_releases_ask() -> None:
    run("""
from pipelines.cli.cli import parser_of
import pipelines.ledger.account
parser_of(["ledger", "show"])
assert not loaded("pipelines.metrics.options", "transforms.rows")
parser_of(["count", "--input", "x"])
assert loaded("pipelines.metrics.options")
""")
