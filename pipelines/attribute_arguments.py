"""The options on the command line that say what a row consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.inputs import Telemetry
    from transforms.encoders.attributes import Attribute


def add_attributes(group: Any) -> None:
    """--number, --vector, --category, each as often as needed."""
    group.add_argument(
        "--number", action="append", default=[], metavar="COLUMN=L,U",
        help="a column of numbers, or several by a glob such as 'f*', and the least and the "
        "largest value; values beyond are clipped, uncounted. Bounds must be public knowledge, not "
        "taken from the data. As often as needed",
    )  # fmt: skip
    group.add_argument(
        "--vector", action="append", default=[], metavar="COLUMN=LENGTH:L,U",
        help="a column of lists of LENGTH numbers, or of as many bytes, and the bounds of all of "
        "them; rows of another length are rejected and counted",
    )  # fmt: skip
    group.add_argument(
        "--category", action="append", default=[], metavar="COLUMN=FILE|LOW..HIGH",
        help="a column of categories and what they are: a text file with one a line, or a range of "
        "integers; public knowledge, not taken from the data. As often as needed",
    )  # fmt: skip


def read_attributes(
    numbers: Sequence[str],
    vectors: Sequence[str],
    categories: Sequence[str],
    telemetry: Telemetry,
) -> tuple[Attribute, ...]:
    """What these options say, held against the files: see `pipelines.row_attributes`."""
    # Beam takes a second to import, and warns while it does: a parser need not wait.
    from pipelines import row_attributes

    return row_attributes.read_attributes(numbers, vectors, categories, telemetry)
