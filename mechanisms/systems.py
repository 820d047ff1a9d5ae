"""Every histogram system by name: how it meets a target, and what it does with its estimates.

A system is a mechanism, a rule that chooses its parameters, and a post-processing. Systems that
the literature names are thin compositions of a few mechanisms; each meets a target under the
exact accountant, and those whose paper has a closed form under that one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from mechanisms import catalog
from mechanisms.algebra.prime_forms import nearest_order
from mechanisms.central.histogram import (
    BoostHistogram,
    CentralHistogram,
    LaplaceHistogram,
    NoiseFirstHistogram,
)
from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.frequency.dummies import Aue, PoissonDummies
from mechanisms.frequency.dump import MixDump, PureDump
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.privacy import budget, published
from mechanisms.target import Target

_MIXED = range(4, 17)  # what a report among dummies may spend: beyond, it hardly ever lies

_SETS_MOST = 10**8
_SEEDED = {"rappor", "shist", "treehist"}

AUTO = "auto"  # the system with the least predicted error

Fitted = FrequencyOracle | CentralHistogram
Fit = Callable[[Target], Fitted]


@dataclass(frozen=True)
class System:
    """One way to make a histogram.

    Attributes:
        name: as people type it.
        fits: (model, bound) -> the rule that chooses parameters for a target.
        postprocess: what the system does with its unbiased estimates: "pop" or "none".
        searched: whether "auto" looks at it; papers' systems are there to be named.
        several: whether its users send several messages.
        most: users of a shuffled batch beyond which "auto" does not wait for its accounting.
        source: who published it.
    """

    name: str
    fits: Mapping[tuple[str, str], Fit]
    source: str
    postprocess: str = "pop"
    searched: bool = False
    several: bool = False
    most: int = 1 << 40

    def serves(self, target: Target) -> bool:
        """Whether "auto" should consider it for a target."""
        allowed = target.max_messages > 1 or not self.several
        quick = target.model != "shuffle" or target.n <= self.most
        return self.searched and allowed and quick and (target.model, target.bound) in self.fits

    def fit(self, target: Target) -> Fitted:
        """Its best parameters for a target.

        Raises:
            ValueError: the system does not serve that model or bound, or cannot meet the target.
        """
        fit = self.fits.get((target.model, target.bound))
        if fit is not None:
            return fit(target)
        asked = _phrase(target.model, target.bound)
        serves = ", ".join(_phrase(*served) for served in self.fits)
        raise ValueError(f"{self.name} does not serve the {asked}; it serves the {serves}")


def _phrase(model: str, bound: str) -> str:
    return f"{model} model" if bound == "exact" else f"{model} model by its published bound"


def _of_local(name: str, epsilon: float, target: Target) -> FrequencyOracle:
    """A mechanism of the catalogue, with the collection's public seed if it rests on one."""
    seed = {"seed": target.seed} if name in _SEEDED else {}
    return catalog.build_frequency(name, epsilon=epsilon, domain_size=target.domain_size, **seed)


def _local(name: str) -> Fit:
    """A mechanism of the catalogue that spends what it may."""

    def fit(target: Target) -> Fitted:
        return _of_local(name, target.spent, target)

    return fit


def _shuffled(name: str, of_epsilon: Fit) -> Fit:
    """The same in the shuffle model; without a target for the batch it spends its cap."""
    unamplified = _local(name)
    return lambda target: unamplified(target) if target.epsilon is None else of_epsilon(target)


def _asked(target: Target) -> tuple[float, float, int]:
    """(epsilon, delta, n), where the batch's epsilon was named."""
    if target.epsilon is None:
        raise ValueError("epsilon is missing: these reports are private in a shuffled batch only")
    return target.epsilon, target.delta, target.n


def _ranged(target: Target, hash_range: int) -> FrequencyOracle:
    """The largest epsilon_local at a given hash range."""
    d, cap = target.domain_size, target.cap
    spent = budget.largest_local_epsilon(*_asked(target), d, hash_range, cap)
    return LinearHash(spent, d, hash_range)


def _k_ary(target: Target) -> FrequencyOracle:
    return _ranged(target, target.domain_size)


def _one_bit(target: Target) -> FrequencyOracle:
    return _ranged(target, 2)


def _optimal_local(target: Target) -> FrequencyOracle:
    """OLH at the epsilon_local that the batch allows."""
    return _ranged(
        target, budget.local_optimal_range(*_asked(target), target.domain_size, target.cap)
    )


def _best_hash(target: Target) -> FrequencyOracle:
    """The best hash range below d, or k-ary response where there is none."""
    found = budget.best_histogram(*_asked(target), target.domain_size, target.cap)
    return found.k_ary if found.hashed is None else found.hashed


def _best_geometry(target: Target) -> ProjectiveGeometry:
    return budget.best_projective(*_asked(target), target.domain_size, target.cap)


def _any_local(name: str) -> Fit:
    """A mechanism that is known to the shuffle accountant by its channel alone."""

    def fit(target: Target) -> Fitted:
        def at(epsilon_local: float) -> FrequencyOracle:
            return _of_local(name, epsilon_local, target)

        return at(budget.largest_shuffled(*_asked(target), at, target.cap))

    return fit


def _theorem_1(target: Target, hash_range: int) -> FrequencyOracle:
    """A linear hash that meets a target by HP-SDP's Theorem 1 (BBGN's bound)."""
    epsilon, delta, n = _asked(target)
    if not epsilon <= 1:
        raise ValueError(
            f"the published bound is proven for epsilon up to 1, not {epsilon:g}; ask for 1 or "
            "less, or for the exact bound"
        )
    local = published.theorem_1_local_epsilon(epsilon, n, delta, hash_range)
    if local is None or local > target.cap:
        least = _least_reports_of_theorem_1(epsilon, delta, hash_range)
        raise ValueError(
            f"the published bound leaves no epsilon_local within reach for {hash_range} symbols "
            f"and {n:,} reports; it needs {least:,} reports, or a larger epsilon (at most 1)"
            if local is None
            else f"the published bound spends epsilon_local {local:.3g}, above the cap"
        )
    return LinearHash(local, target.domain_size, hash_range)


def _least_reports_of_theorem_1(epsilon: float, delta: float, hash_range: int) -> int:
    """How many reports leave a positive epsilon_local: the odds must exceed the symbols."""
    return 2 + int(hash_range / published.theorem_1_budget(epsilon, 2, delta))


def _hashed_as_published(target: Target) -> FrequencyOracle:
    """The best hash range, or none where the paper's rule, too, would leave values unhashed."""
    found = budget.best_histogram(*_asked(target), target.domain_size, target.cap)
    epsilon, delta, n = _asked(target)
    plain = published.theorem_1_hash_range(epsilon, n, delta) >= target.domain_size
    return found.best if plain or found.hashed is None else found.hashed


def _published_k_ary(target: Target) -> FrequencyOracle:
    return _theorem_1(target, target.domain_size)


def _published_hash(target: Target) -> FrequencyOracle:
    """g = (m + 2)/3, moved to the nearest field; plain k-ary response where that is as large."""
    epsilon, delta, n = _asked(target)
    g, d = published.theorem_1_hash_range(epsilon, n, delta), target.domain_size
    fields = (nearest_order(g, -1), nearest_order(g, 1))
    return _theorem_1(target, min(d, *fields, key=lambda q: abs(q - g)))


def _dummies(family: Callable[..., FrequencyOracle], bound: str) -> Fit:
    """Dummies for a batch; nothing protects a single report."""

    def fit(target: Target) -> Fitted:
        mechanism = family(
            *_asked(target), target.domain_size, honest_share=target.honest_share, bound=bound
        )
        if not mechanism.local.epsilon <= target.cap:
            raise ValueError(
                "a report among dummies is private in the shuffled batch only: "
                f"no epsilon_local of {target.cap:g} holds for it alone"
            )
        return mechanism

    return fit


def _mixed(bound: str) -> Fit:
    """Dummies among k-ary responses, at the epsilon_local with the least error."""

    def fit(target: Target) -> Fitted:
        best = None
        for local in sorted({min(target.cap, float(local)) for local in _MIXED}):
            mixed = _dummies(partial(MixDump, epsilon_local=local), bound)(target)
            if best and best.average_variance(target.n) < mixed.average_variance(target.n):
                break  # from here on the error of fewer lies is less than that of more dummies
            best = mixed
        if best is None:
            raise ValueError(f"no epsilon_local of {target.cap:g} or less is left to be mixed")
        return best

    return fit


def _correlated(target: Target) -> Fitted:
    # As many messages as the plan allows; the mechanism's own default where it does not say.
    budgeted: Callable[..., FrequencyOracle] = CorrelatedNoise
    if target.max_messages > 1:
        budgeted = partial(CorrelatedNoise, max_messages=target.max_messages)
    return _dummies(budgeted, "exact")(target)


def _central(family: Callable[[float, int], CentralHistogram]) -> Fit:
    return lambda target: family(target.spent, target.domain_size)


def _both(
    name: str, of_epsilon: Fit, source: str, searched: bool = False, several: bool = False
) -> System:
    """A local mechanism that a shuffler amplifies."""
    fits = {("local", "exact"): _local(name), ("shuffle", "exact"): _shuffled(name, of_epsilon)}
    most = _SETS_MOST if several else 1 << 40
    return System(name, fits, source, searched=searched, several=several, most=most)


def _paper(
    name: str, exact: Fit, closed_form: Fit | None, source: str, post: str = "none"
) -> System:
    """A system of the shuffle model as its paper has it, under one bound or two."""
    fits = {("shuffle", "exact"): exact}
    if closed_form is not None:
        fits["shuffle", "published"] = closed_form
    return System(name, fits, source, post)


def _in_the_centre(
    name: str, family: Callable[[float, int], CentralHistogram], source: str
) -> System:
    fits = {("central", "exact"): _central(family)}
    return System(name, fits, source, "none", searched=family is LaplaceHistogram)


_DUMP = "Li, Liu, Ren et al., IEEE TDSC 2023"
_HP_SDP = "Zhang, Xu, Xia, J. of Software 2022"

_ALL = (
    _both("grr", _k_ary, "Kairouz, Oh, Viswanath, NIPS 2014", searched=True),
    _both("olh", _optimal_local, "Wang, Blocki, Li, Jha, USENIX Security 2017", searched=True),
    _both("srr", _best_hash, _HP_SDP, searched=True),
    _both("hadamard", _one_bit, "Acharya, Sun, Zhang, AISTATS 2019", searched=True),
    _both(
        "projective",
        _best_geometry,
        "Feldman, Nelson, Nguyen, Talwar, ICML 2022",
        searched=True,
    ),
    *(
        _both(name, _any_local(name), source, several=True, searched=name in ("oue", "subset"))
        for name, source in (
            ("oue", "Wang, Blocki, Li, Jha, USENIX Security 2017"),
            ("subset", "Ye, Barg, IEEE Trans. Information Theory 2018"),
            ("sue", "Erlingsson, Pihur, Korolova, CCS 2014 (basic RAPPOR)"),
            ("rappor", "Erlingsson, Pihur, Korolova, CCS 2014"),
        )
    ),
    _both("shist", _any_local("shist"), "Bassily, Smith, STOC 2015"),
    _both("treehist", _any_local("treehist"), "Bassily, Nissim, Stemmer, Thakurta, NIPS 2017"),
    System(
        "poisson",
        {("shuffle", "exact"): _dummies(PoissonDummies, "exact")},
        "uniform dummies, a Poisson number from each user, accounted exactly",
        searched=True,
        several=True,
    ),
    System(
        "correlated",
        {("shuffle", "exact"): _correlated},
        "Ghazi, Kumar, Manurangsi, Pagh, ICML 2020",
        searched=True,
        several=True,
    ),
    _paper("sh", _k_ary, _published_k_ary, "Balle, Bell, Gascon, Nissim, CRYPTO 2019"),
    _paper("aue", _dummies(Aue, "exact"), _dummies(Aue, "published"), "Balcer, Cheu, ITC 2020"),
    _paper("murs", _hashed_as_published, _published_hash, "Wang, Ding, Xu et al., VLDB 2020"),
    _paper("mixdump", _mixed("exact"), _mixed("published"), _DUMP),
    _paper("puredump", _dummies(PureDump, "exact"), _dummies(PureDump, "published"), _DUMP),
    _paper("hp-sm", _hashed_as_published, _published_hash, f"{_HP_SDP}, without POP"),
    _paper("hp-sdp", _hashed_as_published, _published_hash, _HP_SDP, "pop"),
    _in_the_centre("laplace", LaplaceHistogram, "Dwork, McSherry, Nissim, Smith, TCC 2006"),
    _in_the_centre("boost", BoostHistogram, "Hay, Rastogi, Miklau, Suciu, VLDB 2010"),
    _in_the_centre("noisefirst", NoiseFirstHistogram, "Xu, Zhang, Xiao et al., VLDB Journal 2013"),
)  # fmt: skip

SYSTEMS: Mapping[str, System] = {system.name: system for system in _ALL}

PARTS = {
    "mrs": "it is HP-SDP's shuffler, which as printed enumerates all n! orders; every batch here "
    "is shuffled by sorting on random keys (transforms/shuffle.py)",
    "pop": "it is HP-SDP's post-processing; ask for it with --postprocess pop",
}

PAPER = ("laplace", "sh", "aue", "murs", "mixdump", "puredump", "hp-sm", "hp-sdp")
"""The eight systems of HP-SDP's figures."""


def find(name: str) -> System:
    """A system by name.

    Raises:
        ValueError: there is none; the message lists those that there are.

    >>> find("hp-sdp").postprocess
    'pop'
    """
    if name in PARTS:
        raise ValueError(f"{name} is not a mechanism: {PARTS[name]}")
    if name not in SYSTEMS:
        raise ValueError(f"unknown mechanism {name!r}; there are: {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def default_model(name: str) -> str:
    """The model in which a name is meant where nobody says: "shuffle", if it serves that.

    >>> default_model("auto"), default_model("boost")
    ('shuffle', 'central')
    """
    models = ["shuffle"] if name == AUTO else [model for model, _ in find(name).fits]
    return "shuffle" if "shuffle" in models else models[0]
