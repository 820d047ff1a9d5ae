"""`hushbeam evaluate histogram`: the errors of histogram systems."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from mechanisms import planner
from mechanisms.central.histogram import CentralHistogram
from mechanisms.channel import Counts
from mechanisms.planner import Design
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.simulation import simulate
from mechanisms.target import Target
from pipelines.evaluate import data as evaluate_data
from pipelines.evaluate.cells import Cell
from pipelines.evaluate.comparison import Evaluation, Study, evaluate
from pipelines.evaluate.lines import lines, planned
from pipelines.evaluate.results import Measure
from pipelines.requests import request

MSE = Measure("mse", "mean squared error of a share")

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # values
        ("system", pa.string()),
        ("bound", pa.string()),  # exact or published
        ("model", pa.string()),  # shuffle, central or local
        ("epsilon", pa.float64()),  # asked of the release
        ("delta", pa.float64()),  # asked of the release in the shuffle model
        ("design", pa.string()),  # the mechanism; another name than the system's for "best" only
        ("repetition", pa.int64()),
        ("mse", pa.float64()),  # mean squared error of a share as released
        ("mse_unbiased", pa.float64()),  # the same straight from the counts
        ("max_error", pa.float64()),  # of a share as released
        ("messages", pa.float64()),  # of a user, on average
        ("bits", pa.float64()),  # of a user, on average
        ("seconds", pa.float64()),  # CPU time of the simulated release
        ("true_epsilon", pa.float64()),  # of the release by the exact accountant
        ("local_epsilon", pa.float64()),  # of one report; null where nothing bounds it
        ("predicted_mse", pa.float64()),  # of mse_unbiased, in closed form
    ]
)


class HistogramEvaluation(Evaluation):
    """What a person wants compared."""

    systems: tuple[str, ...] = Field(min_length=1)
    bound: Literal["exact", "published", "both"] = "exact"
    data: tuple[str, ...] = Field(min_length=1)
    max_messages: float = Field(1.0, ge=1)
    honest_share: float = Field(0.9, gt=0, le=1)


@dataclass(frozen=True)
class HistogramExperiment:
    """Simulated histogram releases of known populations.

    Attributes:
        histograms: data set -> (d,) how many users hold each value.
        max_messages: as `Target.max_messages`.
        honest_share: as `Target.honest_share`.
    """

    histograms: Mapping[str, Counts]
    max_messages: float
    honest_share: float

    def fit(self, cell: Cell) -> Fitted:
        """The system's best parameters for a cell."""
        histogram = self.histograms[cell.data]
        target = Target(
            model=cell.line.model,
            epsilon=cell.epsilon,
            delta=cell.delta if cell.line.model == "shuffle" else 0.0,
            n=int(histogram.sum()),
            domain_size=histogram.size,
            max_messages=self.max_messages,
            honest_share=self.honest_share,
            bound=cell.line.bound,
        )
        return Fitted(planner.design(target, planned(cell.line)))

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """What a design costs and guarantees."""
        return fitted.known

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """The errors of one release."""
        histogram = self.histograms[cell.data]
        truth = histogram / histogram.sum()
        unbiased, released = simulate(fitted.design, histogram, rng)
        return {
            "mse": float(np.mean((released - truth) ** 2)),
            "mse_unbiased": float(np.mean((unbiased - truth) ** 2)),
            "max_error": float(np.abs(released - truth).max()),
        }


@dataclass(frozen=True)
class Fitted:
    """A design, and what is computed of it once."""

    design: Design

    @cached_property
    def known(self) -> dict[str, Any]:
        design = self.design
        local = design.local.epsilon
        return {
            "design": design.name,
            "messages": float(design.messages),
            "bits": float(design.messages * design.bits),
            "true_epsilon": self.true_epsilon,
            "local_epsilon": local if local < math.inf else None,
            "predicted_mse": float(design.mean_squared_error),
        }

    @property
    def true_epsilon(self) -> float:
        """What the release costs by the exact accountant, whatever a paper's bound says."""
        target, mechanism = self.design.target, self.design.mechanism
        if target.bound == "published" and not isinstance(mechanism, CentralHistogram):
            return shuffled_epsilon(mechanism, target.n, target.delta)[1]
        return self.design.release.epsilon


def run(asked: Mapping[str, Any]) -> int:
    """Compare systems, and leave a folder with the results.

    Args:
        asked: option -> what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its data are wrong, or no system can serve any of it.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    options = request(HistogramEvaluation, asked)
    chosen = lines(options.systems, options.bound)
    data = evaluate_data.read_all(options.data)
    histograms = {each.name: each.histogram for each in data}
    experiment = HistogramExperiment(histograms, options.max_messages, options.honest_share)
    identity = {"--max-messages": options.max_messages, "--honest-share": options.honest_share}
    return evaluate(options, Study(experiment, data, chosen, COLUMNS, (MSE,), identity))
