"""What a person asks of a training run, and which of it does not go together."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mechanisms import catalog
from pipelines.errors import RequestError
from pipelines.requests import Whole

_LARGEST_EPSILON = 700.0  # beyond it e^epsilon leaves the range of doubles, and all sense
MOST_STEPS = 100  # each is a dozen transforms of a pipeline that is written out beforehand

METHODS = ("local", "dp-sgd", "dssgd")
LOSSES = ("linear", "ridge", "logistic", "svm", "perceptron")


# Which options only some methods know.
_OWN = {
    "local": ("model", "epsilon_local", "steps", "mechanism", "hold_back", "clip"),
    "dp-sgd": ("lot", "epochs", "clip"),
    "dssgd": (
        "participants", "upload_share", "download_share", "selection", "exchange", "bound",
        "threshold", "epochs",
    ),
}  # fmt: skip


class TrainOptions(BaseModel):
    """What a person asks for; every number is checked before anything is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: tuple[str, ...] = Field(min_length=1)
    number: tuple[str, ...] = ()
    vector: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    target: str = Field(min_length=1)
    output: str = Field(min_length=1)
    user_column: str | None = None
    loss: Literal["linear", "ridge", "logistic", "svm", "perceptron"] = "linear"
    penalty: float | None = Field(None, ge=0)
    hidden: Whole | None = Field(None, ge=1, le=4096)
    method: Literal["local", "dp-sgd", "dssgd"] = "local"
    learning_rate: float | None = Field(None, gt=0)
    epsilon: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    delta: float | None = Field(None, ge=0, lt=1)
    min_reports: Whole | None = Field(None, ge=1)
    validation: tuple[str, ...] | None = None
    confidence: float = Field(0.95, gt=0, lt=1)
    # of the local method
    model: Literal["local", "shuffle"] | None = None
    epsilon_local: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    steps: Whole | None = Field(None, ge=1, le=MOST_STEPS)
    mechanism: str | None = None
    hold_back: float | None = Field(None, gt=0, lt=1)
    # of a curator with all rows in one place
    lot: Whole | None = Field(None, ge=1)
    epochs: Whole | None = Field(None, ge=1)
    clip: float | None = Field(None, gt=0)
    # of participants with rows of their own
    participants: Whole | None = Field(None, ge=1)
    upload_share: float | None = Field(None, gt=0, le=1)
    download_share: float | None = Field(None, gt=0, le=1)
    selection: Literal["largest", "random"] | None = None
    exchange: Literal["round-robin", "random", "asynchronous"] | None = None
    bound: float | None = Field(None, gt=0)
    threshold: float | None = Field(None, ge=0)

    @property
    def unit(self) -> str:
        """Whose row is protected."""
        return "row" if self.user_column is None else "user"

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


def require_sense(options: TrainOptions) -> None:
    """Refuse options that do not go together.

    Raises:
        RequestError: two options exclude each other, or one serves another method or loss.
    """
    own = _OWN[options.method]
    for method, names in _OWN.items():
        for name in names:
            if name not in own and getattr(options, name) is not None:
                flag = "--" + name.replace("_", "-")
                raise RequestError(f"{flag} belongs to --method {method}, not {options.method}")
    if options.validation is not None and options.hold_back is not None:
        raise RequestError(
            "--validation and --hold-back exclude each other: a public file gives the exact "
            "learning curve, so nobody need be held back for one"
        )
    if options.hidden is not None and options.loss != "perceptron":
        raise RequestError("--hidden is a number of units, which only --loss perceptron has")
    if options.penalty is not None and options.loss == "linear":
        raise RequestError("--penalty makes it --loss ridge; --loss linear has none")
    chosen = catalog.of_task("vector").get(options.mechanism or "")
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
