"""Plans: what they may say, and that a refusal names the line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.channel import Guarantee
from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.plan.check import check
from pipelines.plan.described import schema
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import PlanJob, open_job, output_of, unread_job, window_of
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark, public_seed
from tests.fakes.few import few
from tests.oracles.wire import EXAMPLES

PLAN = """\
collection: trips
version: 2
unit: row
input: logs/{window}/*.parquet
output: out/{window}
epsilon: 1.0
min_reports: 1000
metrics:
  - name: city
    kind: histogram
    column: city
    domain: 1..50
    share: 0.5
  - name: delay
    kind: mean
    column: delay
    bounds: "0,60"
  - name: price
    kind: distribution
    column: price
    bounds: "0,100"
    share: 0.25
"""


def written(folder: Path, text: str = PLAN) -> str:
    path = folder / "plan.yaml"
    path.write_text(text)
    return str(path)


def changed(old: str, new: str) -> str:
    assert PLAN.count(old) == 1
    return PLAN.replace(old, new)


def test_what_nobody_claims_is_shared_by_the_silent(tmp_path: Path) -> None:
    plan = load(written(tmp_path))
    assert plan.shares == {"city": 0.5, "delay": 0.25, "price": 0.25}
    options = plan.options(plan.metrics[1], "2026-11-20")
    assert (options.epsilon, options.min_reports, options.model) == (0.25, 1000, "shuffle")
    assert options.input == (str(tmp_path / "logs/2026-11-20/*.parquet"),)
    assert options.output == str(tmp_path / "out/2026-11-20/delay")


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("version: 2", "version: 0", 2, "version must be a number of at least 1"),
        ("epsilon: 1.0", "epsilon: -1", 6, "epsilon must be a number greater than 0"),
        ("epsilon: 1.0", "epsilon: .nan", 6, "epsilon"),
        ("epsilon: 1.0", "epslion: 1.0", 6, "did you mean epsilon?"),
        ("unit: row", "unit: user", 3, "user_column"),
        ("unit: row", "units: row", 3, "is nothing that a plan says"),
        ("    share: 0.5", "    share: 1.5", 13, "share must be a number of at most 1"),
        ("    share: 0.5", "    share: 0.9", 22, "add up to more than 1"),
        ("    share: 0.5", "    epsilon: 0.5", 13, "belongs to the plan"),
        ("    kind: mean", "    kind: median", 15, "kind"),
        ("    domain: 1..50", "    domian: 1..50", 12, "did you mean domain?"),
        ('    bounds: "0,60"', '    bounds: "0,60"\n    colour: red', 18, "is nothing that a plan"),
        ('    bounds: "0,60"', '    bounds: "0,60"\n    dummies: [devices]', 18, "dummies"),
        ("name: delay", "name: city", 14, "one name"),
        ("name: delay", "name: ../x", 14, "name"),
        ("unit: row", "ledger: l.sqlite", 3, "ledger and budget go together"),
        ("unit: row", "unit: row\nunit: row", 4, "is there already"),
        ("unit: row", "schedule: daily", 3, "five fields"),
        ("unit: row", "unit: [", 4, "not YAML"),
        ("input: logs", "input: &a logs", 4, ""),
    ],
)  # fmt: skip
def test_a_refusal_names_the_line(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    if told == "":
        load(written(tmp_path, changed(old, new)))  # an anchor alone hides nothing
        return
    path = written(tmp_path, changed(old, new))
    with pytest.raises(RequestError) as refusal:
        load(path)
    said = str(refusal.value)
    assert told in said, said
    assert f"{path}, line {line}:" in said, said
    assert "\n" not in said


def test_aliases_are_refused(tmp_path: Path) -> None:
    """A short file that unfolds into 10^9 metrics would otherwise be a plan."""
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    with pytest.raises(RequestError, match="aliases"):
        load(written(tmp_path, PLAN + bomb))


@pytest.mark.parametrize("text", ["", "- a", "3", "{", "\x00", "a: !!python/object:os.system {}"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RequestError) as refusal:
        load(written(tmp_path, text))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["plan.yaml.gz", "plan.bz2", "plan.zst", "plan.deflate"])
def test_what_is_packed_by_its_name_alone_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PLAN)
    assert load(str(tmp_path / name)).collection == "trips"
    (tmp_path / name).write_bytes(b"\x1f\x8b\x08\x00broken")
    with pytest.raises(RequestError, match="can be read"):
        load(str(tmp_path / name))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="can be read"):
        load(str(tmp_path / "none.yaml"))


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_fuzz_no_mutation_of_a_plan_ends_in_a_traceback(data: st.DataObject) -> None:
    """Whatever is cut, doubled or changed in the text: a plan, or one line."""
    text = PLAN
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + data.draw(st.text(max_size=8)) + text[end:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            assert isinstance(load(str(path)), PlanDocument)
        except RequestError as refusal:
            told = str(refusal)
            assert "\n" not in told


def test_the_fingerprint_is_of_what_reports_mean(tmp_path: Path) -> None:
    def of(text: str) -> bytes:
        return mark(load(written(tmp_path, text)))

    assert of(PLAN) == of(PLAN) == of(changed("output: out", "output: elsewhere"))
    assert of(PLAN) == of(changed("epsilon: 1.0", "epsilon: 1"))
    for old, new in [
        ("version: 2", "version: 3"),
        ("domain: 1..50", "domain: 1..51"),
        ('bounds: "0,60"', 'bounds: "0,61"'),
        ("epsilon: 1.0", "epsilon: 1.1"),
        ("share: 0.25", "share: 0.3"),
    ]:
        assert of(PLAN) != of(changed(old, new))


def test_a_file_of_declared_values_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    values = tmp_path / "values.txt"
    text = changed("domain: 1..50", f"domain: {values}")
    values.write_text("a\nb\n")
    before = mark(load(written(tmp_path, text)))
    values.write_text("b\na\n")
    assert mark(load(written(tmp_path, text))) != before


def test_windows_have_seeds_of_their_own(tmp_path: Path) -> None:
    plan = load(written(tmp_path))
    one, other = (public_seed(plan, day) for day in ("2026-11-20", "2026-11-21"))
    assert one != other
    assert 0 <= one < 1 << 63
    assert public_seed(plan, "2026-11-20") == one


def test_a_window_is_needed_exactly_where_it_is_used(tmp_path: Path) -> None:
    plan = load(written(tmp_path))
    assert output_of(plan, window_of(plan, "2026-11-20")) == str(tmp_path / "out/2026-11-20")
    for wrong in (None, "", "../x", "a b", "x" * 65, "2026-13-40", "2026-02-29", "2026-W54"):
        with pytest.raises(RequestError, match="--window"):
            window_of(plan, wrong)
    fixed = load(written(tmp_path, PLAN.replace("{window}", "x")))
    assert window_of(fixed, None) == "all"
    with pytest.raises(RequestError, match="--window"):
        window_of(fixed, "2026-11-20")


def test_losses_of_all_metrics_add_up_to_no_more_than_the_plan_allows(tmp_path: Path) -> None:
    job = unread_job(load(written(tmp_path)), "2026-11-20")
    released, local = job.guarantees
    assert 0.9 < released.epsilon <= 1.0
    assert released.model == "shuffle"
    assert local.epsilon == pytest.approx(sum(m.guarantees[1].epsilon for m in job.metrics))


def test_a_metric_that_cannot_be_served_is_named(tmp_path: Path) -> None:
    plan = load(written(tmp_path, changed('bounds: "0,60"', 'bounds: "60,0"')))
    with pytest.raises(RequestError, match=r"plan\.yaml, line 17: metric delay: bounds"):
        unread_job(plan, "2026-11-20")
    plan = load(written(tmp_path, changed("min_reports: 1000\n", "drawn_by: each-report\n")))
    with pytest.raises(RequestError, match=r"metric city: min_reports is missing"):
        unread_job(plan, "2026-11-20")


@pytest.mark.parametrize(
    ("search", "system"), [("", "crowd threshold"), (", search: levels", "projective")]
)
def test_strings_are_searched_by_a_threshold_unless_it_is_said(
    tmp_path: Path, search: str, system: str
) -> None:
    text = (
        "collection: c\nversion: 1\ninput: x.parquet\noutput: out\nepsilon: 1\nmin_reports: 1000\n"
    )
    strings = f"metrics:\n  - {{name: words, kind: strings, column: word{search}}}\n"
    (metric,) = unread_job(load(written(tmp_path, text + strings)), "w").metrics
    assert (metric.kind, metric.protection.system) == ("strings", system)


def test_the_schema_describes_every_kind() -> None:
    described = schema()
    kinds = [
        each["if"]["properties"]["kind"]["const"]
        for each in described["$defs"]["MetricRequest"]["allOf"]
    ]
    assert kinds == [*registry.names()]
    histogram = described["$defs"]["MetricRequest"]["allOf"][0]["then"]["properties"]
    assert {"domain", "column", "share", "name"} <= set(histogram)
    assert not {"input", "output", "epsilon"} & set(histogram)
    assert json.loads(json.dumps(described)) == described
    assert set(described["properties"]) == {
        field.alias or name for name, field in PlanDocument.model_fields.items()
    }


@pytest.mark.parametrize(
    ("old", "new", "scope"),
    [
        ("input: logs/{window}/*.parquet", "input: logs/{window}/*.parquet", "user per window"),
        ("input: logs/{window}/*.parquet", "input: logs/*.parquet", "user"),
        ("input: logs/{window}/*.parquet", "input: ['{window}.parquet', more.parquet]", "user"),
        (
            "input: logs/{window}/*.parquet",
            "stream: {window: 1d, state: s}\ninput: logs/*.parquet",
            "user per window",
        ),
    ],
)
def test_windows_of_the_same_rows_compose(tmp_path: Path, old: str, new: str, scope: str) -> None:
    assert load(written(tmp_path, changed(old, new))).scope == scope


def test_a_run_does_not_take_all_rows_of_a_stream_for_one_window(tmp_path: Path) -> None:
    text = changed(
        "input: logs/{window}/*.parquet", "stream: {window: 1d, state: s}\ninput: l/*.parquet"
    )
    with pytest.raises(RequestError, match="as one: `hushbeam stream`"):
        open_job(load(written(tmp_path, text)), "2026-11-20")


def test_who_a_user_is_belongs_to_the_fingerprint(tmp_path: Path) -> None:
    by_rider, by_trip = (
        mark(load(written(tmp_path, changed("unit: row", f"unit: user\nuser_column: {column}"))))
        for column in ("rider", "trip")
    )
    assert by_rider != by_trip


@pytest.mark.parametrize(
    ("budget", "told"),
    few([
        # Three by the sum of epsilons, two by that of deltas: the profiles say more.
        ("epsilon: 3.0, delta: 1.0e-4", "covers 11 windows,"),
        ("epsilon: 30.0, delta: 4.0e-6", "covers 341 windows,"),
        ("epsilon: 0.3, delta: 1.0e-4", "does not hold one window"),
        ("epsilon: 0.5, delta: 0.0", "does not hold one window"),
    ], lambda case: case[1][:6]),
)  # fmt: skip
def test_a_check_counts_windows_as_the_ledger_composes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, told: str
) -> None:
    more = f"delta: 2.0e-6\nunit: user\nuser_column: rider\nledger: l\nbudget: {{{budget}}}"
    assert check(written(tmp_path, changed("unit: row", more))) == ("covers" not in told)
    assert told in " ".join(capsys.readouterr().out.split())


def test_what_promises_nothing_has_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = changed("unit: row", "unit: row\nledger: l\nbudget: {epsilon: 3.0}")
    nothing = Guarantee("none", math.inf, 1.0, "row", "no finite bound")
    alike = property(lambda job: (nothing,) * len(job.profiles))
    monkeypatch.setattr(PlanJob, "losses", alike)
    with pytest.raises(RequestError, match=r"^ledger: a release without a guarantee has no price"):
        check(written(tmp_path, text))


@pytest.mark.parametrize(
    "written_so",
    ["010", "1:30", "on", "Yes", "NO", "0x1F", "0b11", "1_000", "-0o17", "1:30.5"],
)
def test_what_readers_of_yaml_disagree_on_is_refused_with_its_line(
    tmp_path: Path, written_so: str
) -> None:
    for old in ("version: 2", "merge_small: false"):
        text = PLAN.replace(old, f"{old.partition(':')[0]}: {written_so}")
        if text == PLAN:
            text = PLAN.replace("version: 2", f"version: 2\nmerge_small: {written_so}")
        with pytest.raises(RequestError, match=r"line [23]: .* some readers of YAML"):
            load(written(tmp_path, text))


@pytest.mark.parametrize(
    "value", ["2026-11-20", "1e3", "0.5", "yes please", "0", "12", "true", "y", "n"]
)
def test_what_all_readers_of_yaml_agree_on_is_read(tmp_path: Path, value: str) -> None:
    text = PLAN.replace("version: 2", f"version: 2\nschedule: {value}")
    with pytest.raises(RequestError) as refusal:
        load(written(tmp_path, text))
    assert "readers of YAML" not in str(refusal.value)
    assert "line 3: schedule" in str(refusal.value)


def test_a_file_of_declared_values_that_never_ends_ends_at_a_limit(tmp_path: Path) -> None:
    plan = load(written(tmp_path, PLAN.replace("domain: 1..50", "domain: /dev/zero")))
    with pytest.raises(RequestError, match=r"/dev/zero is larger than 256 MiB"):
        mark(plan)


def test_a_plan_without_queries_imports_no_parser_of_sql(tmp_path: Path) -> None:
    code = (
        "import sys; from pipelines.plan.loading import load; load(sys.argv[1]); "
        "import pipelines.plan.run, pipelines.plan.publish; assert 'sqlglot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, written(tmp_path)], check=True)
