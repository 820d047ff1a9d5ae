"""Noise drawn once and for all: what it reveals over windows, and what a plan pays for it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.catalog import build
from mechanisms.channel import Guarantee
from mechanisms.memoised import MemoisedClient
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from pipelines.errors import RequestError
from pipelines.ledger.accounting import summed, total
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.listing import Entries
from pipelines.ledger.rules import BudgetExceeded, Spend, losses_of
from pipelines.parties.device import ClientReports
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from pipelines.plan.run import price
from pipelines.plan.split import Split, split
from tests.fakes.ledgers import begun, begun_by

USERS = 5001
PLAN = """\
collection: lasting
version: 1
unit: user
user_column: user
input: none.parquet
output: out/{window}
epsilon: 1
epsilon_local: 2
min_reports: 300
noise: permanent
distinct_values: 2
ledger: ledger.sqlite
budget: {epsilon: 6, delta: 1.0e-5}
metrics:
  - {name: city, kind: histogram, column: city, domain: 0..3, mechanism: grr}
"""


@pytest.fixture
def plan(workspace: Path) -> None:
    Path("plan.yaml").write_text(PLAN)


def parted(window: str) -> Split:
    return split(load("plan.yaml"), window)


def test_two_windows_differ_by_the_messages_of_the_one_who_changed() -> None:
    """So no crowd hides the change, and a price for crowds is not this one's price."""
    mechanism = build("grr", epsilon=2.0, domain_size=4)
    clients = [MemoisedClient(k.to_bytes(32, "big"), bytes(16), 0, mechanism) for k in range(USERS)]
    values = np.arange(USERS) % 4
    days = [[int(c.report([v])[0]) for c, v in zip(clients, values, strict=True)]]
    # One of them whose two messages differ, which is one in two.
    moved = next(k for k in range(USERS) if clients[k].report([3 - values[k]]) != days[0][k])
    days.append(list(days[0]))
    days[1][moved] = int(clients[moved].report([3 - values[moved]])[0])
    before, after = (Counter(day) for day in days)
    assert before - after == Counter([days[0][moved]])
    assert after - before == Counter([days[1][moved]])


# ---- what a plan says ----------------------------------------------------------------------------


def test_its_price_is_of_each_value_and_not_of_a_crowd(plan) -> None:
    """Twice the local epsilon of 2, although a shuffled window by itself loses less than 1."""
    (metric,) = parted("monday").metrics
    once, local = metric.guarantees
    assert once.epsilon <= 1 < local.epsilon <= 2
    (loss,) = (spend := price(parted("monday").job)).losses
    assert (loss.model, loss.epsilon) == ("local", 2 * local.epsilon)
    assert spend.noise == "permanent"
    # Nor is there a curve that an accountant could compose into less.
    (profile,) = spend.profiles
    assert profile.delta(loss.epsilon - 0.01) > 1e-3
    assert total(spend.records, 1e-9).epsilon >= loss.epsilon * (1 - 1e-6)


def test_check_says_what_windows_cost_and_what_they_show(plan, run) -> None:
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 0, outcome.err
    assert "together: local: epsilon 4, delta 0, per user" in outcome.out
    assert "whoever sees two windows sees that somebody's value changed" in outcome.out
    assert "holds all windows: a further one of this plan costs nothing more" in outcome.out
    told = json.loads(run(["check", "plan.yaml", "--json"]).out)
    assert (told["noise"], told["distinct_values"]) == ("permanent", 2)
    assert told["guarantees"]["release"]["epsilon"] == 4
    Path("plan.yaml").write_text(PLAN.replace("epsilon: 6", "epsilon: 3.9"))
    assert run(["check", "plan.yaml"]).code == 1


def test_the_statement_says_it_first(plan) -> None:
    statement = parted("monday").job.statement({"release_id": "id"})
    assert statement["plan"]["noise"] == "permanent"
    assert statement["guarantees"]["release"]["epsilon"] == 4
    words = " ".join(statement["in_words"])
    assert "sees that somebody's value changed" in words
    assert "at most 2 different values" in words
    assert "shuffled batch" not in words


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        ("distinct_values: 2\n", "", "distinct_values go together"),
        ("noise: permanent\n", "", "distinct_values go together"),
        ("distinct_values: 2", "distinct_values: 0", "a number of at least 1"),
        ("unit: user\n", "unit: user per window\n", "the unit must be user"),
        ("mechanism: grr", "mechanism: rappor, model: local", "several messages"),
        ("mechanism: grr", "mechanism: hcms, model: local", "another in each window"),
    ],
)
def test_a_plan_whose_noise_cannot_be_permanent_is_refused(plan, before, after, match) -> None:
    Path("plan.yaml").write_text(PLAN.replace(before, after))
    with pytest.raises(RequestError, match=match):
        parted("w")


def test_a_fresh_plan_is_the_plan_that_it_was(plan) -> None:
    """What no plan says does not change the fingerprints of those that were written before."""
    lines = "noise: permanent\ndistinct_values: 2\n"
    Path("plan.yaml").write_text(PLAN.replace(lines, ""))
    silent = parted("w").fingerprint
    Path("plan.yaml").write_text(PLAN.replace(lines, "noise: fresh\n"))
    assert parted("w").fingerprint == silent


def test_who_reads_a_log_cannot_draw_it(plan, run) -> None:
    with pytest.raises(RequestError, match="permanent noise is drawn by each user's own client"):
        open_job(load("plan.yaml"), "w")
    outcome = run(
        ["parties", "client", "plan.yaml", "--window", "w", "--input", "x", "--output", "y"]
    )
    assert (outcome.code, "drawn by each user's own client" in outcome.err) == (2, True)
    stream = "stream: {window: 1h, state: state}\n"
    Path("plan.yaml").write_text(PLAN + stream)
    outcome = run(["stream", "plan.yaml", "--once"])
    assert (outcome.code, "one of rows draws fresh noise" in outcome.err) == (2, True)


# ---- the ledger ----------------------------------------------------------------------------------

LOSS = Guarantee("local", 2.0, 0.0, "user", "each value once")


def new_ledger() -> CollectionLedger:
    return begun("ledger.sqlite", "c")


def spend(window: str, version: int = 1, **changed: object) -> Spend:
    request = {
        "collection": "c", "version": version, "fingerprint": f"f{version}", "window": window,
        "scope": "user", "budget": Budget(epsilon=5, delta=0.0), "losses": (LOSS,),
        "output": f"out/{version}/{window}", "metrics": ("m",), "design": f"d{version}",
        "noise": "permanent",
    }  # fmt: skip
    return Spend(**{**request, **changed})


def test_windows_under_one_noise_are_paid_for_once(workspace) -> None:
    """Ten windows of epsilon 2 in a budget of 5; fresh ones would be two."""
    ledger = new_ledger()
    for k in range(10):
        with ledger.spend(spend(f"w{k}")) as right:
            right.commit()
    assert losses_of(ledger.read().entries).total() == 1
    with ledger.spend(spend("v", version=2)) as right:  # another noise
        right.commit()
    assert summed(losses_of(ledger.read().entries)).epsilon == 4
    with pytest.raises(BudgetExceeded, match="does not hold this"), ledger.spend(spend("u", 3)):
        pass
    with ledger.spend(spend("w", version=2)) as right:
        right.commit()
    fresh = [spend(f"w{k}", noise="fresh") for k in range(3)]
    assert losses_of(Entries.of([]), *fresh).total() == 3


@pytest.mark.parametrize(
    "changed",
    [{"design": "e"}, {"design": None}, {"fingerprint": "g"}, {"metrics": ("n",)}],
    ids=str,
)
def test_what_may_be_another_noise_is_paid_for_again(changed) -> None:
    both = [spend("w1"), spend("w2", **changed)]
    if "design" in changed and changed["design"] is None:
        both[0] = spend("w1", **changed)
    assert losses_of(Entries.of([]), *both).total() == 2


def test_a_window_that_was_given_back_pays_for_no_other(workspace) -> None:
    ledger = new_ledger()
    with ledger.spend(spend("w1")):
        pass  # nothing was published
    dear = spend("w2", losses=(Guarantee("local", 6.0, 0.0, "user", "x"),))
    with pytest.raises(BudgetExceeded), ledger.spend(dear):
        pass


# ---- the three parties ---------------------------------------------------------------------------


@pytest.mark.verify
def test_two_windows_of_devices_cost_what_one_costs(plan, run) -> None:
    """400 devices, of which one changes: `ledger explain` says 4, and not two times a shuffle."""
    begun_by("plan.yaml")
    kept = {}
    for day, window in enumerate(("monday", "tuesday")):
        of, sent = parted(window), []
        for user in range(400):
            device = ClientReports(of, 0, user.to_bytes(32, "big"), True)
            city = (user + (day if user == 5 else 0)) % 4
            sent.append(device.report([pa.table({"city": [city]})])[0].records)
        kept[window] = Counter(np.concatenate(sent)["message"].tolist())
        whole = Reports(of.fingerprint, device.report([])[0].form, np.concatenate(sent))
        Path(f"{window}.bin").write_bytes(binary.encode(whole))
        for words in (
            ["shuffle", "--input", f"{window}.bin", "--output", f"mixed-{window}"],
            ["collect", "--input", f"mixed-{window}"],
        ):
            outcome = run(["parties", words[0], "plan.yaml", "--window", window, *words[1:]])
            assert outcome.code == 0, outcome.err
    assert sum((kept["monday"] - kept["tuesday"]).values()) <= 1
    for folder in ("out/monday", "out/monday/city"):
        statement = json.loads(Path(folder, "statement.json").read_text())
        assert statement["guarantees"]["release"]["epsilon"] == 4
        assert "sees that somebody's value changed" in " ".join(statement["in_words"])
    assert "equal to each other in the same windows" in statement["neighbours"]
    told = " ".join(run(["ledger", "explain", "--ledger", "ledger.sqlite"]).out.split())
    assert "their sum: epsilon 4, delta 0 (basic composition)" in told
    assert "releases: 2 committed" in told
    assert "further windows of the last plan cost nothing" in told
    assert "sees that somebody's value changed" in told
    # Yesterday's plan with fresh noise is another plan: its reports are dropped.
    lines = "noise: permanent\ndistinct_values: 2\n"
    Path("plan.yaml").write_text(PLAN.replace(lines, ""))
    outcome = run(["parties", "shuffle", "plan.yaml", "--window", "monday", "--input", "monday.bin",
                   "--output", "mixed"])  # fmt: skip
    assert (outcome.code, "400 dropped: other plan" in outcome.err) == (1, True)
