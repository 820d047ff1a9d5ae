"""What Beam looks up is looked up once, and is what Beam itself would find."""

from __future__ import annotations

import gc
import inspect
import weakref
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import execution
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import core, userstate
from apache_beam.transforms.userstate import CombiningValueStateSpec

from pipelines.compat import signatures

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


class Passing(beam.DoFn):
    """Every attribute is that of the step that it holds."""

    def __init__(self, step):
        self.step = step

    def __getattr__(self, name):
        return getattr(self.step, name)

    process = property(lambda self: self.step.process)


def _timed(step: beam.DoFn) -> beam.DoFn:
    """Beam's own, for `with_exception_handling(timeout=...)`."""
    return core._TimeoutDoFn(step, 1.0)


class AtStart(Plain):
    def start_bundle(self, seen=SEEN):
        pass


STEPS = {
    "plain": Plain(),
    "stateful": Stateful(),
    "borrowing": _borrowing(),
    "function": core.CallableWrapperDoFn(_plain),
    "passing on": Passing(Plain()),
    "passing state on": Passing(Stateful()),
    "timed": _timed(Plain()),
    "timed, with state": _timed(AtStart()),
}


@pytest.fixture(autouse=True)
def _no_other_job(monkeypatch):
    """Beam as it is: tests of this process remember from the first one on."""
    for module, name, _ in signatures._INSTEAD:
        monkeypatch.setattr(module, name, inspect.unwrap(getattr(module, name)))
    monkeypatch.setattr(signatures, "_JOBS", signatures._Jobs())


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
            assert found == {"stateful", "borrowing", "passing state on", "timed, with state"}


def test_state_is_looked_for_once_in_steps_of_a_class(monkeypatch):
    look = mock.Mock(wraps=userstate.get_dofn_specs, __name__="look")
    monkeypatch.setattr(userstate, "get_dofn_specs", look)
    with signatures.kept():
        for _ in range(3):
            assert not userstate.is_stateful_dofn(Plain())
    assert look.call_count == 1


def test_state_is_looked_for_once_in_functions(monkeypatch):
    look = mock.Mock(wraps=userstate.get_dofn_specs, __name__="look")
    monkeypatch.setattr(userstate, "get_dofn_specs", look)
    with signatures.kept():
        for function in (_plain, lambda element: [element]):
            assert not userstate.is_stateful_dofn(core.CallableWrapperDoFn(function))
        assert look.call_count == 1
        assert userstate.is_stateful_dofn(core.CallableWrapperDoFn(Stateful().process))


def test_a_stage_is_described_by_its_own_collections(monkeypatch):
    build, built = execution.BundleContextManager._build_process_bundle_descriptor, []

    def seen(manager):
        built.append(build(manager))
        return built[-1]

    monkeypatch.setattr(execution.BundleContextManager, "_build_process_bundle_descriptor", seen)
    with signatures.kept(), beam.Pipeline(runner="FnApiRunner") as pipeline:
        numbers = pipeline | beam.Create([("a", 1), ("a", 2), ("b", 3)])
        total = numbers | "Values" >> beam.Values() | beam.CombineGlobally(sum)
        grouped = numbers | beam.GroupByKey() | beam.MapTuple(lambda key, ones: (key, sum(ones)))
        beside = grouped | "Beside" >> beam.Map(
            lambda e, t: (*e, t), beam.pvalue.AsSingleton(total)
        )
        assert_that(beside, equal_to([("a", 3, 6), ("b", 3, 6)]))
    assert len(built) > 3
    for one in built:
        steps = one.transforms.values()
        named = {name for s in steps for name in (*s.inputs.values(), *s.outputs.values())}
        assert {*one.pcollections} == named


def _beams() -> list[object]:
    return [getattr(module, name) for module, name, _ in signatures._INSTEAD]


def test_beam_has_its_own_back_whatever_happened():
    usual = _beams()
    with pytest.raises(ZeroDivisionError), signatures.kept():
        _ = 1 / (core.get_function_args_defaults is usual[0])
    assert _beams() == usual


def test_beam_has_its_own_back_when_the_last_job_ends():
    usual, one, other = _beams(), signatures.kept(), signatures.kept()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert not {*_beams()} & {*usual}
    other.__exit__(None, None, None)
    assert _beams() == usual


def test_nothing_of_a_job_is_remembered_after_it():
    class Step(beam.DoFn):
        def process(self, element):
            yield element

    with signatures.kept():
        Step().get_function_arguments("process")
        userstate.get_dofn_specs(Step())
        kind = weakref.ref(Step)
    # Beam makes classes for each job, too: a stream that kept them grew with every window.
    del Step
    gc.collect()
    assert kind() is None


def test_what_this_version_of_beam_does_not_have_is_left_out(monkeypatch):
    monkeypatch.delattr(core, "_check_fn_use_yield_and_return")
    with signatures.kept():
        assert not hasattr(core, "_check_fn_use_yield_and_return")
        assert Plain().get_function_arguments("process")[0] == ["element", "window"]


def test_what_another_version_asks_besides_is_passed_on(monkeypatch):
    monkeypatch.setattr(core, "get_function_args_defaults", lambda method, *more: more)
    with signatures.kept():
        assert core.get_function_args_defaults(Plain().process, 1) == (1,)
        assert core.get_function_args_defaults(Plain().process, 2) == (2,)
