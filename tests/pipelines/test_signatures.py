"""What Beam looks up is looked up once, and is what Beam itself would find."""

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


class Stateful(Plain):
    def process(self, element, side, seen=SEEN):
        yield element


def _plain(element):
    return element


def _borrowing() -> Plain:
    step = Plain()
    step.process = Stateful().process
    return step


STEPS = {
    "plain": Plain(),
    "stateful": Stateful(),
    "borrowing": _borrowing(),
    "function": core.CallableWrapperDoFn(_plain),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_arguments_are_beams(step):
    names = ("process", "setup", "finish_bundle", "to_runner_api")
    theirs = [step.get_function_arguments(name) for name in names]
    with signatures.kept():
        for _ in range(2):
            assert [step.get_function_arguments(name) for name in names] == theirs


def test_a_method_is_looked_at_once_however_many_steps_have_it():
    class One(beam.DoFn):
        def process(self, element):
            yield element

        def mine(self, number=3):
            return number

    class Other(One):
        def process(self, element):
            yield element

    look = mock.Mock(wraps=core.get_signature)
    with mock.patch.object(core, "get_signature", look), signatures.kept():
        for step in (One(), One(), Other(), One(), Other()):
            step.get_function_arguments("process")
            step.get_function_arguments("mine")
    assert look.call_count == 3


def test_what_one_caller_changes_no_other_sees():
    with signatures.kept():
        for found in Plain().get_function_arguments("process"):
            found.clear()
        assert Plain().get_function_arguments("process")[0] == ["element", "window"]


def test_state_is_found():
    with signatures.kept():
        for _ in range(2):
            found = {name for name, step in STEPS.items() if userstate.is_stateful_dofn(step)}
            assert found == {"stateful", "borrowing"}


def test_beam_has_its_own_back_whatever_happened():
    usual = core.get_function_args_defaults, userstate.get_dofn_specs
    with pytest.raises(ZeroDivisionError), signatures.kept():
        _ = 1 / (core.get_function_args_defaults is usual[0])
    assert (core.get_function_args_defaults, userstate.get_dofn_specs) == usual
