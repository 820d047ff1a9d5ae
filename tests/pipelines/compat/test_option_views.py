"""Views of Beam's options are kept, and are what Beam's own would be."""

from __future__ import annotations

import pickle

import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    StandardOptions,
    TypeOptions,
    WorkerOptions,
)

from pipelines.compat.signatures import ViewedOptions

GROUPS = [StandardOptions, TypeOptions, DirectOptions, WorkerOptions]
FLAGS = ["--runner=FnApiRunner", "--streaming", "--no_pipeline_type_check", "--num_workers=3"]
groups = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)


@groups
@pytest.mark.parametrize("flags", [[], FLAGS], ids=["default", "set"])
def test_views_hold_what_beams_do(group, flags):
    ours, theirs = ViewedOptions(flags).view_as(group), PipelineOptions(flags).view_as(group)
    assert type(ours) is group
    assert str(ours) == str(theirs)


@groups
def test_a_group_is_parsed_once(group):
    options = ViewedOptions(FLAGS)
    assert options.view_as(group) is options.view_as(group)


def test_what_is_set_in_a_view_holds_for_all():
    options = ViewedOptions([])
    early = options.view_as(WorkerOptions)
    options.view_as(WorkerOptions).num_workers = 5
    other = options.view_as(StandardOptions).view_as(WorkerOptions)
    other.machine_type = "small"
    assert (early.num_workers, early.machine_type) == (5, "small")
    assert options.get_all_options()["num_workers"] == 5


def test_options_travel_without_their_views():
    options = ViewedOptions(FLAGS)
    options.view_as(WorkerOptions).num_workers = 5
    copy = pickle.loads(pickle.dumps(options))
    assert "_views" not in vars(copy)
    assert copy.view_as(WorkerOptions).num_workers == 5
    assert copy.get_all_options() == options.get_all_options()
    assert options.view_as(WorkerOptions).num_workers == 5


def test_two_options_share_nothing():
    one, other = ViewedOptions([]), ViewedOptions([])
    one.view_as(WorkerOptions).num_workers = 5
    assert other.view_as(WorkerOptions).num_workers is None
