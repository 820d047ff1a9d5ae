"""One case of every kind and deployment, as the words of command lines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A sequence of commands in a folder that holds the inputs.

    Attributes:
        name: of the golden.
        commands: each as it would be typed after `hushbeam`; what a command with `--json` prints
            becomes a part of the golden.
        files: name -> content, written beforehand.
    """

    name: str
    commands: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[list[str]]:
        return [shlex.split(command) for command in self.commands]


_LOG = "--input 'log/*.parquet' --output out"
_VALUE = f"histogram {_LOG} --column value --domain values.txt"
_WORD = f"strings --search levels {_LOG} --column word --alphabet abcd --max-length 3"
_NUMBER = f"{_LOG} --column number --bounds 0,125"
_ROWS = f"vector-mean {_LOG} --number 'f?=-1,1'"
_TRAIN = f"train {_LOG} --number 'f?=-1,1' --category group=groups.txt"
_VALIDATE = "--validation public.parquet"

_PLAN = """\
collection: golden
version: 1
input: log/*.parquet
output: out/{window}
"""

_LEDGER_PLAN = f"""\
{_PLAN}\
unit: user
user_column: user
epsilon: 4.0
delta: 1.0e-5
min_reports: 500
ledger: ledger.sqlite
budget: {{epsilon: 9.0, delta: 1.0e-4}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: values.txt, share: 0.3}}
  - {{name: number, kind: mean, column: number, bounds: "0,125", mechanism: duchi,
     share: 0.2}}
  - {{name: shape, kind: distribution, column: number, bounds: "0,125", bins: 8, mechanism: grr,
     share: 0.2}}
  - {{name: row, kind: vector-mean, number: ["f0=-1,1", "f1=-1,1"], mechanism: multi_hm,
     share: 0.3}}
"""

_PARTIES = f"""\
{_PLAN}\
unit: row
epsilon: 9.0
min_reports: 1500
metrics:
"""

_PARTIES_PLAN = f"""\
{_PARTIES}\
  - {{name: value, kind: histogram, column: value, domain: values.txt, mechanism: grr,
     unusable: count}}
  - {{name: group, kind: histogram, column: group, domain: groups.txt, mechanism: olh,
     unusable: count}}
  - {{name: number, kind: mean, column: number, bounds: "0,125", mechanism: duchi, unusable: count}}
"""

_OTHER_PLAN = f"""\
{_PARTIES}\
  - {{name: shape, kind: distribution, model: local, column: number, bounds: "0,125", share: 0.2,
     unusable: count}}
  - {{name: often, kind: strings, search: levels, model: local, column: word, alphabet: [abcd],
     max_length: 3, share: 0.5}}
  - {{name: row, kind: vector-mean, model: local, number: ["f0=-1,1", "f1=-1,1"], share: 0.3}}
"""

_SEALED_PLAN = f"""\
{_PLAN}\
unit: row
epsilon: 4.0
model: local
min_reports: 100
metrics:
  - {{name: value, kind: histogram, column: value, domain: values.txt, mechanism: hadamard}}
"""

_USER_PLAN = f"""\
{_PLAN}\
unit: user
user_column: user
epsilon: 2.0
model: local
min_reports: 100
noise: permanent
distinct_values: 3
metrics:
  - {{name: value, kind: histogram, column: value, domain: values.txt}}
  - {{name: number, kind: mean, column: number, bounds: "0,125", mechanism: hm}}
"""

_STREAM_PLAN = """\
collection: golden
version: 1
unit: user per window
user_column: user
input: landing/*.parquet
output: out/{window}
epsilon: 4.0
model: shuffle
min_reports: 400
ledger: ledger.sqlite
budget: {epsilon: 20.0, delta: 1.0e-4}
stream: {window: 1h, state: state, time: at}
metrics:
  - {name: value, kind: histogram, column: value, domain: values.txt, share: 0.5}
  - {name: number, kind: distribution, column: number, bounds: "0,125", bins: 8, share: 0.5}
"""

_THREE = (
    "check plan.yaml --window w --json",
    "parties client plan.yaml --window w --input 'log/*.parquet' --output sent.parquet",
    "parties shuffle plan.yaml --window w --input sent.parquet --output mixed",
    "parties collect plan.yaml --window w --input mixed",
)

CASES: tuple[Case, ...] = (
    Case("histogram-local-grr", (f"{_VALUE} --model local --mechanism grr --epsilon 2",)),
    Case("histogram-local-olh", (
        f"{_VALUE} --model local --mechanism olh --epsilon 1 --out-of-domain other "
        "--user-column user --postprocess none",)),
    Case("histogram-local-unary", (f"{_VALUE} --model local --mechanism oue --epsilon 1",)),
    Case("histogram-local-rappor", (f"{_VALUE} --model local --mechanism rappor --epsilon 4",)),
    Case("histogram-shuffle", (f"{_VALUE} --epsilon 1 --user-column user --min-reports 700",)),
    Case("histogram-dummies", (f"{_VALUE} --epsilon 1 --max-messages 3",)),
    Case("histogram-correlated", (
        f"{_VALUE} --epsilon 1 --mechanism correlated --max-messages 8",)),
    Case("histogram-puredump", (f"{_VALUE} --epsilon 1 --mechanism puredump --max-messages 50",)),
    Case("histogram-job", (f"{_VALUE} --epsilon 0.5",)),
    Case("strings-pem", (f"{_WORD} --model local --epsilon 5",)),
    Case("strings-treehist", (
        f"{_WORD} --system treehist --model local --epsilon 7 --top 2",)),
    Case("mean", (f"mean {_NUMBER} --epsilon 1 --cells 16",)),
    Case("mean-public-groups", (
        f"mean {_NUMBER} --group-by group --groups groups.txt --groups-public "
        "--min-reports 300 --cells 16 --epsilon 1",)),
    Case("mean-private-groups", (
        f"mean {_NUMBER} --group-by group --groups groups.txt --epsilon 2 --model local",)),
    Case("mean-choose-bounds", (
        f"mean {_LOG} --column number --choose-bounds --user-column user --epsilon 3",)),
    Case("distribution", (f"distribution {_NUMBER} --epsilon 1 --bins 8 --smooth",)),
    Case("distribution-found", (f"distribution {_NUMBER} --group-by group --epsilon 2",)),
    Case("quantile", (f"distribution {_NUMBER} --epsilon 1 --quantile 0.5",)),
    Case("vector-mean", (f"{_ROWS} --drawn-by each-report --epsilon 2",)),
    Case("vector-mean-categories", (
        f"{_ROWS} --category group=groups.txt --user-column user --min-reports 600 --model local "
        "--epsilon 4",)),
    Case("vector-mean-list", (
        f"vector-mean {_LOG} --vector vector=4:-1,1 --radius 0.9 --mechanism privunit "
        "--model local --epsilon 3 --unusable count",)),
    Case("count-events", (
        f"count {_LOG} --user-column user --column value --domain values.txt --rows-per-user 2 "
        "--per-value 3 --drawn-by shuffler --epsilon 1",)),
    Case("strings-threshold", (
        f"strings {_LOG} --user-column user --column word --rows-per-user 2 --epsilon 2",)),
    Case("sum-by-group", (
        f"sum {_LOG} --user-column user --column number --bounds=-20,125 --group-by group "
        "--groups groups.txt --expected 1000 --drawn-by shuffler --epsilon 1",)),
    Case("sum-job", (
        f"sum {_LOG} --user-column user --column number --bounds=-20,125 --group-by group "
        "--groups groups.txt --expected 1000 --epsilon 1",)),
    Case("ratio", (
        f"ratio {_LOG} --user-column user --column number --bounds=-20,125 --over-bounds 0,3 "
        "--group-by group --groups groups.txt --expected 1000 --epsilon 1",)),
    Case("active-users", (
        f"active-users {_LOG} --user-column user --time at --day 2024-05-01 --retention 2 "
        "--begins 2024-04-20 --drawn-by shuffler --epsilon 1",)),
    Case("funnel", (
        f"funnel {_LOG} --user-column user --time at --steps \"north=group == 'north'\" "
        "--steps high=number>50 --within 1h --times 10min,30min --group-by value "
        "--groups values.txt --epsilon 1",)),
    Case("cross-tab", (
        f"cross-tab {_LOG} --user-column user --columns value,group --domains value=values.txt "
        "group=groups.txt --drawn-by shuffler --epsilon 1",)),
    Case("cross-tab-local", (
        f"cross-tab {_LOG} --user-column user --columns value,group --domains value=values.txt "
        "group=groups.txt --model local --epsilon 3",)),
    Case("experiment", (
        f"experiment {_LOG} --user-column user --salt golden --arms old,new --mean number=-20,125 "
        "--quantile number=-20,125@0.5,0.9 --expected 1000 --epsilon 4",)),
    Case("train-sums", (
        f"{_TRAIN} --target target=-8,8 --epsilon 2 --expected 1000",)),
    Case("train-dp-sgd", (
        f"{_TRAIN} --target class=no,yes --loss logistic --method dp-sgd --epsilon 4 --epochs 4 "
        f"{_VALIDATE}",)),
    Case("plan-ledger", (
        "check plan.yaml --window 2024-05-01 --json",
        "ledger init plan.yaml",
        "run plan.yaml --window 2024-05-01",
        "ledger show --ledger ledger.sqlite --json",
        ), {"plan.yaml": _LEDGER_PLAN}),
    Case("parties", _THREE, {"plan.yaml": _PARTIES_PLAN}),
    Case("parties-others", _THREE, {"plan.yaml": _OTHER_PLAN}),
    Case("parties-sealed", (
        "parties keys new keys",
        "parties client plan.yaml --window w --input public.parquet --output sent.bin "
        "--seal PUBLIC",
        "parties shuffle plan.yaml --window w --input sent.bin --output mixed --seal PUBLIC",
        "parties collect plan.yaml --window w --input mixed --key PRIVATE",
        ), {"plan.yaml": _SEALED_PLAN}),
    Case("client-permanent", (
        "parties client plan.yaml --window w --input mine.parquet --user-secret secret "
        "--output sent.parquet",
        ), {"plan.yaml": _USER_PLAN}),
    Case("stream", (
        "ledger init plan.yaml",
        "stream plan.yaml --drain",
        "ledger show --ledger ledger.sqlite --json",
        ), {"plan.yaml": _STREAM_PLAN}),
)  # fmt: skip

BY_NAME = {case.name: case for case in CASES}
