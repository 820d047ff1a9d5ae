"""A metric as a step that publishes a release: the providers of Beam YAML.

deploy/beam-yaml/providers.yaml lists them. A step's words are the options of its command, with
underscores. It reads Parquet files that `input` names, or takes the rows of the step before it.
Every registered metric has its class here, made when it is first named: `Mean` for the metric mean,
`VectorMean` for vector-mean.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar, Optional

import apache_beam as beam
from apache_beam import typehints
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.row_type import RowTypeConstraint

from pipelines.errors import RequestError
from pipelines.jobs.run import beam_options
from pipelines.logs import inputs
from pipelines.metrics import registry
from pipelines.metrics.metric import Content, Metric, columns_read
from pipelines.metrics.options import ReleaseOptions
from pipelines.metrics.resolving import resolve
from pipelines.releases import release
from pipelines.releases.schema import joinable
from pipelines.request.options import description, undashed
from pipelines.request.requests import request
from pipelines.rows.tables import RowsToTables

_FROM_ROWS = ("rows of the pipeline",)
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


class PublishStep(beam.PTransform):
    """From files, or from rows, to the release of one metric.

    No ledger counts what it costs: that is `hushbeam run`'s. A run that is repeated into another
    folder spends its privacy anew.

    Args:
        words: the options of the metric's command, with underscores. `input` may be one file, or
            missing where a step before this one yields rows; `min_reports` must then be there, but
            for kinds that hide how many there are.

    Raises:
        RequestError: something is wrong with what was asked, or the folder is taken.
    """

    KIND: ClassVar[str]
    _yaml_requires_inputs = False  # Beam YAML asks for this: `input` may name files instead

    def __init__(self, **words: Any) -> None:
        super().__init__()
        typed = {name: tuple(x) if isinstance(x, list) else x for name, x in words.items()}
        files = typed.get("input") or ()
        files = (files,) if isinstance(files, str) else files
        hidden = registry.options(self.KIND).hides_who(words)
        if not (files or hidden or typed.get("min_reports") is not None):
            raise RequestError(f"{type(self).__name__}: min_reports is missing, or input")
        self._metric = self._resolved(typed | {"input": files or _FROM_ROWS}, read=bool(files))
        self._release_id = uuid.uuid4().hex

    def _resolved(self, typed: dict[str, Any], read: bool) -> Metric:
        """The metric, held against its files if there are any to read."""
        try:
            options = request(registry.options(self.KIND), typed)
            release.require_vacant(options.output)
            return resolve(options, inputs.ALONE if read else inputs.Source(inputs.UNREAD))
        except RequestError as error:  # in a YAML file, options have no dashes
            raise RequestError(f"{type(self).__name__}: {undashed(str(error))}") from None

    def expand(self, source: beam.PCollection | beam.pvalue.PBegin) -> beam.PCollection:
        # Who wrote the YAML file has not passed hushbeam's door: the runner is looked at here.
        beam_options([f"--runner={type(source.pipeline.runner).__name__}"])
        if isinstance(source, beam.PCollection):
            self._require_whole(source)
        columns, telemetry = columns_read(self._metric), self._metric.telemetry
        tables = source | "Read" >> (
            RowsToTables(tuple(sorted(columns))) if telemetry.unread else telemetry.read(columns)
        )
        step = PublishAndTellDoFn(self._metric.options.output, self._release_id)
        return self._metric.whole(tables) | "Release" >> beam.ParDo(step)

    def _require_whole(self, rows: beam.PCollection) -> None:
        """Refuse rows in windows: a window that nobody is in has no release, which tells of that.

        Raises:
            RequestError: they are, or have no end.
        """
        if not isinstance(rows.windowing.windowfn, GlobalWindows) or not rows.is_bounded:
            raise RequestError(
                f"{type(self).__name__}: one release is made of all rows, and these come in "
                "windows or without end: put them into GlobalWindows, or have `hushbeam stream` "
                "release a window at a time"
            )


def class_name(kind: str) -> str:
    """What the step of a kind of metric is called.

    >>> class_name("active-users")
    'ActiveUsers'
    """
    return "".join(part.capitalize() for part in kind.split("-"))


def __getattr__(name: str) -> type[PublishStep]:
    """The step of a metric, by the name of its class."""
    for kind in registry.names():
        if class_name(kind) == name:
            step = globals()[name] = _step(kind)  # once: what is pickled is known by its name
            return step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _step(kind: str) -> type[PublishStep]:
    """The class of a kind of metric, whose signature and docstring tell Beam the step's words."""
    options = registry.options(kind)

    def initialise(self: PublishStep, **words: Any) -> None:
        PublishStep.__init__(self, **words)

    words = inspect.signature(options).parameters.values()
    initialise.__signature__ = inspect.Signature([_SELF, *words])  # type: ignore[attr-defined]
    members = {"KIND": kind, "__init__": initialise, "__module__": __name__}
    return type(class_name(kind), (PublishStep,), members | {"__doc__": _documented(options)})


def _documented(options: type[ReleaseOptions]) -> str:
    """The docstring of a step."""
    words = (
        f"    {name}: {undashed(str(description(field)))}"
        for name, field in options.model_fields.items()
    )
    return "\n".join([undashed(options.description), "", "Args:", *words])


@typehints.with_output_types(
    RowTypeConstraint.from_fields(
        [("output", str), ("release_id", str), ("reports", Optional[int])]  # noqa: UP045 (Beam's)
    )
)
class PublishAndTellDoFn(beam.DoFn):
    """Writes a release, and says where it is."""

    def __init__(self, folder: str, release_id: str) -> None:
        self._folder, self._release_id = folder, release_id

    def process(self, content: Content) -> Iterator[beam.Row]:
        if not content.files:
            return
        statement = {**content.statement, "release_id": self._release_id}
        release.publish(self._folder, joinable(content.files, statement), statement)
        reports = statement.get("n")  # no number where nobody is to learn it
        yield beam.Row(output=self._folder, release_id=self._release_id, reports=reports)
