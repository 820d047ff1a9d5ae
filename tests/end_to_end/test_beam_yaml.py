"""Beam YAML files whose steps are hushbeam's metrics, by the listing that is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml.yaml_transform import expand_pipeline

from pipelines.beam_yaml import steps
from pipelines.errors import RequestError
from pipelines.metrics import registry
from tests.fakes import canaries

LISTING = str(Path(__file__).parents[2] / "deploy" / "beam-yaml" / "providers.yaml")
LEAST = 1000


def build(document: str) -> beam.Pipeline:
    """The pipeline of a YAML file that includes the listing."""
    pipeline = beam.Pipeline(
        "FnApiRunner", options=PipelineOptions(["--pickle_library=cloudpickle"])
    )
    included = yaml.safe_load(document) | {"providers": [{"include": LISTING}]}
    expand_pipeline(pipeline, yaml.dump(included))
    return pipeline


def test_the_listing_names_every_kind() -> None:
    ((provider, *more),) = [yaml.safe_load(Path(LISTING).read_text())]
    assert (provider["type"], more) == ("python", [])
    transforms = provider["transforms"]
    classes = [getattr(steps, path.rpartition(".")[2]) for path in transforms.values()]
    assert sorted(each.KIND for each in classes) == sorted(registry.names())
    assert list(transforms) == [f"Hushbeam{each.__name__}" for each in classes]


def test_rows_of_the_step_before_are_published(workspace: Path) -> None:
    pq.write_table(canaries.table().select(["value", "number"]), workspace / "log.parquet")
    Path("values.txt").write_text("\n".join(canaries.DECLARED))
    document = f"""
pipeline:
  type: chain
  transforms:
    - type: ReadFromParquet
      config: {{path: log.parquet}}
    - type: MapToFields
      config: {{language: python, fields: {{said: value, unused: "number * 2"}}}}
    - type: HushbeamHistogram
      config: {{column: said, domain: values.txt, epsilon: 1, min_reports: {LEAST}, output: out}}
    - type: MapToFields
      config: {{fields: {{told: release_id}}}}
    - type: WriteToText
      config: {{path: told}}
"""
    build(document).run().wait_until_finish()
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["rows_read"] == canaries.ROWS
    assert statement["n"] == canaries.ROWS
    assert pq.ParquetFile("out/histogram.parquet").metadata.num_rows == len(canaries.DECLARED)
    assert statement["release_id"] in "".join(p.read_text() for p in workspace.glob("told*"))


def test_files_that_a_step_names_are_published(workspace: Path, log: str) -> None:
    document = f"""
pipeline:
  transforms:
    - type: HushbeamMean
      config: {{input: "{log}", column: real, bounds: "0,300", epsilon: 1, output: out,
        drawn_by: each-report}}
"""
    build(document).run().wait_until_finish()
    assert json.loads(Path("out/statement.json").read_text())["n"] == canaries.ROWS


def test_too_few_rows_are_withheld(workspace: Path) -> None:
    document = """
pipeline:
  type: chain
  transforms:
    - type: Create
      config: {elements: [{real: 1.0}, {real: 2.0}]}
    - type: HushbeamMean
      config: {column: real, bounds: "0,300", epsilon: 1, min_reports: 1000, output: out}
"""
    build(document).run().wait_until_finish()
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("column: nothing, domain: 0..3, epsilon: 1, min_reports: 9", "rows have no nothing"),
        ("column: real, domain: 0..3, epsilon: -1, min_reports: 9", "epsilon must be a number gr"),
        ("column: real, domain: 0..3, epsilon: 1, model: local", "min_reports is missing"),
        ("column: real, domain: 0..3, epsilon: 1, min_reports: 9, colour: 1", "colour"),
    ],
)
def test_what_cannot_be_is_refused_before_it_runs(config: str, told: str, workspace: Path) -> None:
    document = f"""
pipeline:
  type: chain
  transforms:
    - type: Create
      config: {{elements: [{{real: 1}}, {{real: 2}}]}}
    - type: HushbeamHistogram
      config: {{{config}, output: out}}
"""
    with pytest.raises(ValueError, match=told) as caught:
        build(document)
    assert isinstance(caught.value.__cause__, RequestError)


def test_a_runner_that_is_known_to_be_wrong_is_refused(workspace: Path) -> None:
    class DaskRunner(type(beam.Pipeline("FnApiRunner").runner)):  # by its name alone
        pass

    step = steps.Mean(output="out", epsilon=1.0, min_reports=LEAST, column="real", bounds="0,300")
    rows = beam.Pipeline(DaskRunner()) | beam.Create([beam.Row(real=1.0)])
    with pytest.raises(RequestError, match="DaskRunner loses"):
        rows | step
