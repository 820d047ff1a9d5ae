"""A runner of Beam pipelines for tests: in this process, again and again, with seeded noise.

What a command hands to Beam is run as it stands, step after step, so a repetition takes 5 to 50 ms
and not a job's 300 to 500. It is for batches: the global window, no timers and no state. It is
named like any other: `--runner=tests.fakes.repeating.RepeatingRunner`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.common import DoFnRunner, DoFnState, Receiver
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms.core import Flatten as FlattenTransform
from apache_beam.transforms.core import GroupByKey, Impulse
from apache_beam.transforms.userstate import is_stateful_dofn
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.windowed_value import WindowedValue
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mechanisms.randomness import SecureRandom
from pipelines.jobs import run as jobs
from transforms.elements.progress import live

RUNNER = f"--runner={__name__}.RepeatingRunner"

Values = list[WindowedValue]


@contextmanager
def seeded(seed: object) -> Iterator[None]:
    """While the context lasts, generators of this process are the same ones in every run.

    Each has a key of its own, by its number among all that were opened, so no two draw alike.
    """
    opened = itertools.count()

    def start(self: Any, _: bytes) -> None:
        key = hashlib.sha256(f"hushbeam test {seed}, {next(opened)}".encode()).digest()
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
        self._process = os.getpid()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureRandom, "_start", start)
        yield


@contextmanager
def repeated(times: int, after: Callable[[int], None]) -> Iterator[None]:
    """While the context lasts, the runner runs each pipeline so many times.

    Args:
        times: how often.
        after: what is done after each, given its number; the next finds things as this leaves them.
    """
    before = RepeatingRunner.times, RepeatingRunner.after
    RepeatingRunner.times, RepeatingRunner.after = times, staticmethod(after)
    try:
        yield
    finally:
        RepeatingRunner.times, RepeatingRunner.after = before


class RepeatingRunner(PipelineRunner):
    """Runs a pipeline in this process.

    Each repetition is another bundle to the same DoFns, as on a worker, and what steps before any
    randomness give is kept: both together were half of a repetition.

    Attributes:
        times: how often.
        after: what is done after each time but the last.
    """

    times = 1
    after: Callable[[int], None] = staticmethod(lambda _: None)

    def is_fnapi_compatible(self) -> bool:
        return True  # or the pipeline would be copied by way of its protocol buffer

    def run_pipeline(self, pipeline: beam.Pipeline, options: Any) -> PipelineResult:
        leaves = _Leaves()
        pipeline.visit(leaves)
        steps, values = leaves.found, {}
        dofns: dict[AppliedPTransform, beam.DoFn] = {}
        try:
            for number in range(self.times):
                with _opening() as opened:
                    drew = {step for step in steps if _run(step, values, dofns, opened)}
                if number + 1 < self.times:
                    self.after(number)
                if number == 0:
                    steps = _changing(steps, drew)
        finally:
            for dofn in dofns.values():
                dofn.teardown()
        return _Done()


class InPlaceRunner(RepeatingRunner):
    """Takes the place of Beam's local runner where it can, and leaves the rest to that.

    What a job asks of an engine (bundles, coders, worker processes, state, timers) is not looked at
    here: tests that are about it have the fixture `beams_runner`.
    """

    on = True

    def run_pipeline(self, pipeline: beam.Pipeline, options: Any) -> PipelineResult:
        if not (InPlaceRunner.on and _is_plain(options) and _fits(pipeline)):
            return FnApiRunner().run_pipeline(pipeline, options)
        return super().run_pipeline(pipeline, options)


def take_place() -> None:
    """Let jobs that name no runner be run by `InPlaceRunner`, from here on in this process."""
    opened = jobs.opened

    def opened_here(options: Any) -> beam.Pipeline:
        pipeline = opened(options)
        if type(pipeline.runner) is FnApiRunner:
            pipeline.runner = InPlaceRunner()
        return pipeline

    jobs.opened = opened_here


def _is_plain(options: Any) -> bool:
    """Whether one process does all the work."""
    direct, standard = options.view_as(DirectOptions), options.view_as(StandardOptions)
    return direct.direct_num_workers in (None, 1) and not standard.streaming


def _fits(pipeline: beam.Pipeline) -> bool:
    """Whether this runner knows all steps, none of which keeps state or waits for a time."""
    steps = _Leaves()
    pipeline.visit(steps)
    known = Impulse | FlattenTransform | GroupByKey | beam.ParDo
    return all(
        isinstance(step.transform, known)
        and not (isinstance(step.transform, beam.ParDo) and is_stateful_dofn(step.transform.dofn))
        and all(
            isinstance(out.windowing.windowfn, beam.transforms.window.GlobalWindows)
            for out in step.outputs.values()
        )
        for step in steps.found
    )


class _Done(PipelineResult):
    """Of a pipeline that has run."""

    def __init__(self) -> None:
        super().__init__(PipelineState.DONE)

    def wait_until_finish(self, duration: Any = None) -> str:
        return PipelineState.DONE

    def metrics(self) -> Any:
        """What the steps have counted, which were all in this process."""
        counted = [
            SimpleNamespace(key=SimpleNamespace(metric=SimpleNamespace(name=name)), result=amount)
            for name, amount in live().items()
        ]
        return SimpleNamespace(query=lambda _: {"counters": counted})


class _Leaves(PipelineVisitor):
    """The steps that are no composites, each behind those that it needs."""

    def __init__(self) -> None:
        self.found: list[AppliedPTransform] = []

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if transform_node.transform is not None:
            self.found.append(transform_node)


class _Kept(Receiver):
    """What a step sends out of one of its sides."""

    def __init__(self) -> None:
        self.values: Values = []

    def receive(self, windowed_value: WindowedValue) -> None:
        # Beam uses one object for all that a step sends in one go.
        self.values.append(windowed_value.with_value(windowed_value.value))


class _Side(Mapping[Any, Any]):
    """A side input, which is the same in each window."""

    def __init__(self, view: Any, values: Iterable[Any]) -> None:
        data = view._side_input_data()
        self._whole = data.view_fn(list(values))

    def __getitem__(self, _: Any) -> Any:
        return self._whole

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 1

    def is_globally_windowed(self) -> bool:
        return True


@contextmanager
def _opening() -> Iterator[list[object]]:
    """While the context lasts, each generator that is opened adds to the list."""
    opened: list[object] = []
    start: Any = SecureRandom._start

    def noted(self: Any, key: bytes) -> None:
        opened.append(None)
        start(self, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureRandom, "_start", noted)
        yield opened


def _changing(
    steps: Iterable[AppliedPTransform], drew: Container[AppliedPTransform]
) -> list[AppliedPTransform]:
    """The steps that draw, and those that read what such a step has sent."""
    changing, sent = [], set()
    for step in steps:
        read = {*step.main_inputs.values(), *(view.pvalue for view in step.side_inputs)}
        if step in drew or read & sent:
            changing.append(step)
            sent |= {*step.outputs.values()}
    return changing


def _run(
    step: AppliedPTransform, values: dict[Any, Values], dofns: dict[Any, beam.DoFn],
    opened: Sequence[object],
) -> bool:  # fmt: skip
    """Puts what a step sends among the values; whether it has opened a generator."""
    transform, before = step.transform, len(opened)
    came = [values.get(one, []) for one in step.main_inputs.values()]  # of a beginning, none
    if isinstance(transform, Impulse):
        made = [beam.transforms.window.GlobalWindows.windowed_value(b"")]
        values[step.outputs[None]] = made
    elif isinstance(transform, FlattenTransform):
        values[step.outputs[None]] = [value for side in came for value in side]
    elif isinstance(transform, GroupByKey):
        values[step.outputs[None]] = _grouped(step, *came)
    elif isinstance(transform, beam.ParDo):
        _done(step, came[0], values, dofns)
    else:
        raise TypeError(f"{step.full_label} is a {type(transform).__name__}: not for this runner")
    return len(opened) > before


def _grouped(step: AppliedPTransform, values: Values) -> Values:
    """The values of each key; a key is what its coder makes of it."""
    coder = beam.coders.registry.get_coder(step.inputs[0].element_type).key_coder()
    groups: dict[bytes, Values] = defaultdict(list)
    for value in values:
        groups[coder.encode(value.value[0])].append(value)
    return [
        group[0].with_value((group[0].value[0], [one.value[1] for one in group]))
        for group in groups.values()
    ]


def _done(
    step: AppliedPTransform,
    values: Values,
    all_values: dict[Any, Values],
    dofns: dict[Any, beam.DoFn],
) -> None:
    """One bundle through a DoFn, which is that of the bundles before."""
    transform, known = step.transform, step in dofns
    if not known:
        dofns[step] = pickler.roundtrip(transform.dofn)
    dofn = dofns[step]
    sides = [
        _Side(view, (value.value for value in all_values[view.pvalue])) for view in step.side_inputs
    ]
    receivers: dict[Any, _Kept] = {tag: _Kept() for tag in {None, *step.outputs}}
    runner = DoFnRunner(
        dofn, transform.args, transform.kwargs, sides, step.inputs[0].windowing,
        tagged_receivers=receivers, step_name=step.full_label, state=DoFnState(CounterFactory()),
    )  # fmt: skip
    if not known:
        runner.setup()
    runner.start()
    for value in values:
        runner.process(value)
    runner.finish()
    for tag, pcollection in step.outputs.items():
        all_values[pcollection] = receivers[tag].values
