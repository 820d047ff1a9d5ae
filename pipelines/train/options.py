"""What a person asks of a training run, and which of it does not go together."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pipelines.command.arguments import add_command
from pipelines.errors import RequestError
from pipelines.metrics.options import RowOptions, published
from pipelines.request.options import PROMISE, flag, option
from pipelines.request.requests import AS_TYPED, Count, Delta

_SUMS, _CURATOR = "--method sums", "--method dp-sgd"
SUMMED = ("linear", "ridge", "logistic")
"""The losses that sums serve."""

# What is for gradients alone, and why sums know nothing of it.
_NO_SUM = {
    "learning_rate": "there are no steps to choose: their lengths follow from the sums",
    "lot": "there are no lots: all rows are summed",
    "epochs": "one round of sums tells all, or a few that are fixed",
    "clip": "sums of numbers in their bounds are bounded",
    "validation": "the sums tell the error of the model, too; score public rows with model.joblib",
    "min_reports": "to withhold a release would tell how many took part, which is hidden",
}

_MORE = """\
methods:
  sums      linear, ridge and logistic regression in one round of sums of products, or a few, to
            which the job adds noise: the error is that of a trusted collector, and whether anybody
            takes part is hidden
  dp-sgd    any loss: a curator holds all rows, clips gradients and adds noise to their sums

examples:
  hushbeam train --input 'census/*.parquet' --number age=0,100 --number 'f*=-1,1' \\
      --category city=cities.txt --target income=0,200000 --epsilon 1 --output model
  hushbeam train --input 'images/*.parquet' --vector pixels=784:0,255 --target label=0..9 \\
      --loss perceptron --method dp-sgd --epsilon 8 --delta 1e-5 --output digits
"""


class TrainOptions(RowOptions):
    """What a person asks for; every number is checked before anything is read."""

    description: ClassVar[str] = "Fit a model to rows, and publish it with its guarantee."
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
    delta: Delta | None = option(
        "the probability that epsilon may fail (default: 1e-6, less for a million rows and more)",
        None, group=PROMISE,
    )  # fmt: skip
    method: Literal["sums", "dp-sgd"] = option("see below", "sums", group=PROMISE)
    unusable: str = option(
        "a row that lacks a value, or the target. hide: it adds nothing to any sum, or has a "
        "gradient of 0, so that nobody learns whose it was. count, with dp-sgd: such rows are left "
        "out and counted exactly, which nothing protects",
        "hide", group=PROMISE, metavar="hide|count", pattern=r"^(hide|count)$",
    )  # fmt: skip
    expected: Count | None = option(
        "about how many users, or rows, take part, as far as that is public knowledge: sums are "
        "rounded finely enough for them (default: 1,000,000)",
        None, group=_SUMS, metavar="N",
    )  # fmt: skip
    min_reports: Count | None = option(
        "withhold a release of fewer, and lay the run out for N (default: the number of rows; with "
        "--user-column name one near the number of users)",
        None, group=_CURATOR, metavar="N",
    )  # fmt: skip
    learning_rate: float | None = option(
        "the size of steps (default: from what is declared)",
        None, group=_CURATOR, metavar="R", gt=0,
    )  # fmt: skip
    clip: float | None = option(
        "the length at which gradients are clipped (default: 1)",
        None, group=_CURATOR, metavar="C", gt=0,
    )  # fmt: skip
    lot: Count | None = option(
        "rows of a step, on average (default: a quarter of all)",
        None, group=_CURATOR, metavar="N",
    )  # fmt: skip
    epochs: Count | None = option(
        "how often each row is seen, on average (default: 25)",
        None, group=_CURATOR, metavar="N",
    )  # fmt: skip
    validation: tuple[str, ...] | None = option(
        "Parquet files of public rows with the same columns: how well the model does on them is "
        "published as it is, after every step",
        None, group=_CURATOR, metavar="FILE",
    )  # fmt: skip
    output: str = published("model.json", "model.joblib", "curve.parquet")

    @property
    def hides(self) -> bool:
        """Whether a row that cannot be used takes part like any other."""
        return self.unusable == "hide"

    @property
    def hides_presence(self) -> bool:
        """Whether nobody learns how many take part."""
        return self.method == "sums"


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add_command(commands, "train", TrainOptions, "pipelines.train.publish:run")


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
    if options.method == "sums":
        _require_sums(options)
    elif options.expected is not None:
        raise RequestError("--expected is for --method sums; --min-reports is for dp-sgd")
    if options.hidden is not None and options.loss != "perceptron":
        raise RequestError("--hidden is a number of units, which only --loss perceptron has")
    if options.penalty is not None and options.loss == "linear":
        raise RequestError("--penalty makes it --loss ridge; --loss linear has none")
    if options.epsilon is None:
        raise RequestError("--epsilon is missing: name the privacy loss that you accept")


def _require_sums(options: TrainOptions) -> None:
    if options.loss not in SUMMED:
        raise RequestError(
            f"--loss {options.loss} does not follow from sums: add --method dp-sgd, whose curator "
            "sees the rows"
        )
    for name, why in _NO_SUM.items():
        if getattr(options, name) is not None:
            raise RequestError(f"{flag(name)} belongs to --method dp-sgd: {why}")
    if not options.hides:
        raise RequestError(
            "--unusable count belongs to --method dp-sgd: it tells how many took part, which sums "
            "hide"
        )
