"""A request for a model, held against its input: all that is decided before a row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from mechanisms.channel import Guarantee
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.randomness import SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import read_bounds
from pipelines.logs.row_attributes import read_attributes
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.releases import release
from pipelines.train.curator import CuratorPlan, plan_curator
from pipelines.train.options import TrainOptions, require_sense
from pipelines.train.schema import Schema
from pipelines.train.sums import SumsPlan, plan_sums
from pipelines.wording import upward
from transforms.columns import type_name
from transforms.elements.blocks import Generator
from transforms.elements.progress import DIVERGED, REPORTS, WITHHELD
from transforms.encoders.attributes import Attribute, Category, Number
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import DeclaredValues, Domain, integer_range
from transforms.rows.encode import Examples

HIDDEN = 32  # units, where nobody says
RIDGE = 1e-3  # lambda, where nobody says


_SLOWER = "lower --learning-rate, which was {rate:.3g}, or have less noise"


@dataclass(frozen=True)
class TrainJob:
    """Everything that is decided before a row is read.

    Attributes:
        options: of the request.
        telemetry: the files.
        schema: what the model looks at and what it tells.
        objective: the model.
        plan: the method's.
        public: the files of public rows, or None.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: TrainOptions
    telemetry: inputs.Telemetry
    schema: Schema
    objective: Objective
    plan: CuratorPlan | SumsPlan
    public: inputs.Telemetry | None = None
    open_rng: Generator = SecureRandom

    @property
    def examples(self) -> Examples:
        """What takes blocks of rows to what the model sees."""
        return Examples(self.schema.features, isinstance(self.schema.target, Category))

    @property
    def min_reports(self) -> int:
        """The fewest rows that a release stands on."""
        return self.plan.least

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the release promises."""
        return self.plan.guarantees

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        declared = self.options.min_reports or self.options.expected
        lines = cautioned(self.guarantees[0].delta, declared)
        return [*lines, *next_to_nothing(*self.guarantees), *self.plan.cautions]

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """That too few took part; None if that is not why nothing was published.

        Raises:
            FailedError: the run diverged.
        """
        if DIVERGED in counted:
            slower = _SLOWER.format(rate=self.plan.training()["learning_rate"])
            raise FailedError(
                f"the run diverged at step {counted[DIVERGED]:,} and nothing is published; {slower}"
                f": {self.plan.less_noise}, fewer attributes"
            )
        if WITHHELD not in counted and (REPORTS in counted or self.options.hides_presence):
            return None
        unit, came = self.options.unit, counted.get(REPORTS, 0)
        if not came:
            return f"no {unit} could be used, so there is nothing to learn from"
        return f"{came:,} {unit}s could be used, fewer than --min-reports {self.plan.least:,}"


def read_schema(options: TrainOptions, telemetry: inputs.Telemetry) -> Schema:
    """The columns of a model, held against the files.

    Raises:
        RequestError: one is missing, or not what it must be.
    """
    attributes = read_attributes(options.number, options.vector, options.category, telemetry)
    target = read_target(options.target, options.loss, attributes, telemetry)
    columns = [*(attribute.column for attribute in attributes), target.column]
    kinds = {column: telemetry.column_type(column, "--input") for column in columns}
    return Schema(attributes, target, kinds)


def build_objective(options: TrainOptions, schema: Schema) -> Objective:
    """The model of the request, over these columns."""
    inputs, penalty = schema.features.inputs, options.penalty or 0.0
    classes = None if isinstance(schema.target, Number) else schema.target.size
    if options.loss == "perceptron":
        hidden = (options.hidden or HIDDEN,)
        return Perceptron(inputs, hidden, classes, penalty=penalty)
    if options.loss == "svm":
        return Hinge(inputs, penalty)
    if classes is None:
        ridge = RIDGE if options.penalty is None else options.penalty
        return SquaredError(inputs, ridge if options.loss == "ridge" else 0.0)
    return Logistic(inputs, penalty) if classes == 2 else Softmax(inputs, penalty, classes)


def prepare(
    options: TrainOptions, open_rng: Generator = SecureRandom, paid: bool = False
) -> TrainJob:
    """Check a request against its input and plan the run; reads footers only.

    Args:
        options: of the request.
        open_rng: opens generators on workers.
        paid: as of `inputs.Source`.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    require_sense(options)
    if not paid:
        release.require_vacant(options.output)
    telemetry = inputs.open_telemetry(options.input, reading=options.reading)
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    telemetry = telemetry.seen(options.view)
    schema = read_schema(options, telemetry)
    public = _public(options, telemetry, schema)
    try:
        objective = build_objective(options, schema)
        plan = _plan(options, telemetry.rows, objective, schema)
        released = plan.guarantees[0]
    except ValueError as error:
        raise RequestError(str(error)) from None
    if options.epsilon is not None and not released.epsilon <= options.epsilon:
        raise RequestError(
            f"--epsilon: {options.epsilon:g} is less than what can be proven of this run, "
            f"{upward(released.epsilon, 3):g}; ask for that much, or have more rows"
        )
    return TrainJob(options, telemetry, schema, objective, plan, public, open_rng)


def _plan(
    options: TrainOptions, rows: int, objective: Objective, schema: Schema
) -> CuratorPlan | SumsPlan:
    if options.epsilon is None:  # `require_sense` has refused that
        raise ValueError("epsilon is missing")
    if options.method == "sums":
        return plan_sums(options, schema.features, objective.loss.classes, options.epsilon)
    return plan_curator(options, rows, objective, options.epsilon)


def _public(
    options: TrainOptions, telemetry: inputs.Telemetry, schema: Schema
) -> inputs.Telemetry | None:
    """The public rows, whose columns must be those of the log."""
    if options.validation is None:
        return None
    try:
        public = inputs.open_telemetry(options.validation, reading=options.reading)
        public = public.seen(options.view)
    except RequestError as error:
        raise RequestError(str(error).replace("--input", "--validation")) from None
    # The curve on these rows is published without noise.
    common = set(telemetry.files) & set(public.files)
    if common:
        raise RequestError(
            f"--validation: {len(common)} of its files are among --input; rows whose errors are "
            "published as they are must be public"
        )
    for column, kind in schema.kinds.items():
        public_kind = public.column_type(column, "--validation")
        if public_kind != kind:
            raise RequestError(
                f"--validation: column {column!r} is {public_kind}, but {kind} in --input; write "
                "the files with one schema"
            )
    return public


_NUMBERS = ("linear", "ridge")  # losses of numbers
_SHAPE = (
    "--target must be COLUMN=LOW,HIGH for a number, or COLUMN=FILE, COLUMN=LOW..HIGH or "
    "COLUMN=A,B for a class"
)


def read_target(
    text: str, loss: str, attributes: tuple[Attribute, ...], telemetry: inputs.Telemetry
) -> Number | Category:
    """What a model tells, held against the files.

    Args:
        text: as it was typed.
        loss: by which it is known whether a number or a class is meant; a perceptron takes two
            numbers with a comma for bounds.
        attributes: what the model looks at.
        telemetry: the files.

    Raises:
        RequestError: it is malformed, does not fit the column or the loss, or the column is looked
            at already.
    """
    column, equals, spec = text.partition("=")
    if not (column and equals and spec):
        raise RequestError(f"{_SHAPE}, not {text!r}")
    kind = telemetry.column_type(column, "--target")
    if column in {attribute.column for attribute in attributes}:
        raise RequestError(
            f"--target: {column!r} is also among --number, --vector, --category; a model that is "
            "shown the answer learns nothing: leave it out there"
        )
    bounded = _are_bounds(spec)
    if loss in _NUMBERS and not bounded:
        raise RequestError(
            f"--target {text}: --loss {loss} predicts a number: give its bounds, as in "
            f"{column}=0,100; for classes say --loss logistic"
        )
    if loss in _NUMBERS or (loss == "perceptron" and bounded):
        target = Number(column, _bounds(text, spec))
        if not target.accepts(kind):
            raise RequestError(
                f"--target: {column!r} holds {type_name(kind)}; {loss} needs numbers"
                + telemetry.hint(column)
            )
        return target
    category = Category(column, _classes(spec, kind))
    if not category.accepts(kind):
        raise RequestError(
            f"--target: {column!r} holds {type_name(kind)}, which are not the classes that "
            f"{spec!r} declares"
        )
    if loss == "svm" and category.size != 2:
        raise RequestError(
            f"--target: --loss svm tells two classes apart, not {category.size:,}; logistic and "
            "perceptron take more"
        )
    return category


def _are_bounds(spec: str) -> bool:
    """Whether it is two numbers with a comma."""
    try:
        return len([float(part) for part in spec.split(",")]) == 2
    except ValueError:
        return False


def _bounds(text: str, spec: str) -> Bounds:
    try:
        return read_bounds(spec)
    except RequestError as error:
        line = str(error).replace("--bounds", f"--target {text}: the bounds", 1)
        raise RequestError(line) from None


def _classes(spec: str, kind: pa.DataType) -> Domain:
    """The classes of a column: a range, a list with commas, or a file."""
    if integer_range(spec) is None and "," in spec:
        classes = tuple(part.strip() for part in spec.split(","))
        if "" in classes or len(set(classes)) != len(classes):
            raise RequestError(f"--target: classes must be there, each once, not {spec!r}")
        return DeclaredValues(classes)
    try:
        return inputs.read_domain(spec, kind, other=False)
    except RequestError as error:
        # What classes must be is what a domain must be; only the flag has another name.
        raise RequestError(str(error).replace("--domain", "--target")) from None
