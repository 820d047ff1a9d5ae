"""What a person asks of a training run, and which of it does not go together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mechanisms.catalog import of_task
from pipelines.errors import RequestError
from pipelines.metrics.options import RowOptions, published
from pipelines.request.options import PROMISE, RESULT, flag, option
from pipelines.request.requests import AS_TYPED, Count, Delta, Epsilon

MOST_STEPS = 100  # each is a dozen transforms of a pipeline that is written out beforehand

_LOCAL, _CURATOR, _AMONG = "--method local", "--method dp-sgd", "--method dssgd"

# What is for gradients alone, and why sums know nothing of it.
_NO_SUM = {
    "learning_rate": "there are no steps to choose: their lengths follow from the sums",
    "steps": "there are no steps to choose: one round of sums tells all, or a few that are fixed",
    "clip": "sums of numbers in their bounds are bounded",
    "mechanism": "nothing that users send is randomised",
    "epsilon_local": "nothing that users send is randomised",
    "honest_share": "the promise counts on the shuffler, and on no user",
    "hold_back": "the sums tell the error of the model, too",
    "validation": "the sums tell the error of the model, too; score public rows with model.joblib",
    "min_reports": "to withhold a release would tell how many took part, which is hidden",
}

# Which options only some methods know.
_OWN = {
    "local": (
        "model", "epsilon_local", "honest_share", "steps", "mechanism", "hold_back", "clip",
        "dummies", "expected",
    ),
    "dp-sgd": ("lot", "epochs", "clip"),
    "dssgd": (
        "participants", "upload_share", "download_share", "selection", "exchange", "bound",
        "threshold", "epochs",
    ),
}  # fmt: skip

_MORE = """\
methods:
  local     every user computes the gradient of the own row once, randomises it and sends it; nobody
            needs to be trusted (--model local), or a shuffler (--model shuffle)
            --dummies shuffler: linear, ridge and logistic regression in one round of sums, or a
            few, whose error is that of a trusted collector; whether anybody takes part is hidden
  dp-sgd    a curator holds all rows, clips gradients and adds noise to their sums
  dssgd     participants hold rows of their own and exchange some of what they learn, with noise

examples:
  hushbeam train --input 'census/*.parquet' --number age=0,100 --number 'f*=-1,1' \\
      --category city=cities.txt --target income=0,200000 --epsilon 1 --model local --output model
  hushbeam train --input 'images/*.parquet' --vector pixels=784:0,255 --target label=0..9 \\
      --loss perceptron --method dp-sgd --epsilon 8 --delta 1e-5 --output digits
"""


class TrainOptions(RowOptions):
    """What a person asks for; every number is checked before anything is read."""

    description: ClassVar[str] = (
        "Fit a model to rows that nobody sees, and publish it with its guarantee."
    )
    examples: ClassVar[str] = _MORE
    subject: ClassVar[str] = "what is learnt, and from what"
    withheld: ClassVar[str] = "too few users"
    failed: ClassVar[str] = ", or diverged"

    target: str = option(
        "what the model predicts: a number and its bounds (income=0,200000), or a class and its "
        "values: a range (label=0..9), a list (sex=m,f) or a text file, one a line",
        metavar="COLUMN=SPEC", min_length=1,
    )  # fmt: skip
    loss: Literal["linear", "ridge", "logistic", "svm", "perceptron"] = option(
        "linear and ridge tell numbers, logistic and svm classes, perceptron either", "linear"
    )
    penalty: float | None = option(
        "lambda of the penalty lambda/2 |weights|^2 (default: 0.001 for ridge, else 0)",
        None, metavar="L", ge=0,
    )  # fmt: skip
    hidden: Annotated[int, Field(ge=1, le=4096), AS_TYPED] | None = option(
        "units of the perceptron (default: 32)", None, metavar="N"
    )
    learning_rate: float | None = option(
        "the size of steps (default: from what is declared)", None, metavar="R", gt=0
    )
    clip: float | None = option(
        "where gradients are cut: local, each coordinate of them (default: 0.5, or what the spread "
        "of the targets calls for, which the users of an opening report; a number overrules it, "
        "and there is no opening); dp-sgd, their length (default: 1)",
        None, metavar="C", gt=0,
    )  # fmt: skip
    method: Literal["local", "dp-sgd", "dssgd"] = option("see below", "local", group=PROMISE)
    delta: Delta | None = option(
        "the probability that epsilon may fail (default: local 0, else 1e-6)", None, group=PROMISE
    )
    min_reports: Count | None = option(
        "local: skip a step with fewer users (default: in the shuffle model what groups surely "
        "have). Else: withhold a release of fewer, and lay the run out for N (default: the number "
        "of rows; with --user-column name one near the number of users)",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    # None: the other methods have no model to choose.
    model: Literal["local", "shuffle"] | None = option(  # type: ignore[assignment]
        "local: every report alone is epsilon-private. shuffle: each step's batch is (epsilon, "
        "delta)-private, at a smaller error (default: shuffle)",
        None, group=_LOCAL,
    )  # fmt: skip
    epsilon_local: Epsilon | None = option(
        "shuffle model: the most that one report may reveal", None, group=_LOCAL, metavar="E"
    )
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS), AS_TYPED] | None = option(
        "of gradient descent, each by users of its own (default: as many as noise allows)",
        None, group=_LOCAL, metavar="N",
    )  # fmt: skip
    mechanism: str | None = option(
        lambda: "auto takes the one with the least error (default: auto); or one of: "
        + ", ".join(name for name, one in of_task("vector").items() if not one.biased),
        None, group=_LOCAL, metavar="NAME",
    )  # fmt: skip
    hold_back: float | None = option(
        "so many users train nothing and tell privately how wrong the model is, and how wrong the "
        "best constant, under the same promise: a learning curve with error bars (default: 0.05, "
        "who tell of the last model only; 0 for nobody, and no comparison)",
        None, group=_LOCAL, metavar="SHARE", ge=0, lt=1,
    )  # fmt: skip
    dummies: Literal["shuffler"] | None = option(
        "shuffler: linear and ridge regression from sums of products. Nothing is randomised by "
        "devices; the shuffler, here the job, draws dummies among what they send, and is trusted "
        "to tell nobody (default: gradients, each randomised by its user)",
        None, group=_LOCAL,
    )  # fmt: skip
    expected: Count | None = option(
        "with --dummies: about how many users, or rows, take part, as far as that is public "
        "knowledge: sums are rounded finely enough for them (default: 1,000,000)",
        None, group=_LOCAL, metavar="N",
    )  # fmt: skip
    lot: Count | None = option(
        "rows of a step, on average (default: a quarter of all)",
        None, group=_CURATOR, metavar="N",
    )  # fmt: skip
    epochs: Count | None = option(
        "how often each row is seen, on average (default: 25)",
        None, group=_CURATOR, metavar="N",
    )  # fmt: skip
    participants: Count | None = option(
        "among whom rows are dealt out (default: 30)", None, group=_AMONG, metavar="N"
    )
    upload_share: float | None = option(
        "of the parameters that are uploaded (default: 0.1)",
        None, group=_AMONG, metavar="S", gt=0, le=1,
    )  # fmt: skip
    download_share: float | None = option(
        "of the parameters that are fetched (default: 1)",
        None, group=_AMONG, metavar="S", gt=0, le=1,
    )  # fmt: skip
    selection: Literal["largest", "random"] | None = option(
        "which are uploaded: those found large under noise, or any (default: random, for the "
        "choice costs privacy too)",
        None, group=_AMONG,
    )  # fmt: skip
    exchange: Literal["round-robin", "random", "asynchronous"] | None = option(
        "in which order participants exchange (default: round-robin)", None, group=_AMONG
    )
    bound: float | None = option(
        "gamma: what is uploaded is cut to it (default: 0.001)",
        None, group=_AMONG, metavar="G", gt=0,
    )  # fmt: skip
    threshold: float | None = option(
        "tau: what a large change exceeds (default: 0.0001)",
        None, group=_AMONG, metavar="T", ge=0,
    )  # fmt: skip
    unusable: str = option(
        "a row that lacks a value, or the target. hide: it takes part like any other, with a "
        "gradient of 0, so that nobody learns whose it was. count: such rows are left out and "
        "counted exactly, which nothing protects",
        "hide", group=PROMISE, metavar="hide|count", pattern=r"^(hide|count)$",
    )  # fmt: skip
    output: str = published("model.json", "model.joblib", "curve.parquet")
    validation: tuple[str, ...] | None = option(
        "Parquet files of public rows with the same columns: how well the model does on them is "
        "published as it is, after every step",
        None, group=RESULT, metavar="FILE",
    )  # fmt: skip

    @property
    def shuffled(self) -> bool:
        """Whether reports go through a shuffler."""
        return self.method == "local" and self.model != "local"

    @property
    def chosen_mechanism(self) -> str:
        """Of the local method: the name asked for, or "auto"."""
        return self.mechanism or "auto"


def one_row(options: TrainOptions) -> str:
    """What a guarantee is about."""
    return "one row" if options.user_column is None else "the row of one user"


def another_row(options: TrainOptions) -> str:
    """What it may be replaced by."""
    return "any other row that can be used" + ", or by one that cannot" * options.hides


def counted_rows(options: TrainOptions) -> list[str]:
    """Of which rows it is published how many there are, beside those that were used."""
    return ["of rows read"] * (options.unit == "row") + ["of rejects by reason"] * (
        not options.hides
    )


def require_sense(options: TrainOptions) -> None:
    """Refuse options that do not go together.

    Raises:
        RequestError: two options exclude each other, or one serves another method or loss.
    """
    if options.fused:
        raise RequestError(
            "--shuffler fused: a model is learnt step by step, each from what was shuffled; leave "
            "it out"
        )
    own = _OWN[options.method]
    for method, names in _OWN.items():
        for name in names:
            if name not in own and getattr(options, name) is not None:
                raise RequestError(
                    f"{flag(name)} belongs to --method {method}, not {options.method}"
                )
    if options.dummies is not None:
        _require_sums(options)
    elif options.expected is not None:
        raise RequestError("--expected is for --dummies shuffler; --min-reports is for gradients")
    if options.validation is not None and options.hold_back:
        raise RequestError(
            "--validation and --hold-back exclude each other: a public file gives the exact "
            "learning curve, so nobody need be held back for one"
        )
    if options.hidden is not None and options.loss != "perceptron":
        raise RequestError("--hidden is a number of units, which only --loss perceptron has")
    if options.penalty is not None and options.loss == "linear":
        raise RequestError("--penalty makes it --loss ridge; --loss linear has none")
    chosen = of_task("vector").get(options.mechanism or "")
    if chosen is not None and chosen.biased:  # errors of steps would add up
        raise RequestError(
            f"--mechanism: {options.mechanism} estimates what is left of a gradient after a "
            "projection, and steps along that lead elsewhere, however many users there are; take "
            "an unbiased one, or auto"
        )
    if options.epsilon is None and options.epsilon_local is None:
        raise RequestError("--epsilon is missing: name the privacy loss that you accept")
    if options.epsilon is None and not options.shuffled:
        raise RequestError("--epsilon is missing: --epsilon-local alone serves --model shuffle")


def _require_sums(options: TrainOptions) -> None:
    """Refuse what sums among dummies have no use for.

    Raises:
        RequestError: there is such an option, or a model that does not follow from sums.
    """
    if options.loss not in ("linear", "ridge", "logistic"):
        raise RequestError(
            f"--dummies: linear, ridge and logistic regression follow from sums; --loss "
            f"{options.loss} needs gradients of every step: leave --dummies out"
        )
    if options.model == "local":
        raise RequestError("--dummies: it is the shuffler who draws them: --model shuffle")
    if not options.hides:
        raise RequestError("--unusable count tells how many took part, which --dummies hides")
    for name, why in _NO_SUM.items():
        if getattr(options, name) is not None:
            raise RequestError(f"{flag(name)} does not go with --dummies {options.dummies}: {why}")
