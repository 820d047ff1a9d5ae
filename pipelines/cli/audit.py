"""`hushbeam audit`: is what a mechanism claims true? Computed from its law, and attacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ConfigDict
from rich.console import Console
from rich.table import Table

from mechanisms import catalog
from mechanisms.channel import Mechanism
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.audit import attack, audit, audit_batch
from mechanisms.privacy.rejection import RISK, measure
from mechanisms.privacy.trial import Trial, more_trials, trial
from mechanisms.randomness import SecureRandom
from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions, Whole
from pipelines.wording import upward

CLAIM_IS_FALSE = 1
EVERYTHING = "all"

_SAMPLES, _WHOLE_SAMPLES = 1_000_000, 50_000  # of single reports, and of whole releases
_SMALL_BATCH, _SMALL_DELTA = 3, 0.01  # of reports that are private by themselves
_NUMBERS = {"promised", "delta", "at least"}
_LARGEST = 1 << 26  # messages or counters of all the releases that are drawn of one input

_EXAMPLE = """\
examples:
  hushbeam audit olh --epsilon 1 --domain-size 1000
  hushbeam audit grr --epsilon 6 --domain-size 915 --shuffle 602325 --delta 1e-6
  hushbeam audit poisson --epsilon 0.5 --domain-size 915 --shuffle 602325 --delta 1e-6
  hushbeam audit srr --epsilon 2 --domain-size 100 --parameter hash_range=11 --attack
  hushbeam audit poisson --epsilon 1 --domain-size 3 --shuffle 8 --delta 0.05 --attack
  hushbeam audit all --attack           every release that ships, at a small example of its own

exit codes: 0 the claim holds; 1 it does not; 2 the request is wrong.
"""


class AuditOptions(RequestOptions):
    """What a person wants audited."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mechanism: str = option(
        f"one of: {', '.join(catalog.names())}; with --attack also {EVERYTHING}, and whatever that "
        "lists",
        positional=True,
    )  # fmt: skip
    epsilon: float | None = option("of one report", None)
    domain_size: Whole | None = option("how many values", None, metavar="D")
    parameter: tuple[str, ...] = option(
        "any other parameter of the mechanism; may be repeated",
        (), metavar="NAME=NUMBER", repeated=True,
    )  # fmt: skip
    shuffle: Whole | None = option(
        "bracket the epsilon of N shuffled reports", None, metavar="N", ge=1, le=1 << 40
    )
    delta: float | None = option("with --shuffle (default: 1e-6)", None, gt=0, lt=1)
    attack: bool = option(
        "tell two inputs apart from samples of the shipped sampler: of single reports, and of "
        "whole releases of --shuffle users, of a batch, or of a curator; of a mechanism of which "
        "nothing more is said, at a small example of its own",
        False,
    )  # fmt: skip
    samples: Whole | None = option(
        "of each input (default: 1,000,000 single reports, 50,000 whole releases)",
        None, metavar="N", ge=1000, le=1 << 30,
    )  # fmt: skip

    @property
    def bare(self) -> bool:
        """Whether nothing is said of the mechanism but its name."""
        return {*self.model_fields_set} <= {"mechanism", "attack", "samples"}


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "audit", AuditOptions, run, str(__doc__), _EXAMPLE)


def run(options: AuditOptions) -> int:
    """Print claim and fact; 1 if they disagree."""
    if options.delta is not None and options.shuffle is None:
        raise RequestError("--delta goes with --shuffle: one report's delta is its mechanism's own")
    screen = Console()
    try:
        if options.attack and options.bare:
            return _tried(options, _small_trials(options.mechanism), screen)
        mechanism = _built(options)
        if mechanism.guarantee.model == "shuffle":
            return _audited_batch(options, mechanism, screen)
        if mechanism.guarantee.model == "central":
            return _audited_centre(options, mechanism, screen)
        return _audited(options, mechanism, screen)
    except ValueError as error:
        raise RequestError(str(error)) from None


def _built(options: AuditOptions) -> Mechanism:
    parameters: dict[str, float | str] = {}
    for name in ("epsilon", "domain_size"):
        if getattr(options, name) is not None:
            parameters[name] = getattr(options, name)
    for text in options.parameter:
        name, _, number = text.partition("=")
        try:
            parameters[name] = int(number) if number.lstrip("-").isdigit() else float(number)
        except ValueError:
            raise RequestError(f"--parameter: {text!r} is not of the form NAME=NUMBER") from None
    if catalog.find(options.mechanism, catalog.registrations()).batch:
        if options.shuffle is None:
            raise RequestError(
                f"--shuffle is missing: {options.mechanism} is private in a batch only; say of "
                "how many users"
            )
        parameters |= {"n": options.shuffle, "delta": _delta(options)}
    return catalog.build(options.mechanism, **parameters)


def _delta(options: AuditOptions) -> float:
    return 1e-6 if options.delta is None else options.delta


def _audited(options: AuditOptions, mechanism: Mechanism, screen: Console) -> int:
    result = audit(mechanism)
    exact = {"epsilon": result.epsilon, "delta": result.delta}
    answers.tell(claimed=result.claim.as_dict(), exact=exact, worst_pair=result.pair)
    table = Table(title=f"{options.mechanism}: one report")
    for heading in ("", "claimed", "exact"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("epsilon", f"{result.claim.epsilon:.9g}", f"{upward(result.epsilon, 9):.9g}")
    table.add_row(
        "delta at the claimed epsilon",
        f"{result.claim.delta:.6g}",
        f"{upward(result.delta, 6):.6g}",
    )
    screen.print(table)
    screen.print(f"worst pair of inputs: {result.pair[0]} and {result.pair[1]}", highlight=False)
    holds = result.holds
    if options.shuffle is not None:
        n, delta = options.shuffle, _delta(options)
        lower, upper = shuffled_epsilon(mechanism, n, delta)
        answers.tell(shuffled={"n": n, "delta": delta, "epsilon": (lower, upper)})
        screen.print(
            f"{n:,} shuffled reports, delta {delta:g}: "
            f"epsilon in [{lower:.6g}, {upward(upper, 6):.6g}]",
            highlight=False,
        )
    if options.attack:
        holds &= _attacked(options, mechanism, screen)
        if options.shuffle is not None:
            if _fits(options, mechanism, options.shuffle):
                batch = trial(mechanism, options.shuffle, _delta(options))
                holds &= _survives(options, batch, screen)
            else:
                screen.print("a batch of so many users is too large to be drawn whole")
    return _verdict(holds, screen)


def _audited_batch(options: AuditOptions, mechanism: Mechanism, screen: Console) -> int:
    """A claim about a batch: of one report there is none to be attacked."""
    result = audit_batch(mechanism, options.shuffle or 1)
    between = {"epsilon": result.epsilon, "delta": result.delta}
    answers.tell(n=result.n, claimed=result.claim.as_dict(), between=between)
    table = Table(title=f"{options.mechanism}: a shuffled batch of {result.n:,} users")
    for heading in ("", "claimed", "at least", "at most"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, claimed, (lower, upper) in (
        ("epsilon at the claimed delta", result.claim.epsilon, result.epsilon),
        ("delta at the claimed epsilon", result.claim.delta, result.delta),
    ):
        table.add_row(name, f"{claimed:.6g}", f"{lower:.6g}", f"{upward(upper, 6):.6g}")
    screen.print(table)
    screen.print(f"one report alone: {mechanism.local.how}", highlight=False)
    holds = result.holds
    if options.attack:
        _require_fitting(options, mechanism)
        holds &= _survives(options, trial(mechanism), screen)
    return _verdict(holds, screen)


def _audited_centre(options: AuditOptions, mechanism: Mechanism, screen: Console) -> int:
    """A claim about what a curator releases: what users send is no secret, so nothing else is."""
    if not options.attack:
        raise RequestError(
            f"--attack is missing: {options.mechanism} has no channel to be looked up in, for its "
            "users send their values as they are; what is released can be attacked"
        )
    _require_fitting(options, mechanism)
    return _verdict(_survives(options, trial(mechanism), screen), screen)


def _verdict(holds: bool, screen: Console) -> int:
    answers.tell(holds=holds)
    screen.print("the claim holds" if holds else "THE CLAIM IS FALSE", style="bold")
    return DONE if holds else CLAIM_IS_FALSE


def _attacked(options: AuditOptions, mechanism: Mechanism, screen: Console) -> bool:
    """Whether the sampler survives."""
    result = attack(mechanism, SecureRandom(), options.samples or _SAMPLES)
    answers.add(
        "attacks",
        {
            "released": "reports", "samples": result.samples, "at_least": result.epsilon,
            "promised": mechanism.guarantee.epsilon, "follows_channel": result.follows_channel,
        },
    )  # fmt: skip
    screen.print(
        f"attack with {result.samples:,} reports of each input: epsilon >= {result.epsilon:.6g} "
        f"(wrong with probability below {RISK:g})",
        highlight=False,
    )
    if not result.follows_channel:
        screen.print("the samples refute the channel: the sampler is not what the table says")
    return result.follows_channel and result.epsilon <= mechanism.guarantee.epsilon


def _require_fitting(options: AuditOptions, mechanism: Mechanism) -> None:
    if not _fits(options, mechanism, mechanism.trial_users):
        raise RequestError(
            f"--attack: so many whole releases of {mechanism.trial_users:,} users are too many to "
            "be drawn: name fewer --samples, a smaller --shuffle or a smaller --domain-size"
        )


def _fits(options: AuditOptions, mechanism: Mechanism, users: int) -> bool:
    """Whether whole releases of so many users can be drawn as often as is needed."""
    samples = options.samples or _WHOLE_SAMPLES
    return samples * max(mechanism.codes, users * max(mechanism.messages, 1.0)) <= _LARGEST


def _survives(options: AuditOptions, tried: Trial, screen: Console) -> bool:
    """Whether whole releases of a mechanism do."""
    samples = options.samples or _WHOLE_SAMPLES
    result = measure(tried, SecureRandom(), samples)
    answers.add("attacks", _attack(tried, samples, result.epsilon))
    screen.print(
        f"attack with {samples:,} {tried.what}, of each input: epsilon >= {result.epsilon:.6g} at "
        f"delta {tried.promise.delta:.6g}; promised is {upward(tried.promise.epsilon, 6):.6g} "
        f"(wrong with probability below {RISK:g})",
        highlight=False,
    )
    return result.epsilon <= tried.promise.epsilon


def _attack(tried: Trial, samples: int, least: float) -> dict[str, Any]:
    """An attack on whole releases, as programs read it."""
    promise = tried.promise
    return {"released": tried.what, "samples": samples, "at_least": least,
            "promised": promise.epsilon, "delta": promise.delta}  # fmt: skip


def _small_trials(name: str) -> Iterator[tuple[str, Trial]]:
    """What ships under a name, or all of it, each at a small example that stands beside it."""
    more, known = more_trials(), catalog.registrations()
    if name in more:
        yield name, more[name]()
        return
    chosen = known if name == EVERYTHING else {name: catalog.find(name, known)}
    for mechanism_name, registration in chosen.items():
        if name == EVERYTHING and not registration.claims_hold:
            continue
        # Of its examples the one that hides least: of the others a few samples prove nothing.
        small = max(registration.small, key=lambda example: float(example.get("epsilon", 0.0)))
        mechanism = registration.build(**small)
        yield mechanism_name, trial(mechanism)
        if not registration.batch and "shuffle" in registration.models:
            yield mechanism_name, trial(mechanism, _SMALL_BATCH, _SMALL_DELTA)
    if name == EVERYTHING:
        yield from ((mechanism_name, make()) for mechanism_name, make in more.items())


def _tried(options: AuditOptions, trials: Iterable[tuple[str, Trial]], screen: Console) -> int:
    """Attack small examples; a row for each."""
    samples, holds = options.samples or _WHOLE_SAMPLES, True
    table = Table(caption=f"a lower bound is wrong with probability below {RISK:g}")
    for heading in ("", "released", "promised", "delta", "at least"):
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for name, tried in trials:
        result, promise = measure(tried, SecureRandom(), samples), tried.promise
        true = result.epsilon <= promise.epsilon
        answers.add("attacks", {"name": name, **_attack(tried, samples, result.epsilon)})
        holds &= true
        table.add_row(
            name, tried.what, f"{upward(promise.epsilon, 4):.4g}", f"{promise.delta:.2g}",
            f"{result.epsilon:.4g}" + ("" if true else ": FALSE"),
        )  # fmt: skip
    screen.print(table)
    return _verdict(holds, screen)
