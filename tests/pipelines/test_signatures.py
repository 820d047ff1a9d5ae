"""Arguments of methods are looked up once, and are what Beam itself would find."""

from __future__ import annotations

from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.transforms import core, userstate
from apache_beam.transforms.userstate import CombiningValueStateSpec

from pipelines import signatures

SEEN = beam.DoFn.StateParam(CombiningValueStateSpec("seen", sum))


class Plain(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam):
        yield element


class Other(Plain):
    def process(self, element, side, seen=SEEN):
        yield element


steps = pytest.mark.parametrize("step", [Plain(), Other(), core.CallableWrapperDoFn(abs)])


def _all(step: beam.DoFn) -> list[object]:
    names = ("process", "setup", "finish_bundle", "to_runner_api")
    return [step.get_function_arguments(name) for name in names]


@steps
def test_arguments_are_beams(step):
    theirs = _all(step)
    with signatures.kept():
        assert [_all(step), _all(step)] == [theirs, theirs]


def test_a_method_is_looked_at_once_however_many_steps_have_it():
    with (
        mock.patch.object(core, "get_signature", wraps=core.get_signature) as look,
        signatures.kept(),
    ):
        for _ in range(3):
            for step in (Plain(), Plain(), Other()):
                step.get_function_arguments("setup")
                step.get_function_arguments("process")
    assert look.call_count == 3  # `setup` is the same method


def test_what_one_caller_changes_no_other_sees():
    with signatures.kept():
        for found in Plain().get_function_arguments("process"):
            found.clear()
        assert Plain().get_function_arguments("process")[0] == ["element", "window"]


def test_state_is_found():
    with signatures.kept():
        found = [userstate.is_stateful_dofn(step) for step in (Plain(), Other(), Plain())]
    assert found == [False, True, False]


def test_beam_has_its_own_back_whatever_happened():
    usual = core.get_function_args_defaults
    with pytest.raises(ZeroDivisionError), signatures.kept():
        _ = 1 / (core.get_function_args_defaults is usual)
    assert core.get_function_args_defaults is usual
