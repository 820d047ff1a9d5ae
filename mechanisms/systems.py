"""Every histogram system by name: how it meets a target, and what it does with its estimates.

Systems that the literature names are thin compositions of a few mechanisms; each meets a target
under the exact accountant, and those whose paper has a closed form under that one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mechanisms import system_rules as rules
from mechanisms.central.histogram import (
    BoostHistogram,
    CentralHistogram,
    LaplaceHistogram,
    NoiseFirstHistogram,
)
from mechanisms.frequency.dummies import Aue, PoissonDummies
from mechanisms.frequency.dump import PureDump
from mechanisms.system import Fit, System

AUTO = "auto"  # the system with the least predicted error

_SETS_MOST = 10**8  # users whose sets of messages "auto" accounts for


def _both(
    name: str, of_epsilon: Fit, source: str, searched: bool = False, several: bool = False
) -> System:
    """A local mechanism that a shuffler amplifies."""
    fits = {
        ("local", "exact"): rules.local(name),
        ("shuffle", "exact"): rules.shuffled(name, of_epsilon),
    }
    most = _SETS_MOST if several else 1 << 40
    return System(name, fits, source, searched=searched, several=several, most=most)


def _paper(name: str, exact: Fit, closed_form: Fit, source: str, post: str = "none") -> System:
    """A system of the shuffle model as its paper has it, under two bounds."""
    fits = {("shuffle", "exact"): exact, ("shuffle", "published"): closed_form}
    return System(name, fits, source, post)


def _under_both(rule: Callable[[str], Fit]) -> tuple[Fit, Fit]:
    """A rule under the exact bound and under the published one."""
    return rule("exact"), rule("published")


def _in_the_centre(
    name: str, family: Callable[[float, int], CentralHistogram], source: str
) -> System:
    """A system of the central model."""
    fits = {("central", "exact"): rules.central(family)}
    return System(name, fits, source, "none", searched=family is LaplaceHistogram)


_DUMP = "Li, Liu, Ren et al., IEEE TDSC 2023"
_HP_SDP = "Zhang, Xu, Xia, J. of Software 2022"
_HASHED = (rules.hashed_as_published, rules.published_hash)

_ALL = (
    _both("grr", rules.k_ary, "Kairouz, Oh, Viswanath, NIPS 2014", searched=True),
    _both("olh", rules.optimal_local, "Wang, Blocki, Li, Jha, USENIX Security 2017", searched=True),
    _both("srr", rules.best_hash, _HP_SDP, searched=True),
    _both("hadamard", rules.one_bit, "Acharya, Sun, Zhang, AISTATS 2019", searched=True),
    _both(
        "projective",
        rules.best_geometry,
        "Feldman, Nelson, Nguyen, Talwar, ICML 2022",
        searched=True,
    ),
    *(
        _both(name, rules.any_local(name), source, several=True, searched=name in ("oue", "subset"))
        for name, source in (
            ("oue", "Wang, Blocki, Li, Jha, USENIX Security 2017"),
            ("subset", "Ye, Barg, IEEE Trans. Information Theory 2018"),
            ("sue", "Erlingsson, Pihur, Korolova, CCS 2014 (basic RAPPOR)"),
            ("rappor", "Erlingsson, Pihur, Korolova, CCS 2014"),
        )
    ),
    _both("shist", rules.any_local("shist"), "Bassily, Smith, STOC 2015"),
    _both("treehist", rules.any_local("treehist"), "Bassily, Nissim, Stemmer, Thakurta, NIPS 2017"),
    System(
        "poisson",
        {("shuffle", "exact"): rules.dummies(PoissonDummies, "exact")},
        "uniform dummies, a Poisson number from each user, accounted exactly",
        searched=True,
        several=True,
    ),
    System(
        "correlated",
        {("shuffle", "exact"): rules.correlated},
        "Ghazi, Kumar, Manurangsi, Pagh, ICML 2020",
        searched=True,
        several=True,
    ),
    _paper("sh", rules.k_ary, rules.published_k_ary, "Balle, Bell, Gascon, Nissim, CRYPTO 2019"),
    _paper("aue", *_under_both(partial(rules.dummies, Aue)), "Balcer, Cheu, ITC 2020"),
    _paper("murs", *_HASHED, "Wang, Ding, Xu et al., VLDB 2020"),
    _paper("mixdump", *_under_both(rules.mixed), _DUMP),
    _paper("puredump", *_under_both(partial(rules.dummies, PureDump)), _DUMP),
    _paper("hp-sm", *_HASHED, f"{_HP_SDP}, without POP"),
    _paper("hp-sdp", *_HASHED, _HP_SDP, "pop"),
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
