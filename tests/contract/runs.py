"""Forms run as commands, again and again, and their figures held to the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pipelines.cli import cli
from pipelines.metrics import registry
from pipelines.views import report
from tests.contract import examples
from tests.contract.laws import ANY, LAPLACE_FAR, NORMAL, NORMAL_FAR, limits, most_outside
from tests.contract.truth import Key, Log, Truth
from tests.fakes import canaries
from tests.fakes.repeating import RUNNER, repeated, seeded
from transforms.elements import blocks

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Figures:
    """One column of estimates over repetitions; rows are repetitions, columns figures.

    Attributes:
        truth: what it should be.
        keys: (figures,) of each.
        true: (figures,).
        estimate: (repetitions, figures).
        error: the stated ones, likewise; None where none are.
        intervals: "interval" or "joint" -> (lower, upper), likewise.
    """

    truth: Truth
    keys: Sequence[Key]
    true: NDArray[Any]
    estimate: NDArray[Any]
    error: NDArray[Any] | None
    intervals: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]


def write_inputs(folder: Path, log: pa.Table) -> None:
    """The log, and the files of declared values, for commands that run in the folder."""
    pq.write_table(log, folder / "log.parquet", row_group_size=1000)
    for name, text in examples.FILES.items():
        (folder / name).write_text(text)


def words(kind: str, asked: Mapping[str, Any], output: str) -> list[str]:
    """What is typed."""
    asked = {"input": "log.parquet", "output": output, **asked}
    repeat = {name: asked.pop(name) for name in ("number", "steps") if name in asked}
    typed = canaries.words(kind, asked)
    return typed + [f"--{name}={one}" for name, several in repeat.items() for one in several]


@contextmanager
def figures_alone() -> Iterator[None]:
    """Without pages, and with users in few buckets: both took half the time of a repetition.

    Neither has to do with the figures; test_surfaces.py and test_ways.py hold pages to them.
    """
    begin = blocks.PartitionDoFn.__init__

    def in_few(self: Any, buckets: int, *more: Any) -> None:
        begin(self, min(buckets, 4), *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "page", lambda *_: b"")
        patch.setattr(blocks.PartitionDoFn, "__init__", in_few)
        yield


def repeat(kind: str, asked: Mapping[str, Any], times: int, seed: object) -> list[Path]:
    """The releases of one command whose job is run so many times."""
    keep = repeated(times, lambda number: Path("out").rename(f"out-{number}"))
    with seeded(seed), figures_alone() if times > 1 else nullcontext(), keep:
        code = cli.main([*words(kind, asked, "out"), RUNNER])
    assert code == 0, f"{kind} {asked}: exit {code}"
    Path("out").rename(f"out-{times - 1}")
    return [Path(f"out-{number}") for number in range(times)]


def repeat_totals(kind: str, asked: Mapping[str, Any], times: int, seed: object) -> list[Path]:
    """The second window's release of so many running totals, of two windows: the whole log."""
    whole = pq.read_table("log.parquet")
    for window, rows in (("one", whole.slice(0, 1000)), ("two", whole.slice(1000))):
        pq.write_table(rows, f"{window}.parquet")
    releases = []
    for number in range(times):
        Path("totals.yaml").write_text(
            plan(
                [("m", kind, asked)], input="{window}.parquet", output=f"totals-{number}/{{window}}"
            )
        )
        for window in ("one", "two"):
            with seeded((seed, number, window)):
                code = cli.main(["run", "totals.yaml", "--window", window])
            assert code == 0, f"{kind} {asked}: exit {code}"
        releases.append(Path(f"totals-{number}/two/m"))
    return releases


_OF_PLAN = ("epsilon", "user_column")


def plan(metrics: Sequence[tuple[str, str, Mapping[str, Any]]], **said: Any) -> str:
    """A plan of (name, kind, options); JSON is YAML."""
    shared = {name: metrics[0][2][name] for name in _OF_PLAN if name in metrics[0][2]}
    if "user_column" in shared:
        shared["unit"] = "user"
    # What looks back is told its day by the window's name.
    left = {*_OF_PLAN} | {"day" for _, kind, _ in metrics if registry.options(kind).looks_back}
    listed = [
        {
            "name": name,
            "kind": kind,
            **{n: _plain(v) for n, v in asked.items() if n not in left},
        }
        for name, kind, asked in metrics
    ]
    return json.dumps({"collection": "c", "version": 1, **shared, **said, "metrics": listed})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def independent(truth: Truth) -> int:
    """How many independent errors a release has."""
    return 1 if truth.shared else len(truth.of(examples.columns()))


def require_true(truths: Sequence[Truth], releases: Sequence[Path]) -> None:
    """All that repetitions of a form must hold."""
    said = statement(releases[0])
    log, normal = examples.columns(), said.get("request", {}).get("model") in ("local", "shuffle")
    totals = said["mechanism"]["name"] == "job-totals" or "drawn_by" in said["mechanism"]
    normal = normal and not totals
    for truth in truths:
        figures = read(truth, log, releases)
        require_near(figures, normal)
        require_lawful(figures, normal)


def read(truth: Truth, log: Log, releases: Sequence[Path]) -> Figures:
    """The figures of releases, each where its key says it is."""
    true = truth.of(log)
    columns: dict[str, list[NDArray[Any]]] = {}
    pairs = {"interval": truth.interval, "joint": truth.joint}
    wanted = {"estimate": truth.estimate, "error": truth.error}
    for name, pair in pairs.items():
        low, high = pair or (None, None)
        wanted |= {f"{name} low": low, f"{name} high": high}
    needed = {name: column for name, column in wanted.items() if column is not None}
    for release in releases:
        table = pq.ParquetFile(release / truth.table).read([*truth.keys, *needed.values()])
        named = [map(label, table[name].to_pylist()) for name in truth.keys]
        keys = list(zip(*named, strict=True))
        assert sorted(map(str, keys)) == sorted(map(str, true)), (
            f"{truth.table}: labels {set(keys) ^ true.keys()} are there or true, and not both"
        )
        places = {key: place for place, key in enumerate(keys)}
        rows = [places[key] for key in true]
        for name, column in needed.items():
            columns.setdefault(name, []).append(table[column].to_numpy()[rows])
    arrays = {name: np.array(rows, float) for name, rows in columns.items()}
    found = {n: (arrays[f"{n} low"], arrays[f"{n} high"]) for n, pair in pairs.items() if pair}
    if truth.table == "quantiles.parquet":  # an end is open where numbers were clipped
        found = {
            n: (np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))
            for n, (low, high) in found.items()
        }
    values = np.array(list(true.values()), float)
    return Figures(truth, list(true), values, arrays["estimate"], arrays.get("error"), found)


def label(value: Any) -> str | None:
    """A label as text; numbers as nine digits tell them apart."""
    return f"{value:.9g}" if isinstance(value, float) else value


def require_near(figures: Figures, normal: bool) -> None:
    """No figure is farther off than chance takes one in 10^12; none is outside its interval."""
    where = f"{figures.truth.table}: {figures.truth.estimate}"
    assert np.isfinite(figures.estimate).all(), f"{where}: not finite"
    if figures.error is not None:
        assert np.isfinite(figures.error).all(), f"{where}: a standard error is not finite"
        off = np.abs(figures.estimate - figures.true)
        far = off > (NORMAL_FAR if normal else LAPLACE_FAR) * figures.error + 1e-9 * figures.true
        worst = [figures.keys[k] for k in np.flatnonzero(far.any(axis=0))[:3]]
        assert not far.any(), f"{where}: far from the truth: {worst}"
    for name, (lower, upper) in figures.intervals.items():
        assert (lower <= upper).all(), f"{where}: {name}s are upside down"
        if figures.truth.within:
            slack = 1e-9 * np.abs(figures.estimate) + 1e-15
            inside = (lower <= figures.estimate + slack) & (figures.estimate <= upper + slack)
            assert inside.all(), f"{where}: {np.mean(~inside):.1%} outside of their own {name}s"


def require_lawful(figures: Figures, normal: bool) -> None:
    """Over repetitions errors are what is stated, and intervals cover as often as is stated."""
    where = f"{figures.truth.table}: {figures.truth.estimate}"
    times, each = figures.estimate.shape
    looked_at = np.ones((times, each), bool)
    if figures.truth.shared:  # one of each release, another one each time
        looked_at[:] = False
        looked_at[np.arange(times), np.arange(times) * 7919 % each] = True
    if figures.error is not None:
        errors = np.abs(figures.estimate - figures.true)[looked_at]
        stated = figures.error[looked_at]
        if (drawn := (stated > 0) | (errors > 1e-9)).any():
            ratio = float(np.mean(errors[drawn] / np.maximum(stated[drawn], 1e-12)))
            low, high = limits(int(drawn.sum()), NORMAL if normal else ANY)
            assert ratio < high, f"{where}: errors are {ratio:.2f} of the standard error, not 0.8"
            if not figures.truth.processed:
                assert ratio > low, f"{where}: errors are {ratio:.2f} of the standard error"
    for name, (lower, upper) in figures.intervals.items():
        slack = 1e-9 * np.abs(figures.true) + 1e-15
        outside = (figures.true < lower - slack) | (figures.true > upper + slack)
        missed = outside[looked_at] if name == "interval" else outside.any(axis=1)
        assert missed.sum() <= most_outside(missed.size, CONFIDENCE), (
            f"{where}: {name}s miss the truth in {missed.sum()} of {missed.size}"
        )


def statement(release: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((release / "statement.json").read_text("utf-8"))
    return said
