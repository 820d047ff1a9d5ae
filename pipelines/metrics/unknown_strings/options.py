"""What a person asks of unknown strings."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.metrics.counting.options import HiddenOptions
from pipelines.metrics.options import published
from pipelines.request.options import PROMISE, option
from pipelines.request.requests import AS_TYPED, Count


class UnknownStringsOptions(HiddenOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.unknown_strings.metric:UnknownStrings"
    sizing: ClassVar[str] = "pipelines.size.strings:StringsQuestion"
    brief: ClassVar[str] = "frequent strings, above a noisy threshold"
    description: ClassVar[str] = (
        "The strings that enough users hold, of which none was declared, and how many hold each: "
        "names of new features, error messages, addresses, words. The job counts them, adds noise "
        "to each number, and publishes what is above a threshold that noise alone never reaches; "
        "all others it forgets. Whether anybody takes part is hidden. Some twenty holders are "
        "enough, of however many users; the job is trusted with the strings."
    )
    subject: ClassVar[str] = "what is looked for"

    column: str = option(
        "the column whose strings are looked for; integers are taken as their digits"
    )
    max_length: Annotated[int, Field(ge=1, le=1 << 10), AS_TYPED] = option(
        "how many bytes of a string are looked at, in UTF-8; longer ones are counted, and "
        "published, by their beginning",
        64, metavar="L",
    )  # fmt: skip
    rows_per_user: Count = option(
        "k, how many different strings of a user count; where a user has more they are drawn "
        "uniformly. The threshold grows with k where k is small, and with its square root from "
        "about 5 on: take what most users have",
        1, group=PROMISE, metavar="K", le=1 << 16,
    )  # fmt: skip
    output: str = published("unknown_strings.parquet")
