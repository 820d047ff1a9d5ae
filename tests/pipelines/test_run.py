"""Beam's options: known ones go through, whatever else is refused before anything is read."""

from __future__ import annotations

import ctypes
import gc
import io
import sys
import weakref
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, SetupOptions, StandardOptions
from rich.console import Console

from pipelines.errors import RequestError
from pipelines.jobs import run as jobs
from pipelines.jobs.run import _workers, beam_options, run_beam
from pipelines.storage.claims import TAKEN
from transforms.elements.progress import LOST, live, tally

pytestmark = pytest.mark.usefixtures("beams_runner")


def test_the_default_runner_is_a_local_one_that_fetches_nothing() -> None:
    assert beam_options([]).view_as(StandardOptions).runner == "FnApiRunner"


@pytest.mark.parametrize("known", [True, False])
def test_an_allocator_is_told_to_keep_memory_if_it_can_be(known, monkeypatch) -> None:
    """musl and macOS have no `mallopt`: their allocators are left as they are."""
    told: list[tuple[int, int]] = []
    library = SimpleNamespace(**{"mallopt": lambda *words: told.append(words)} if known else {})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    job = beam.Create([1])
    assert run_beam(job, beam_options([]), Console(quiet=True), rows=None) == {}
    assert told == ([(-3, 1 << 22), (-1, 1 << 26)] if known else [])


def test_a_job_begins_without_what_earlier_ones_have_left(monkeypatch) -> None:
    """Python itself looks for garbage too late; among tests, never."""
    monkeypatch.setattr(jobs, "gc", gc)  # among tests, a few jobs look for it
    left: list[weakref.ref[beam.PTransform]] = []
    for _ in range(3):
        job = beam.Create([1])
        left.append(weakref.ref(job))
        run_beam(job, beam_options([]), Console(quiet=True), rows=None)
        del job
    assert [one() for one in left[:2]] == [None, None]


def test_beams_options_reach_beam() -> None:
    words = "--runner=FlinkRunner --direct_num_workers 3 --setup_file ./setup.py --project p"
    options = beam_options([*words.split(), "--experiments", "x", "--experiments", "y"])
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert options.view_as(SetupOptions).setup_file == "./setup.py"
    assert options.get_all_options()["experiments"] == ["x", "y"]


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (["--bogus"], "--bogus"),
        (["--bogus=3"], "--bogus=3"),
        (["stray"], "stray"),
        (["--streaming", "stray"], "stray"),
        (["--project", "p", "--bogus", "b", "--region", "r"], "--bogus b"),
        (["--proj", "p"], "--proj p"),  # no abbreviations: they would change meaning with Beam
        (["-x"], "-x"),
    ],
)
def test_what_beam_does_not_know_is_refused(words: list[str], unknown: str) -> None:
    with pytest.raises(RequestError, match=f"unknown option: {unknown}; see"):
        beam_options(words)


@pytest.mark.parametrize("name", ["DaskRunner", "beam_pyspark_runner.PySparkRunner"])
def test_runners_that_are_known_to_be_wrong_are_refused(name: str) -> None:
    with pytest.raises(RequestError, match=r"Runner loses side outputs, .*; choose another"):
        beam_options(["--runner", name])


def test_a_mode_that_loses_rows_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^--direct_running_mode: multi_threading loses whole"):
        beam_options(["--direct_running_mode=multi_threading"])


@pytest.mark.parametrize("number", [-1, 1000])
def test_workers_that_no_machine_could_start_are_refused(number: int) -> None:
    with pytest.raises(RequestError, match=r"^--direct_num_workers: 0, for one a core, to 256$"):
        beam_options([f"--direct_num_workers={number}"])


class Unasked:
    """The result of a job whose metrics cannot be queried, as of a template or a lost service."""

    def wait_until_finish(self) -> str:
        return "DONE"

    def metrics(self) -> None:
        raise ValueError("unknown job id")


@pytest.mark.parametrize(
    ("words", "counted"),
    [([], {}), (["--template_location", "gs://bucket/template"], None)],
    ids=["finished", "template"],
)
def test_a_runner_that_cannot_be_asked_fails_nothing(words, counted, monkeypatch) -> None:
    monkeypatch.setattr(beam.Pipeline, "run", lambda _: Unasked())
    options = beam_options(words)
    assert run_beam(beam.Create([1]), options, Console(file=io.StringIO()), 1) == counted


NOWHERE = "/nowhere/server.jar"


@pytest.mark.verify
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--runner=PortableRunner", "--runner: PortableRunner has no job server: name one that"),
        (
            f"--runner=SparkRunner --spark_job_server_jar={NOWHERE}",
            "or its program with --spark_job_server_jar=JAR",
        ),
        (
            f"--runner=FlinkRunner --flink_job_server_jar={NOWHERE}",
            "or its program with --flink_job_server_jar=JAR",
        ),
        (
            f"--runner=PrismRunner --prism_location={NOWHERE}",
            "or its program with --prism_location=PROGRAM",
        ),
        (
            "--runner=SparkRunner --job_endpoint=localhost:9 --job_server_timeout=1",
            "--job_endpoint: no job server answers at localhost:9",
        ),
    ],
)
def test_a_runner_without_its_job_server_is_refused_in_one_line(words: str, told: str) -> None:
    options = beam_options(words.split())
    with pytest.raises(RequestError) as caught:
        run_beam(beam.Create([1]), options, Console(file=io.StringIO()), 1)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def _fail(_: int) -> None:
    raise RuntimeError("of the job itself")


@beam.ptransform_fn
def _failing(begin: beam.pvalue.PBegin) -> beam.PCollection:
    return begin | beam.Create([1]) | beam.Map(_fail)


def test_what_fails_in_the_job_is_not_put_down_to_its_server() -> None:
    with pytest.raises(RuntimeError, match="of the job itself"):
        run_beam(_failing(), beam_options([]), Console(file=io.StringIO()), 1)


LONG = 180  # transforms one after another


@beam.ptransform_fn
def _chain(begin: beam.pvalue.PBegin) -> beam.PCollection:
    values = begin | beam.Create([1], reshuffle=False)
    for place in range(LONG):
        values |= f"{place}" >> beam.Map(abs)
    return values


def _depth() -> int:
    """Of the calls that led here."""
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.verify
def test_a_long_pipeline_runs_within_a_short_stack() -> None:
    usual = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(_depth() + LONG - 60)  # building needs some 100
        short = sys.getrecursionlimit()
        with pytest.raises(RecursionError):
            _run_as_beam_does()
        assert run_beam(_chain(), beam_options([]), Console(file=io.StringIO()), 1) == {}
        assert sys.getrecursionlimit() == short
    finally:
        sys.setrecursionlimit(usual)


def _run_as_beam_does() -> None:
    pipeline = beam.Pipeline(options=beam_options([]))
    pipeline | _chain()
    pipeline.run()


@pytest.mark.parametrize("name", [TAKEN, LOST])
def test_what_an_earlier_run_counted_explains_nothing(name: str) -> None:
    tally(name, 1)
    with pytest.raises(RequestError, match="Unexpected pipeline runner: Walker"):
        run_beam(beam.Create([1]), beam_options(["--runner", "Walker"]), Console(), 1)
    assert live() == {}


@pytest.mark.parametrize(
    ("words", "work", "number"),
    [
        ("", 10**9, 3),
        ("", 10**6, None),
        ("--direct_num_workers=1", 10**9, None),
        ("--direct_running_mode=in_memory", 10**9, None),
        ("--direct_num_workers=2", 0, 2),
        ("--direct_running_mode multi_processing --direct_num_workers 0", 0, 3),
        ("--runner=DirectRunner", 10**9, None),
    ],
)
def test_more_than_one_core_takes_part_where_it_pays(
    words: str, work: int, number: int | None, monkeypatch
) -> None:
    monkeypatch.setattr("pipelines.jobs.run.may_fork", lambda: True)
    monkeypatch.setattr("pipelines.jobs.run.cores", lambda: 3)
    monkeypatch.setattr("pipelines.jobs.run.worker_processes", lambda number: number)
    options = beam_options(words.split())
    for _ in range(2):  # what a job comes to says nothing of the next one's
        pipeline = beam.Pipeline(options=options)
        workers = _workers(pipeline, work)
        assert (workers if isinstance(workers, int) else None) == number
        if number is not None:  # Beam starts as many as were forked
            direct = pipeline.options.view_as(DirectOptions)
            running = direct.direct_running_mode, direct.direct_num_workers
            assert running == ("multi_processing", number)


@pytest.mark.parametrize(("able", "most"), [(False, 3), (True, 1)], ids=["threads", "one core"])
def test_one_process_does_it_where_no_other_can_help(able: bool, most: int, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.jobs.run.may_fork", lambda: able)
    monkeypatch.setattr("pipelines.jobs.run.cores", lambda: most)
    pipeline = beam.Pipeline(options=beam_options([]))
    with _workers(pipeline, 10**12) as run:
        assert run(lambda: "here") == "here"
