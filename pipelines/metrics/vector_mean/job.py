"""A request for the average row, held against its input before a row is read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mechanisms import rows_planner, vector_planner
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.randomness import SecureRandom
from mechanisms.rows_planner import RowsDesign
from mechanisms.vector.base import VectorMean
from mechanisms.vector.laplace_vector import LaplaceVector
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.random_projection import MultiRphm
from mechanisms.vector.sampled import SampledCoordinates
from mechanisms.vector_planner import VectorDesign
from mechanisms.vector_target import VectorTarget
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.metrics.vector_mean.prior import read_prior
from pipelines.row_attributes import read_attributes
from pipelines.terms import cautioned, least_reports, next_to_nothing, require_proven, target_terms
from transforms.attributes import Attribute, categorical, numeric, width
from transforms.blocks import Generator

_OUTSIDE_SUBSPACE = (
    "multi_rphm estimates the row's projection on a random subspace: what lies outside of it is "
    "lost whatever the number of reports, and intervals do not cover it; --mechanism auto with "
    "--shrink has the smaller error"
)


@dataclass(frozen=True)
class VectorMeanJob:
    """Everything that is decided before a row is read.

    Attributes:
        options: what was asked.
        telemetry: the files.
        attributes: what a row consists of.
        design: the mechanism and what it guarantees.
        min_reports: the least batch that is published.
        prior: (dimension,) towards what estimates are moved, in the units of the bounds, or None.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: VectorMeanOptions
    telemetry: inputs.Telemetry
    attributes: tuple[Attribute, ...]
    design: VectorDesign | RowsDesign
    min_reports: int
    prior: NDArray[np.float64] | None = field(default=None, compare=False)
    open_rng: Generator = SecureRandom

    @property
    def mechanism(self) -> VectorMean | MixedRows:
        """What rows go through."""
        return self.design.mechanism

    @property
    def coordinates(self) -> int:
        """How many numbers a row has."""
        return width(self.attributes)

    @property
    def sampled(self) -> SampledCoordinates | None:
        """What chooses coordinates, if few of them are reported; else whole rows travel."""
        mechanism = self.mechanism
        if isinstance(mechanism, SampledCoordinates) and not isinstance(mechanism, LaplaceVector):
            return mechanism
        return None

    @property
    def picked(self) -> Mechanism | None:
        """What perturbs the coordinates that were picked, or None where whole rows travel."""
        sampled = self.sampled
        return None if sampled is None else PublicGroups(sampled.mechanism, sampled.dimension)

    @property
    def radius(self) -> float | None:
        """How long a row may be, on the scale of [-1, 1], or None if that does not matter."""
        radius: float | None = getattr(self.mechanism, "radius", None)
        return radius

    @property
    def worst_variance(self) -> float:
        """The largest variance of a number of one decoded report, on the scale of [-1, 1]."""
        mechanism = self.mechanism
        if isinstance(mechanism, MixedRows):
            return float(np.max(mechanism.variances))
        return mechanism.worst_variance

    @property
    def messages(self) -> int:
        """How many messages a user sends."""
        return int(self.mechanism.messages)

    @property
    def low(self) -> NDArray[np.float64]:
        """(dimension,) the lower bound of each coordinate."""
        return self._bounds[:, 0]

    @property
    def half(self) -> NDArray[np.float64]:
        """(dimension,) half the distance between the bounds of each coordinate."""
        return np.asarray(self._bounds[:, 1] / 2 - self._bounds[:, 0] / 2)

    @property
    def _bounds(self) -> NDArray[np.float64]:
        found = numeric(self.attributes)
        ends = np.array([each.bounds for each in found], np.float64)
        return np.repeat(ends, [each.width for each in found], axis=0)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""
        return self.design.release, self.design.local

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        reports = self.min_reports if self.options.model == "shuffle" else self.telemetry.rows
        release = self.guarantees[0]
        told = cautioned(release.delta, reports) + next_to_nothing(release.epsilon)
        return told + ([_OUTSIDE_SUBSPACE] if isinstance(self.mechanism, MultiRphm) else [])


def prepare(
    options: VectorMeanOptions,
    open_rng: Generator = SecureRandom,
    given: inputs.Given = inputs.ALONE,
) -> VectorMeanJob:
    """Check a request against its input and choose the mechanism; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    _require_sense(options)
    telemetry = given.open(options.input, options.output)
    attributes = read_attributes(options.number, options.vector, options.category, telemetry)
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    _require_numbers(options, attributes)
    prior = None if options.prior is None else read_prior(options.prior, width(attributes))
    least = least_reports(options, options.model, telemetry.rows)
    try:
        design = _design(options, least, attributes)
        job = VectorMeanJob(options, telemetry, attributes, design, least, prior, open_rng)
        released = job.guarantees[0]
    except ValueError as error:
        raise RequestError(str(error)) from None
    require_proven(options, released)
    return job


def _require_sense(options: VectorMeanOptions) -> None:
    """Refuse options that do not go together, or that belong to one column of numbers."""
    for name in ("column", "bounds", "cells"):
        if getattr(options, name):
            raise RequestError(f"--{name} is no option here; say --number or --vector with bounds")
    if (options.shrink == "prior") != (options.prior is not None):
        raise RequestError(
            "--shrink prior and --prior go together: name the file that holds a number for each "
            "coordinate"
        )


def _require_numbers(options: VectorMeanOptions, attributes: tuple[Attribute, ...]) -> None:
    """Refuse rows without numbers, and what does not serve categories."""
    if not width(attributes):
        raise RequestError(
            "--number or --vector is missing: categories alone are what `hushbeam histogram` is for"
        )
    if categorical(attributes) and (options.mechanism != "auto" or options.radius is not None):
        raise RequestError(
            "--category: with categories leave --mechanism at auto, and out --radius; the numbers "
            "then go through the best mean mechanism, the categories through the best oracle"
        )


def _design(
    options: VectorMeanOptions, least: int, attributes: tuple[Attribute, ...]
) -> VectorDesign | RowsDesign:
    categories = categorical(attributes)
    target = VectorTarget(
        **target_terms(options, options.model, least, options.unit),
        dimension=width(attributes) + len(categories),
        radius=options.radius,
    )
    if categories:
        sizes = [None] * width(attributes) + [each.size for each in categories]
        return rows_planner.design_rows(target, sizes)
    return vector_planner.design(target, options.mechanism)
