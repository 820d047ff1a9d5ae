"""`hushbeam audit`: is what a mechanism claims true? Computed from its channel, and attacked."""

from __future__ import annotations

import argparse
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.table import Table

from mechanisms import catalog
from mechanisms.channel import Mechanism
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.audit import RISK, attack, audit, audit_batch
from mechanisms.randomness import SecureRandom
from pipelines.errors import DONE, RequestError
from pipelines.requests import Whole, no_more, request
from pipelines.views.wording import upward

CLAIM_IS_FALSE = 1

_EXAMPLE = """\
examples:
  hushbeam audit olh --epsilon 1 --domain-size 1000
  hushbeam audit grr --epsilon 6 --domain-size 915 --shuffle 602325 --delta 1e-6
  hushbeam audit poisson --epsilon 0.5 --domain-size 915 --shuffle 602325 --delta 1e-6
  hushbeam audit srr --epsilon 2 --domain-size 100 --parameter hash_range=11 --attack

exit codes: 0 the claim holds; 1 it does not; 2 the request is wrong.
"""


class AuditOptions(BaseModel):
    """What a person wants audited."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mechanism: str
    epsilon: float | None = None
    delta: float | None = Field(None, gt=0, lt=1)
    domain_size: int | None = None
    parameter: tuple[str, ...] = ()
    shuffle: Whole | None = Field(None, ge=1, le=1 << 40)
    attack: bool = False
    samples: Whole = Field(1_000_000, ge=1000, le=1 << 30)


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "audit",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("mechanism", help=f"one of: {', '.join(catalog.names())}")
    parser.add_argument("--epsilon", help="of one report")
    parser.add_argument("--domain-size", metavar="D", help="how many values")
    parser.add_argument(
        "--parameter", action="append", metavar="NAME=NUMBER",
        help="any other parameter of the mechanism; may be repeated",
    )  # fmt: skip
    parser.add_argument("--shuffle", metavar="N", help="bracket the epsilon of N shuffled reports")
    parser.add_argument("--delta", help="with --shuffle (default: 1e-6)")
    parser.add_argument(
        "--attack", action="store_true",
        help="tell two inputs apart from samples of the shipped sampler",
    )  # fmt: skip
    parser.add_argument("--samples", metavar="N", help="of each input (default: 1,000,000)")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Print claim and fact; 1 if they disagree."""
    no_more(beam_arguments)
    options = request(AuditOptions, {k: v for k, v in vars(arguments).items() if k != "command"})
    if options.delta is not None and options.shuffle is None:
        raise RequestError("--delta goes with --shuffle: one report's delta is its mechanism's own")
    try:
        mechanism, screen = _built(options), Console()
        if mechanism.guarantee.model == "shuffle":
            return _audited_batch(options, mechanism, screen)
        return _audited(options, mechanism, screen)
    except ValueError as error:
        raise RequestError(str(error)) from None


def _built(options: AuditOptions) -> Mechanism:
    """The mechanism to be audited."""
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
        screen.print(
            f"{n:,} shuffled reports, delta {delta:g}: "
            f"epsilon in [{lower:.6g}, {upward(upper, 6):.6g}]",
            highlight=False,
        )
    if options.attack:
        holds &= _attacked(options, mechanism, screen)
    screen.print("the claim holds" if holds else "THE CLAIM IS FALSE", style="bold")
    return DONE if holds else CLAIM_IS_FALSE


def _audited_batch(options: AuditOptions, mechanism: Mechanism, screen: Console) -> int:
    """A claim about a batch: of one report there is none to be attacked."""
    if options.attack:
        raise RequestError(
            f"--attack: {options.mechanism} is private as a batch, and an attack looks at single "
            "reports"
        )
    result = audit_batch(mechanism, options.shuffle or 1)
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
    screen.print("the claim holds" if result.holds else "THE CLAIM IS FALSE", style="bold")
    return DONE if result.holds else CLAIM_IS_FALSE


def _attacked(options: AuditOptions, mechanism: Mechanism, screen: Console) -> bool:
    """Whether the sampler survives."""
    result = attack(mechanism, SecureRandom(), options.samples)
    screen.print(
        f"attack with {result.samples:,} reports of each input: epsilon >= {result.epsilon:.6g} "
        f"(wrong with probability below {RISK:g})",
        highlight=False,
    )
    if not result.follows_channel:
        screen.print("the samples refute the channel: the sampler is not what the table says")
    return result.follows_channel and result.epsilon <= mechanism.guarantee.epsilon
