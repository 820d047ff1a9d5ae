"""Searches are compared on strings that nobody declared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.studies.heavy_hitters import COLUMNS, lines
from pipelines.errors import RequestError

EVALUATE = ["evaluate", "heavy-hitters", "--repetitions", "2", "--jobs", "1"]


def test_systems_and_models() -> None:
    assert [str(line) for line in lines(["pem@local", "pem", "pem@shuffle", "treehist"])] == [
        "pem@local", "pem", "treehist",
    ]  # fmt: skip
    for text in ("hp-sdp", "pem@", "pem@central", "@local", "pem:published"):
        with pytest.raises(RequestError, match="is not of the form"):
            lines([text])


@pytest.mark.verify
def test_precision_and_recall_of_a_search_that_has_it_easy(run) -> None:
    words = ["--systems", "pem", "pem@local", "--epsilons", "0.1", "6", "--top", "5"]
    data = ["--data", "zipf:50000,50,1.2", "--alphabet", "digits", "abcdef", "--max-length", "8"]
    outcome = run([*EVALUATE, *words, *data, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    table = pq.read_table("out/results.parquet")
    assert table.schema == COLUMNS
    assert table.num_rows == 8
    for row in table.to_pylist():
        assert row["true_epsilon"] <= row["epsilon"]
        assert row["local_epsilon"] >= row["true_epsilon"] * (1 - 1e-9)
        if row["epsilon"] == 6:
            # Each of the five is held by 2 % of the users and more, far above the limit.
            assert row["detection_limit"] < 0.01
            assert (row["precision"], row["recall"]) == (1, 1)
            assert row["found"] >= 5
        if (row["epsilon"], row["model"]) == (0.1, "local"):
            assert (row["recall"], row["found"]) == (0, 0)  # beyond the reach of any search
            assert row["detection_limit"] is None or row["detection_limit"] > 0.1
    for name in ("recall", "precision"):
        svg = Path(f"out/{name}-by-epsilon-delta-1e-06.svg").read_text()
        assert ">pem<" in svg
        assert ">pem@local<" in svg
    assert re.search(r"pem\s.*\s1\s", outcome.out)
    assert json.loads(Path("out/refused.json").read_text()) == []


def test_strings_of_a_log_stay_out_of_the_folder(run) -> None:
    secrets = ["zebra", "koala", "otter"]
    values = [secret for place, secret in enumerate(secrets, 1) for _ in range(3000 * place)]
    pq.write_table(pa.table({"word": values}), "log.parquet")
    words = ["--epsilons", "4", "--data", "log.parquet:word", "--alphabet", "lower"]
    outcome = run([*EVALUATE, *words, "--max-length", "5", "--top", "3", "--output", "out"])
    assert outcome.code == 0
    written = b"".join(path.read_bytes() for path in Path("out").iterdir())
    for secret in secrets:
        assert secret.encode() not in written
        assert secret not in outcome.out + outcome.err
