"""A step that runs again publishes the same: a sink sees one draw, whatever fails behind it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue

import hushbeam.beam as private
from mechanisms.randomness import SeededRandom, keyed_random
from pipelines.metrics.metric import Content
from pipelines.metrics.release import PublishDoFn
from tests.fakes.retrying import FailOnceDoFn, SinkDoFn, retrying
from transforms.collector.collect_counts import Counted
from transforms.elements.drawing import NoiseDoFn

ROWS = [beam.Row(user=f"u{i}", city="Oslo", t=3600 * (i % 2)) for i in range(100)]
SPAN = ("1970-01-01T00:00", "1970-01-01T03:00")


def stamped(row: Any) -> Any:
    return TimestampedValue(row, row.t)


def told(figure: beam.Row) -> tuple[Any, ...]:
    return figure.metric, figure.window, figure.value, figure.estimate, figure.release_id


def published(
    transform: Any, folder: Path, *, windows: bool = False, runner: str = "FnApiRunner"
) -> list[str]:
    """What a sink saw, before a step behind it failed and after."""
    with beam.Pipeline(runner) as pipeline:
        rows = pipeline | beam.Create(ROWS)
        if windows:
            stamp = beam.Map(stamped).with_output_types(rows.element_type)
            rows = rows | stamp | beam.WindowInto(FixedWindows(3600))
        _ = (
            rows
            | transform
            | beam.Map(told)
            | "Sink" >> beam.ParDo(SinkDoFn(folder / "sink"))
            | "Fail" >> beam.ParDo(FailOnceDoFn(folder / "failed"))
        )
    return (folder / "sink").read_text().splitlines()


def test_a_retried_step_publishes_the_same_count(tmp_path: Path) -> None:
    with retrying() as failures:
        seen = published(private.Count(user="user", epsilon=0.01), tmp_path)
    assert len(failures) == 1
    assert "does not answer" in failures[0]
    assert len(seen) == 2
    # Noise of a standard deviation of 141: two draws are alike with probability 0.003.
    assert len({*seen}) == 1


def test_in_windows_too(tmp_path: Path) -> None:
    count = private.Count(by="city", values=["Oslo", "Rome"], user="user", epsilon=0.01, span=SPAN)
    with retrying():
        seen = published(count, tmp_path, windows=True)
    assert len({*seen}) == 9
    assert len(seen) > 9
    noise = Counter(line.rsplit(",", 2)[1] for line in {*seen})
    assert len(noise) >= 7  # each window, and each value of it, has noise of its own


@pytest.mark.parametrize("mean", [private.Mean("t", (0, 3600), user="user", epsilon=0.1)])
def test_numbers_that_are_rounded_at_random_are_released_once(mean: Any, tmp_path: Path) -> None:
    with retrying():
        seen = published(mean, tmp_path)
    assert (len(seen), len({*seen})) == (2, 1)


def test_the_commands_own_step_draws_once(
    tmp_path: Path, run: Any, beams_runner: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the step that writes a release is handed before it fails, and after, is the same."""
    seen: list[pa.Table] = []
    usual = PublishDoFn.process

    def careless(self: PublishDoFn, content: Content) -> None:
        seen.append(content.files["count.parquet"])
        if len(seen) == 1:
            raise OSError("a folder that does not answer")
        usual(self, content)

    monkeypatch.setattr(PublishDoFn, "process", careless)
    pq.write_table(pa.table({"user": [row.user for row in ROWS]}), tmp_path / "log.parquet")
    words = ["--input", str(tmp_path / "log.parquet"), "--epsilon", "0.01", "--output"]
    with retrying() as failures:
        outcome = run(["count", *words, str(tmp_path / "out")])
    assert (outcome.code, len(failures)) == (0, 1), outcome.said
    assert len(seen) == 2
    assert seen[0].column("estimate").equals(seen[1].column("estimate"))


def test_the_secret_is_in_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn while the job runs: of what is written down before nothing is drawn."""
    drawn: list[int] = []
    usual = SeededRandom.words
    monkeypatch.setattr(
        SeededRandom, "words", lambda self, size: drawn.append(size) or usual(self, size)
    )
    pipeline = beam.Pipeline("FnApiRunner")
    budget = private.Budget(1.0, open_rng=lambda: SeededRandom(5))
    with budget:
        _ = pipeline | beam.Create(ROWS) | private.Count(user="user", budget=budget)
    pipeline.to_runner_api()
    assert drawn == []
    pipeline.run().wait_until_finish()
    assert 4 in drawn


def test_two_metrics_of_the_same_totals_have_noise_of_their_own() -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(ROWS)
        with private.Budget(0.01) as budget:
            for name in ("one", "other"):
                count = private.Count(user="user", budget=budget, name=name)
                _ = rows | name >> count | f"Keep {name}" >> beam.Map(_append)
    assert len(_KEPT) == 2
    one, other = _KEPT
    _KEPT.clear()
    assert one != other


_KEPT: list[float] = []


def _append(figure: beam.Row) -> None:
    _KEPT.append(figure.estimate)


def test_other_totals_have_other_noise() -> None:
    """Rows that were chosen anew come to other totals: their difference must not show exactly."""
    step = NoiseDoFn(lambda counted, rng: int(counted.counts[0]) + int(rng.words(1)[0]), "count")
    totals = [Counted(np.array([total]), 0, 0) for total in (100, 100, 101)]
    first, again, other = (next(step.process(total, bytes(32), GlobalWindow())) for total in totals)
    assert first == again
    assert other != first + 1


def test_streams_of_other_names_differ() -> None:
    names = [(b"a", b"b"), (b"ab", b""), (b"", b"ab"), (b"a", b"b", b""), (b"b", b"a")]
    words = [keyed_random(bytes(32), *name).words(2).tobytes() for name in names]
    assert len({*words}) == len(names)
    assert words == [keyed_random(bytes(32), *name).words(2).tobytes() for name in names]
    assert keyed_random(bytes([1] * 32), *names[0]).words(2).tobytes() != words[0]
    with pytest.raises(ValueError, match="32 bytes"):
        keyed_random(b"short", b"a")
