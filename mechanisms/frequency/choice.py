"""What is published in the place of unbiased shares: post-processing that costs no privacy.

The nearest histogram (POP) is excellent where values stand out of the noise, and far worse than
saying "all alike" where none does: it then hands everything to the few whose noise was largest.
Which of several rules errs least is estimated without bias, from the unbiased shares alone.

Each share moved to where the others say that such estimates come from.

The law of the true shares is fitted to all unbiased estimates at once; what is published of each
is its expectation given its own estimate. Where a few values stand out of thousands of rare ones
no other of our rules comes near: heads stay where they are, and the rest becomes alike.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.risk import Candidate, Errors
from mechanisms.postprocess.shrinkage import to_mean
from mechanisms.postprocess.simplex import project

_FOLDS = 4  # a share has no say in the law that it is held against, so that risks are unbiased
_BULK = 10.0  # standard deviations up to which the shares that are thought of lie densely
_DENSE, _SPARSE = 96, 160  # how many there are, and how many beyond
_AROUND = np.linspace(-6.0, 6.0, 17)  # standard deviations from them at which means are computed
_EVENLY = 512  # and as many more, from the least estimate to the largest
_TOGETHER = 512  # places at a time
_ITERATIONS = 40
_IMPOSSIBLE = 1e-200  # likelihood: thirty standard deviations from all shares that are thought of
AUTO = "auto"

_FEWEST = 8  # values: below, a choice goes wrong so often that it costs more than it saves
_CLEARLY = 1.5  # standard deviations by which a rule must seem better than a simpler one
_FEWEST_OF = {"empirical-bayes": 64}  # values, for a law to be fitted to
_AT_MOST = 0.1  # of the noise: the most that such caution may cost


def empirical_bayes(unbiased: Floats, errors: Errors) -> Candidate:
    """The posterior means.

    Args:
        unbiased: (d,) shares that add up to 1.
        errors: of them.

    Returns:
        What is published: nonnegative, adding up to 1.

    Source: Robbins, "An empirical Bayes approach to statistics", Berkeley Symposium 1956; the law
        of greatest likelihood by expectation maximisation over a grid: Jiang, Zhang, "General
        maximum likelihood empirical Bayes estimation of normal means", Annals of Statistics 2009.
    """
    fold = np.arange(unbiased.size) % _FOLDS
    tables = [_means(unbiased[fold != one], unbiased, errors) for one in range(_FOLDS)]

    def plain(estimates: Floats) -> Floats:
        means = np.empty_like(estimates)
        for one, (places, table) in enumerate(tables):
            means[one::_FOLDS] = np.interp(estimates[one::_FOLDS], places, table)
        return means

    total = float(plain(unbiased).sum())
    shares = plain(unbiased) / total
    return Candidate("empirical-bayes", shares, lambda y: plain(y) / total, 1 - shares)


def _means(others: Floats, unbiased: Floats, errors: Errors) -> tuple[Floats, Floats]:
    """Places, ascending, and the posterior means of estimates that lie there."""
    deviation = float(np.sqrt(errors.variance.mean()))
    shares = _grid(others, unbiased.size, deviation)
    # Means are tabulated, so that their number does not grow with that of the values.
    evenly = np.linspace(unbiased.min(), unbiased.max(), _EVENLY)
    around = (shares[:, None] + deviation * _AROUND).ravel()
    places = np.unique(np.concatenate([around, evenly]))
    nearest = np.searchsorted((places[1:] + places[:-1]) / 2, others)
    counts = np.bincount(nearest, minlength=places.size)
    occupied = counts > 0
    law = _fitted(errors.likelihood(places[occupied, None] - shares), counts[occupied])
    # What nothing else is like stays where it is: one value of all may be anywhere.
    width = float(np.ptp(unbiased)) + deviation
    alone = deviation / width / unbiased.size
    moments = np.stack([law, law * shares], axis=1)
    # Some at a time: all of them at once took 50 MB, and most of the time to have pages for them.
    parts = np.split(places, range(_TOGETHER, places.size, _TOGETHER))
    tables = [errors.likelihood(part[:, None] - shares) @ moments for part in parts]
    weight, sums = np.concatenate(tables).T
    return places, (sums + alone * np.maximum(places, 0)) / (weight + alone)


def _grid(others: Floats, values: int, deviation: float) -> Floats:
    """The shares that are thought of, ascending: 0 among them, and that of all alike."""
    largest = max(float(others.max()), deviation)
    dense = np.linspace(0, min(largest, _BULK * deviation), _DENSE)
    beyond = others[others > dense[-1]]
    sparse = np.quantile(beyond, np.linspace(0, 1, _SPARSE)) if beyond.size else beyond
    return np.unique(np.concatenate([dense, sparse, [1 / values]]))


def _fitted(likelihood: Floats, counts: NDArray[np.int64]) -> Floats:
    """The law over the grid under which the estimates are likeliest, or nearly."""
    law = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    # What no honest client's share comes to, as where all reports were made up, says nothing of it.
    possible = likelihood.max(axis=1) > _IMPOSSIBLE
    likelihood, counts = likelihood[possible], counts[possible]
    for _ in range(_ITERATIONS if counts.size else 0):
        predicted = np.maximum(likelihood @ law, _IMPOSSIBLE)
        law *= (counts / predicted) @ likelihood / counts.sum()
    return np.asarray(law / law.sum())


class Processed(NamedTuple):
    """What is published of unbiased shares.

    Attributes:
        shares: (d,).
        name: of what was done.
        risks: of each rule that was compared, the estimated mean squared error of a share, which
            may be below 0 where errors are small against the noise; None if nothing was.
    """

    shares: Floats
    name: str
    risks: Mapping[str, float] | None


def publish(
    name: str,
    mechanism: FrequencyOracle,
    unbiased: Floats,
    n: int,
    own: Floats | None = None,
    apart: bool = False,
) -> Processed:
    """The shares of a release.

    Args:
        name: one of `POSTPROCESSING`.
        mechanism: what perturbed the reports.
        unbiased: (d,) shares.
        n: how many users reported.
        own: (d,) what the system itself makes of them; "none" leaves it, "pop" goes on from it.
        apart: whether the last value stands for none: its share, one of thousands and often large,
            is then kept as it is, inside [0, 1], and the others share the rest among themselves.

    Returns:
        But for "none", shares that are nonnegative and add up to 1. "auto" takes the rule of
        least estimated risk; "all alike" unless another is clearly better; and the projection,
        unless another is. Where there are fewer than 8 values it is the projection.

    Raises:
        ValueError: the name is unknown.

    >>> from mechanisms.catalog import build
    >>> noise = np.sin(np.arange(1.0, 1001.0) ** 2) / 50
    >>> grr = build("olh", epsilon=0.5, domain_size=1000)
    >>> publish("auto", grr, noise, 20_000).name, publish("pop", grr, noise, 20_000).name
    ('uniform', 'pop')
    """
    require_known(name)
    if name == "none":
        return Processed((unbiased if own is None else own).copy(), name, None)
    if apart:
        return _beside_none(name, mechanism, unbiased, n, own)
    return _processed(name, unbiased, own, lambda: Errors.of(mechanism, project(unbiased), n))


def _beside_none(
    name: str, mechanism: FrequencyOracle, unbiased: Floats, n: int, own: Floats | None
) -> Processed:
    """What is published where the last value stands for none."""
    none = min(max(float(unbiased[-1]), 0.0), 1.0)
    whole = 1 - none
    if not whole > 0:  # nobody seems to hold any
        return Processed(np.append(np.zeros(unbiased.size - 1), 1.0), "pop", None)

    def errors() -> Errors:
        """Of shares of those who hold one."""
        all_ = Errors.of(mechanism, project(unbiased), n)
        return replace(all_, variance=all_.variance[:-1] / whole**2, step=all_.step / whole)

    values = None if own is None else own[:-1] / whole
    shares, done, risks = _processed(name, unbiased[:-1] / whole, values, errors)
    if risks is not None:
        risks = {rule: risk * whole**2 for rule, risk in risks.items()}
    return Processed(np.append(whole * shares, none), done, risks)


def _processed(
    name: str, unbiased: Floats, own: Floats | None, law: Callable[[], Errors]
) -> Processed:
    """What is published of shares that add up to 1, with errors of this law."""
    if name == "pop" or (name == AUTO and unbiased.size < _FEWEST):
        return Processed(project(unbiased if own is None else own), "pop", None)
    # All rules' shares add up to 1: what the estimates' sum is off by says nothing of any.
    centred = unbiased + (1 - unbiased.sum()) / unbiased.size
    errors = law()
    if name != AUTO:
        return Processed(_RULES[name](centred, errors).shares, name, None)
    fitting = {k: v for k, v in _RULES.items() if unbiased.size >= _FEWEST_OF.get(k, 0)}
    rules = [rule(centred, errors) for rule in fitting.values()]
    risks = {rule.name: rule.risk(centred, errors) for rule in rules}
    best = _best(rules, risks, errors)
    per_share = {k: v / unbiased.size for k, v in risks.items()}
    return Processed(best.shares, best.name, per_share)


def require_known(name: str) -> None:
    """Refuse what is no post-processing, by a ValueError."""
    if name not in POSTPROCESSING:
        raise ValueError(f"postprocess must be one of {', '.join(POSTPROCESSING)}, not {name}")


def _best(rules: list[Candidate], risks: Mapping[str, float], errors: Errors) -> Candidate:
    """The rule of least risk, in doubt the simpler one."""

    def doubt(one: Candidate, other: Candidate) -> float:
        """How far two estimated risks must be apart; their difference's deviation, times that."""
        apart = (one.shares - other.shares) ** 2
        return _CLEARLY * 2 * math.sqrt(float((errors.variance * apart).sum()))

    by_name = {rule.name: rule for rule in rules}
    alike, nearest = by_name["uniform"], by_name["pop"]
    best = min(rules, key=lambda rule: risks[rule.name])
    if risks["pop"] - risks[best.name] < doubt(nearest, best):
        best = nearest
    caution = min(doubt(alike, best), _AT_MOST * float(errors.variance.sum()))
    return alike if risks["uniform"] - risks[best.name] < caution else best


def _alike(shares: Floats, errors: Errors) -> Candidate:
    """Every value's share is the same, whatever was reported."""
    share = np.full(shares.size, 1 / shares.size)
    return Candidate("uniform", share, lambda y: np.full_like(y, 1 / y.size))


def _nearest(shares: Floats, errors: Errors, name: str = "pop", kept: float = 1.0) -> Candidate:
    """The projection, of shares that may be `kept` and all others alike."""
    apart = (1 - kept) / shares.size
    moved = apart + kept * shares
    published = project(moved)
    support = published > 0
    shift = float(np.mean(moved[support] - published[support]))
    return Candidate(
        name, published, lambda y: np.maximum(apart + kept * y - shift, 0), 1 - 1 / support.sum()
    )


def _shrunk(shares: Floats, errors: Errors) -> Candidate:
    """James and Stein's estimate towards all alike, and then the projection."""
    kept = to_mean(shares, errors.variance).factor
    return _nearest(shares, errors, "shrinkage", kept)


_RULES: Mapping[str, Callable[[Floats, Errors], Candidate]] = {
    "uniform": _alike,
    "pop": _nearest,
    "shrinkage": _shrunk,
    "empirical-bayes": empirical_bayes,
}

POSTPROCESSING = (AUTO, "pop", "shrinkage", "empirical-bayes", "none")
"""What may be done with unbiased shares, by name."""
