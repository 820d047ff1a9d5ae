"""Systems for the distribution of one number a user: one report each, or counters of a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushbeam.studies.engine.cells import FigureLine
from hushbeam.studies.papers.one_number import CurrentStatus, NearestValues
from hushbeam.studies.populations.numbers import NumberPopulation
from hushbeam.studies.systems.bins import UniformBins
from hushbeam.studies.systems.curves import DistributionCurve
from mechanisms.channel import Counts, Floats, Mechanism
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.tree import Tree
from mechanisms.distribution.fitting import default_bins, design
from mechanisms.mean.task import MeanTask
from mechanisms.mean.widths import noise
from mechanisms.mean.window import Window
from mechanisms.postprocess import expectation_maximisation
from mechanisms.postprocess.channel_products import ChannelProducts, Dense
from mechanisms.privacy.budget import largest_shuffled
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.metrics.counting.shapes.tree import BY_JOB, SHAPES, fitted_shares, on_average

_FINE = 1024  # bins of the range, or cells of it, that papers' mechanisms tell apart
_BINS = 1024  # of counters, as `hushbeam distribution` has them

Draw = Callable[[NumberPopulation, SeededRandom], DistributionCurve]


class Fitted(NamedTuple):
    """A system that meets a target.

    Attributes:
        spent: epsilon of one report, by enumeration of its channel; None where a release alone is
            private.
        bins: of the estimate.
        draw: simulates a release.
    """

    spent: float | None
    bins: int
    draw: Draw


Build = Callable[[str, int, float, float], Fitted]
"""(model, users, epsilon, delta) -> the system; a ValueError says why there is none."""


def _places(values: Floats, bins: int) -> NDArray[np.int64]:
    """The equal bins of [-1, 1] that numbers lie in; 1 is in the last."""
    return np.minimum(((values + 1) / 2 * bins).astype(np.int64), bins - 1)


def _met(
    family: Callable[[float], Mechanism], model: str, n: int, epsilon: float, delta: float
) -> Any:
    """The mechanism whose report spends epsilon, or as much as a shuffled batch of n lets it."""
    if model == "local":
        return family(epsilon)
    return family(largest_shuffled(epsilon, delta, n, family))


def _counted(mechanism: Any, population: NumberPopulation, rng: SeededRandom, cells: Any) -> Counts:
    """Let everybody report, some at a time, and count the reports."""
    counts = np.zeros(mechanism.codes, np.int64)
    for values in population.blocks():
        counts += mechanism.count(mechanism.perturb(cells(values), rng))
    return counts


# ---- published, one report ---------------------------------------------------------------------


def _square_wave(smooth: bool) -> Build:
    """NM with expectation maximisation, smoothed or not."""

    def build(model: str, n: int, epsilon: float, delta: float) -> Fitted:
        wave: Window = _met(partial(noise, cells=_FINE), model, n, epsilon, delta)
        channel = UniformBins(wave.law.products, min(expectation_maximisation.bins_for(n), _FINE))

        def draw(population: NumberPopulation, rng: SeededRandom) -> DistributionCurve:
            counts = _counted(wave, population, rng, lambda values: wave.encode(values, rng))
            return DistributionCurve.of(_likeliest(counts, channel, smooth))

        return Fitted(tight_epsilon(wave), channel.bins, draw)

    return build


def _nearest(make: Callable[[float, int], NearestValues], coarse: bool, em: bool | None) -> Build:
    """OGPM or BRR: the shares of the reports, or expectation maximisation, smoothed or not.

    Args:
        make: (epsilon, values) -> the mechanism.
        coarse: whether users round to the bins of the estimate, and not to a fine grid.
        em: whether it is smoothed; None for the reports as they are.
    """

    def build(model: str, n: int, epsilon: float, delta: float) -> Fitted:
        bins = min(expectation_maximisation.bins_for(n), _FINE)
        values = bins if coarse else _FINE
        nearest = _met(lambda spent: make(spent, values), model, n, epsilon, delta)
        whole = Dense.of(nearest).matrix
        channel = Dense(whole.reshape(values, bins, -1).mean(axis=2))

        def draw(population: NumberPopulation, rng: SeededRandom) -> DistributionCurve:
            counts = _counted(nearest, population, rng, lambda own: _places(own, values))
            if em is None:
                return DistributionCurve.of(nearest.estimate(counts))
            return DistributionCurve.of(_likeliest(counts, channel, em))

        return Fitted(tight_epsilon(nearest), values if em is None else bins, draw)

    return build


def _likeliest(counts: Counts, channel: ChannelProducts, smooth: bool) -> Floats:
    """The shares of bins by expectation maximisation."""
    return expectation_maximisation.fit(
        counts, channel, smooth=smooth, accelerate=not smooth
    ).distribution


def _status(model: str, n: int, epsilon: float, delta: float) -> Fitted:
    """One threshold a user, and isotonic regression."""
    status = _met(lambda spent: CurrentStatus(spent, _FINE), model, n, epsilon, delta)

    def draw(population: NumberPopulation, rng: SeededRandom) -> DistributionCurve:
        counts = _counted(status, population, rng, lambda own: _places(own, _FINE))
        return DistributionCurve(np.linspace(-1, 1, _FINE + 1), status.likeliest(counts))

    return Fitted(tight_epsilon(status), _FINE, draw)


# ---- the product's -------------------------------------------------------------------------------


def _report(name: str) -> Build:
    """What `hushbeam distribution --drawn-by each-report --mechanism NAME` publishes."""

    def build(model: str, n: int, epsilon: float, delta: float) -> Fitted:
        target = Target(model, epsilon, delta if model == "shuffle" else 0.0, n, MeanTask())
        planned = design(target, default_bins(n), n, name)
        mechanism, rounding = planned.design.mechanism, planned.rounding
        collector = planned.estimator()

        def draw(population: NumberPopulation, rng: SeededRandom) -> DistributionCurve:
            counts = _counted(mechanism, population, rng, lambda own: rounding.encode(own, rng))
            summary = collector.summarise(counts)
            return DistributionCurve.of(summary.estimate, summary.edges)

        return Fitted(tight_epsilon(mechanism), planned.bins, draw)

    return build


def _tree(
    meeting: Callable[[Sequence[Level], int, float, float], Any],
    shapes: Sequence[tuple[int, float]],
) -> Build:
    """A tree of counters over bins, of the shape that errs least; how many users is public."""

    def build(model: str, n: int, epsilon: float, delta: float) -> Fitted:
        candidates = []
        for fanout, growth in shapes:
            tree = Tree.uniform(_BINS, fanout, growth)
            made = meeting(tree.levels, n, epsilon, delta)
            candidates.append((on_average(tree, made.variances), tree, made))
        _, tree, made = min(candidates, key=lambda candidate: candidate[0])

        def draw(population: NumberPopulation, rng: SeededRandom) -> DistributionCurve:
            places = _places(population.values, _BINS)
            leaves = np.bincount(places, population.histogram, tree.leaves).astype(np.int64)
            sums = [leaves.reshape(-1, size).sum(axis=1) for size in tree.sizes[1:]]
            exact = np.zeros(made.layout.codes, np.int64)
            exact[: made.layout.starts[-1]] = np.concatenate(sums)
            noisy = made.noisy if isinstance(made, JobTotals) else made.simulate
            counts = made.centred(noisy(exact, rng))
            cells = tree.estimate(counts, made.variances, total=population.n)
            below = np.concatenate([[0.0], np.cumsum(cells) / population.n])
            return DistributionCurve(np.linspace(-1, 1, _BINS + 1), fitted_shares(below[None])[0])

        return Fitted(None, _BINS, draw)

    return build


def _by_devices(levels: Sequence[Level], n: int, epsilon: float, delta: float) -> DeviceCounters:
    return DeviceCounters.meeting(levels, "replace", epsilon, delta, n, honest_share=1.0)


@dataclass(frozen=True)
class DistributionSystem:
    """What a name stands for.

    Attributes:
        models: that it serves, the usual one first.
        build: makes it.
    """

    models: Sequence[str]
    build: Build


_EITHER = ("local", "shuffle")

SYSTEMS: Mapping[str, DistributionSystem] = {
    "nm-em": DistributionSystem(_EITHER, _square_wave(smooth=False)),
    "nm-ems": DistributionSystem(_EITHER, _square_wave(smooth=True)),
    "ogpm": DistributionSystem(_EITHER, _nearest(NearestValues.piecewise, False, None)),
    "ogpm-em": DistributionSystem(_EITHER, _nearest(NearestValues.piecewise, False, False)),
    "ogpm-ems": DistributionSystem(_EITHER, _nearest(NearestValues.piecewise, False, True)),
    "brr": DistributionSystem(_EITHER, _nearest(NearestValues.bipartite, True, None)),
    "brr-em": DistributionSystem(_EITHER, _nearest(NearestValues.bipartite, True, False)),
    "status": DistributionSystem(_EITHER, _status),
    **{
        f"report-{name}": DistributionSystem(_EITHER, _report(name))
        for name in ("nm", "grr", "projective")
    },
    "shuffler": DistributionSystem(
        ("shuffle",),
        _tree(lambda levels, n, *target: Counters.meeting(levels, "replace", *target), SHAPES),
    ),
    "devices": DistributionSystem(("shuffle",), _tree(_by_devices, SHAPES)),
    "job": DistributionSystem(
        ("central",),
        _tree(lambda levels, n, *target: JobTotals.meeting(levels, "replace", *target), BY_JOB),
    ),
}
"""Name -> what users send, and what is made of it."""

SETS = {
    "published": ("nm-em", "nm-ems", "ogpm", "ogpm-em", "ogpm-ems", "brr", "brr-em", "status"),
    "product": ("report-nm", "shuffler", "devices", "job"),
}


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request.

    Args:
        names: NAME or NAME@MODEL each, where NAME is a system or a set of them; of a set those are
            taken that serve the model.

    Raises:
        RequestError: a name or a model is unknown, or they do not go together.

    >>> [str(line) for line in lines(["job", "status@shuffle"])]
    ['job', 'status@shuffle']
    """
    return tuple(dict.fromkeys(line for name in names for line in _expanded(name)))


def _expanded(text: str) -> list[FigureLine]:
    """The lines of one word."""
    name, at, model = text.partition("@")
    if name not in (*SETS, *SYSTEMS):
        known = ", ".join([*SETS, *SYSTEMS])
        raise RequestError(f"--systems: unknown system {name!r}; there are: {known}")
    members = [one for one in SETS.get(name, (name,)) if not at or model in SYSTEMS[one].models]
    if not members:
        raise RequestError(f"--systems: {name} does not serve the {model} model")
    made = []
    for member in members:
        usual = SYSTEMS[member].models[0]
        own = model or usual
        label = member if own == usual else f"{member}@{own}"
        reference = own == "central"
        made.append(FigureLine(member, "exact", own, label=label, reference=reference))
    return made
