"""What a person asks for of the share of even numbers."""

from __future__ import annotations

from typing import ClassVar

from pipelines.metrics.options import MetricOptions, published
from pipelines.request.options import option


class EvenShareOptions(MetricOptions):
    """Input, output, users, model and losses are there already."""

    metric: ClassVar[str] = "even_share.metric:EvenShare"
    brief: ClassVar[str] = "the share of even numbers in a column"
    description: ClassVar[str] = "The share of even numbers in a column of integers."

    column: str = option("the column of integers")
    output: str = published("even_share.parquet")
