"""`hushbeam evaluate synthetic`: how near synthetic records come, and what is learned of them."""

from __future__ import annotations

import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import ALONE, BY_EPSILON
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Ns
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations.records import FORMS, RecordPopulation, read_records
from hushbeam.studies.systems.synthetic import SYSTEMS, lines, mean_distance, wrong
from mechanisms.randomness import SeededRandom
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and names of columns
        ("n", pa.int64()),  # records, of which four in five are released of
        ("d", pa.int64()),  # columns
        ("system", pa.string()),
        ("model", pa.string()),  # central, shuffle, or none for no privacy
        ("epsilon", pa.float64()),  # wanted of the release, where one record is added or removed
        ("delta", pa.float64()),
        ("repetition", pa.int64()),
        ("records", pa.int64()),  # that were made
        ("two_way", pa.float64()),  # total variation distance, on average over tables of two
        ("three_way", pa.float64()),  # the same of tables of three columns
        ("wrong", pa.float64()),  # share of the others that a tree grown on them gets wrong
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class SyntheticStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: Deltas = option("of the release", (1e-6,), metavar="D")
    ns: Ns = ()


def fit(options: SyntheticStudyOptions, cell: Cell, population: RecordPopulation) -> Simulation:
    """A system at the target of a cell."""
    _, build = SYSTEMS[cell.line.system]
    draw = build(population.sizes, cell.epsilon, cell.delta)
    train, test = population.split

    def release(rng: SeededRandom) -> dict[str, float]:
        made = draw(train, rng)
        return {
            "records": len(made),
            "two_way": mean_distance(made, train, population.sizes, 2),
            "three_way": mean_distance(made, train, population.sizes, 3),
            "wrong": wrong(made, test, population.sizes),
        }

    return Simulation({}, release)


STUDY = Study(
    options=SyntheticStudyOptions,
    lines=lambda options: lines(options.systems),
    data=lambda options: read_records(options.data, options.ns),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("two_way", "distance of tables of two columns (total variation)", errors=True),
        Measure("three_way", "distance of tables of three columns (total variation)", errors=True),
        Measure("wrong", "share that a tree grown on them gets wrong", log=False, errors=True),
    ],
    along=[BY_EPSILON],
    alone=ALONE,
)

COMMAND = StudyCommand(
    description="""\
Synthetic records, system by system: how far all tables of two and of three columns are from those
of the true records, and how often a decision tree that was grown on them gets the last column of
other true records wrong.
""",
    about=f"""\
systems, private where one record is added or removed:
  tables           as `hushbeam synthetic`, from a cross-tab of all columns with the job's noise
  tables@shuffle   the same among a shuffler's dummies
  tables-3         the same from a cross-tab that has all tables of three columns besides
  columns          the same from tables of one column each: nothing goes together
  aim, aim-3       AIM, for tables of two or of three columns; needs pip install '.[aim]'
  exact-tables     records of the true tables of two columns: no privacy
  truth            the true records: no privacy
  all: all of them

data: {FORMS}; nothing but a fifth of it is for testing
  people:N         made; their last column depends on two others together
  FILE.parquet:COLUMN:COLUMN...   values are those that occur; the last column is predicted

examples:
  hushbeam evaluate synthetic --systems tables columns exact-tables truth --epsilons 0.2 1 5 \\
      --data people:50000 --output people
  hushbeam evaluate synthetic --systems tables aim aim-3 truth --epsilons 1 --repetitions 3 \\
      --data examples/flights.parquet:origin:carrier:destination --output flights
""",
    figures=ERRORS,
    studies={"": STUDY},
)
