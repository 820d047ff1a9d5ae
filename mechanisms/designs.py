"""What a release is made with as data, from which anybody computes again what it costs.

A design says all of it by the names of its fields: the laws of its noise, the layout that they hide
and what one unit may move there. Numbers are exact: JSON's shortest digits of a double read back as
the same double, and a rational is its numerator and denominator. Only what is listed here is ever
made of a record, so a stranger's record is read safely.

What a record cannot tell is whether noise was drawn.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from importlib import import_module
from types import UnionType
from typing import Any, ClassVar, Literal, Union, cast, get_args, get_origin, get_type_hints

from mechanisms import honesty
from mechanisms.channel import Guarantee, Mechanism, Model, Neighbours, require_epsilon
from mechanisms.privacy.divergence import require_batch
from mechanisms.privacy.loss import PrivacyLoss

Json = Any

# Name in a record -> where it is. A name stays what it is: records outlive modules.
_KINDS = {
    "counters": "counters.design:Counters",
    "device counters": "counters.device_design:DeviceCounters",
    "job totals": "counters.job_totals:JobTotals",
    "rounds": "adaptive_rounds:AdaptiveRounds",
    "split and mix": "counters.split_mix:SplitMix",
    "split and mix, two numbers": "counters.split_mean:SplitMean",
    "group selection": "heavy_hitters.group_selection:GroupSelection",
    "quantile choice": "distribution.quantile_choice:QuantileChoice",
    "window alarm": "central.window_alarm:WindowAlarm",
    "gaussian filter": "privacy.gaussian_filter:GaussianFilter",
    "running totals": "running.totals:RunningTotals",
    "dp-sgd": "learning.noisy_training:NoisyTraining",
    "noisy averages": "learning.noisy_averages:NoisyAverages",
    "reports": "designs:RandomisedReports",
    "level": "counters.levels:Level",
    "portion": "counters.levels:Portion",
    "contribution": "running.totals:Contribution",
    "factors": "running.factors:Factors",
    "laplace": "counters.noise:Laplace",
    "gaussian": "counters.noise:Gaussian",
    "independent": "counters.dummies:Independent",
    "correlated": "counters.dummies:Correlated",
    "beside": "counters.dummies:Beside",
    "tables": "counters.crosstabs:CrossTabs",
    "axis": "counters.axes:Axis",
    "poisson counters": "counters.devices:PoissonCounters",
    "masked counters": "counters.devices:MaskedCounters",
    "masked laplace": "privacy.masked_laplace:MaskedLaplace",
    "exact geometric": "sampling.exact_geometric:ExactGeometric",
    "rounded gaussian": "sampling.rounded_gaussian:RoundedGaussian",
    "linear hash": "frequency.linear_hash:LinearHash",
    "projective geometry": "frequency.projective_geometry:ProjectiveGeometry",
    "subset selection": "frequency.subset_selection:SubsetSelection",
    "unary": "frequency.unary:Unary",
    "poisson dummies": "frequency.dummies:PoissonDummies",
    "correlated noise": "frequency.correlated_noise:CorrelatedNoise",
    "divided tables": "vector.divided_tables:DividedTables",
    "optimal": "mean.optimal:Optimal",
    "hybrid": "mean.hybrid:Hybrid",
    "window": "mean.window:Window",
    "two point": "mean.two_point:TwoPoint",
    "gaussian of reports": "mean.gaussian:Gaussian",
    "with unusable": "mean.with_unusable:WithUnusable",
    "key value": "mean.key_value:KeyValue",
    "sampled coordinates": "vector.sampled:SampledCoordinates",
    "usable coordinates": "vector.limits:UsableCoordinates",
    "mixed rows": "vector.mixed_rows:MixedRows",
    "privunit": "vector.privunit:PrivUnit",
    "bit flips": "papers.bit_flips:BitFlips",
    "rappor": "papers.rappor:Rappor",
    "random projection": "papers.random_projection:RandomProjection",
    "count sketch": "papers.count_sketch:CountSketch",
    "count mean sketch": "papers.count_mean_sketch:CountMeanSketch",
    "aue": "papers.aue:Aue",
    "pure dump": "papers.dump:PureDump",
    "mix dump": "papers.dump:MixDump",
    "laplace of reports": "papers.laplace:Laplace",
    "meanest": "papers.meanest:Meanest",
    "laplace vector": "papers.laplace_vector:LaplaceVector",
    "multi rphm": "papers.rphm:MultiRphm",
    "privkv": "papers.privkv:PrivKv",
    "keyed number": "papers.privkv:KeyedNumber",
    "ddps": "papers.ddps:Ddps",
}
_NAMES = {f"mechanisms.{path}": name for name, path in _KINDS.items()}
_MADE_OF = "is"
_MOST = 20_000  # parts of a design, a second's work; 256 tables have 1,000

MODELS = ("local", "shuffle")
"""Of releases that are made of randomised reports."""


class UnknownDesignError(ValueError):
    """Nobody has said how the price of such a design is computed from its record."""


@dataclass(frozen=True)
class RandomisedReports:
    """What units randomise by themselves, and the least batch that hides them.

    Attributes:
        mechanism: that a unit runs.
        model: "local", or "shuffle" where a batch hides reports.
        epsilon: of the release, in nats.
        delta: in [0, 1).
        n: the least number of reports.
        honest_share: in (0, 1], of the others' reports that the promise counts on.
        distinct: of permanent noise the most values that a unit reports, in all windows together.

    >>> from mechanisms.catalog import build
    >>> reports = RandomisedReports(build("grr", epsilon=1.0, domain_size=9), "local", 1.0, 0.0, 1)
    >>> read(written(reports)) == reports
    True
    """

    neighbours: ClassVar[Neighbours] = "replace"  # who takes part is no secret of theirs

    mechanism: Mechanism
    model: str
    epsilon: float
    delta: float
    n: int
    honest_share: float = 1.0
    distinct: int | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_batch(self.n)
        honesty.require_share(self.honest_share)
        if self.model not in MODELS or not 0 <= self.delta < 1:
            raise ValueError("reports are of the local or the shuffle model, delta in [0, 1)")
        if self.distinct is not None and not self.distinct >= 1:
            raise ValueError(f"a unit reports at least one value, not {self.distinct}")

    @property
    def local(self) -> Guarantee:
        """What a single report reveals; of permanent noise, all of them."""
        return self.mechanism.local if self.distinct is None else self._of_all_windows

    @property
    def counted_on(self) -> int:
        """How many reports of the least batch the promise counts on."""
        return self.mechanism.counted_on(self.n, self.honest_share)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the release.

        Raises:
            ValueError: reports show more than is claimed.
        """
        once = self.local
        met = once.epsilon <= self.epsilon and once.delta <= self.delta
        if not met and self.model == "shuffle" and self.distinct is None:
            from mechanisms.privacy.amplification import shuffled_delta  # as late as it is dear

            met = shuffled_delta(self.mechanism, self.counted_on, self.epsilon)[1] <= self.delta
        if not met:
            raise ValueError(f"reports do not meet epsilon {self.epsilon} at delta {self.delta}")
        return Guarantee(
            cast("Model", self.model), self.epsilon, self.delta, "user", self.mechanism.accounting
        )

    @property
    def release(self) -> Guarantee:
        """The same, as planners call it."""
        return self.guarantee

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; of permanent noise what the promise alone says."""
        if self.distinct is not None:
            return PrivacyLoss.from_guarantee(self.guarantee)
        from mechanisms.planner.release_profile import release_profile

        return release_profile(self)

    @property
    def _of_all_windows(self) -> Guarantee:
        from mechanisms.memoised import over_time  # what few ask for, and takes long to import

        return over_time(self.mechanism.local, self.distinct or 1, "user")


def written(design: Any) -> Json:
    """A design as a record.

    Raises:
        UnknownDesignError: a part of it is not listed here.
    """
    if design is None or isinstance(design, bool | str | int):
        return design
    if isinstance(design, float) and math.isfinite(design):
        return design
    if isinstance(design, Fraction):
        return {"numerator": design.numerator, "denominator": design.denominator}
    name = _NAMES.get(f"{type(design).__module__}:{type(design).__qualname__}")
    if name is not None:
        return {_MADE_OF: name} | {key: written(getattr(design, key)) for key in _fields(design)}
    if type(design) is tuple:
        return [written(part) for part in design]
    raise UnknownDesignError(f"{type(design).__name__} has no record")


def read(record: Json) -> Any:
    """What `written` has written.

    Raises:
        UnknownDesignError: it names what is not listed here.
        TypeError, ValueError, KeyError: it is no record, a field is of another type or range, or
            it has more than 20,000 parts.
    """
    if not _parts(record) <= _MOST:
        raise ValueError(f"a design has at most {_MOST:,} parts")
    return _read(record)


def _parts(record: Json) -> int:
    if isinstance(record, Mapping):
        return 1 + sum(map(_parts, record.values()))
    return sum(map(_parts, record)) if isinstance(record, list) else 0


def _read(record: Json) -> Any:
    if isinstance(record, list):
        return tuple(map(_read, record))
    if isinstance(record, float) and not math.isfinite(record):
        raise ValueError("numbers of a design are finite")
    if not isinstance(record, Mapping):
        return record
    parts = {name: _read(part) for name, part in record.items() if name != _MADE_OF}
    if _MADE_OF not in record:
        return Fraction(**parts)
    if record[_MADE_OF] not in _KINDS:
        raise UnknownDesignError("it is of a kind that this version does not know")
    kind, types = _kind(record[_MADE_OF]), _types(record[_MADE_OF])
    if parts.keys() != types.keys():
        raise TypeError(f"{record[_MADE_OF]} has the fields {', '.join(types)}")
    for name, part in parts.items():
        if not _is(part, types[name]):
            raise TypeError(f"{name} of {record[_MADE_OF]} is of another type")
    return kind(**parts)


def require_met(design: Any, epsilon: float, delta: float) -> Guarantee:
    """Compute again what a design costs, by the accountant that it was made with.

    Args:
        design: whatever it says of its own epsilon and delta.
        epsilon, delta: that are promised.

    Returns:
        What holds: model and neighbours are the design's; whose unit it is no design says.

    Raises:
        ValueError: its noise is too small for them.

    >>> from mechanisms.counters.job_totals import JobTotals, Level
    >>> count = JobTotals.meeting([Level(1, 1)], "add or remove", epsilon=1.0, delta=0.0)
    >>> require_met(count, 1.0, 0.0).model
    'central'
    >>> require_met(count, 0.999, 0.0)
    Traceback (most recent call last):
    ValueError: this noise does not meet epsilon 0.999 at delta 0.0: see `meeting`
    """
    met = _claiming(design, epsilon, delta).guarantee
    return cast("Guarantee", met(epsilon, "user") if callable(met) else met)


def profile(design: Any, epsilon: float, delta: float) -> PrivacyLoss:
    """The whole curve behind a promise, for whoever composes it with others.

    Args:
        design: as of `require_met`.
        epsilon, delta: that are promised.

    Raises:
        ValueError: its noise is too small for them.
    """
    curve = _claiming(design, epsilon, delta).profile
    return curve if isinstance(curve, PrivacyLoss) else curve()


def _claiming(design: Any, epsilon: float, delta: float) -> Any:
    """The same noise under another claim, if it meets that.

    Raises:
        ValueError: it does not.
    """
    require = getattr(design, "require_met", None)
    if require is not None:
        require(epsilon, delta)
        return design
    claimed = replace(design, epsilon=epsilon, delta=delta)
    _ = claimed.guarantee
    return claimed


def _kind(name: str) -> Any:
    module, _, kind = _KINDS[name].partition(":")
    return getattr(import_module(f"mechanisms.{module}"), kind)


@cache
def _types(name: str) -> dict[str, Any]:
    """Field -> its type, as its class has it."""
    kind = _kind(name)
    types = get_type_hints(kind)
    return {field: types[field] for field in _fields(kind)}


def _is(part: Any, kind: Any) -> bool:
    """Whether a part is of a type; a truth value is no number, and a list of numbers none."""
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return part in inner
    if get_origin(kind) in (Union, UnionType):
        return any(_is(part, one) for one in inner)
    if get_origin(kind) is tuple:
        types = inner[:1] * len(part) if inner[1:] == (...,) and type(part) is tuple else inner
        return type(part) is tuple and len(part) == len(types) and all(map(_is, part, types))
    if kind in (int, float):
        return type(part) is int or (kind is float and type(part) is float)
    return isinstance(part, kind)


def _fields(design: Any) -> list[str]:
    if is_dataclass(design):
        return [field.name for field in fields(design) if field.init]
    return [*design._fields]
