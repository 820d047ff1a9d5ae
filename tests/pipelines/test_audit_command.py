"""`hushbeam audit`: exit codes that a pipeline can be gated on."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest

from mechanisms import catalog, registry
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.randomness import SeededRandom
from pipelines.cli.cli import main
from tests.mechanisms.privacy.test_audit import LoudSampler, Swapped, ThresholdOff, Window


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Attacks that draw the same in every run: each is wrong with a probability of up to 1e-6."""
    monkeypatch.setattr("pipelines.cli.audit.SecureRandom", lambda: SeededRandom(1))


@pytest.fixture
def planted():
    """A catalogue with one true and several false claims in it."""
    faults = {
        "threshold-off": lambda epsilon, domain_size: ThresholdOff(epsilon, domain_size, 3),
        "swapped": lambda epsilon, domain_size: Swapped(epsilon, domain_size, domain_size),
        "window": lambda epsilon: Window(epsilon),
        "wide-window": lambda epsilon: Window(epsilon, excess=1),
        "loud": lambda epsilon, domain_size: LoudSampler(epsilon, domain_size, domain_size),
    }
    with patch.dict(registry._known):
        for name, fault in faults.items():
            registry.register(name, task="frequency", source="here", small={"epsilon": 1.0})(fault)
        yield


@pytest.mark.parametrize("name", ["grr", "olh", "srr", "hadamard"])
def test_true_claims_hold(capsys, name):
    assert main(["audit", name, "--epsilon", "1", "--domain-size", "50"]) == 0
    said = capsys.readouterr().out
    assert "the claim holds" in said
    assert "worst pair of inputs: 0 and 1" in said


@pytest.mark.parametrize("name", ["threshold-off", "swapped"])
def test_planted_faults_are_rejected(capsys, planted, name):
    assert main(["audit", name, "--epsilon", "1", "--domain-size", "9"]) == 1
    assert "THE CLAIM IS FALSE" in capsys.readouterr().out


def test_a_window_one_code_too_wide_is_rejected(capsys, planted):
    assert main(["audit", "window", "--epsilon", "1"]) == 0
    assert main(["audit", "wide-window", "--epsilon", "1"]) == 1


def test_the_attack_finds_what_the_table_hides(capsys, planted):
    words = ["--epsilon", "1", "--domain-size", "9"]
    assert main(["audit", "loud", *words]) == 0
    assert main(["audit", "loud", *words, "--attack"]) == 1
    assert "the samples refute the channel" in capsys.readouterr().out
    assert main(["audit", "grr", *words, "--attack", "--samples", "100000"]) == 0


def test_a_batch_among_dummies_is_audited_as_a_batch(capsys):
    words = ["audit", "poisson", "--epsilon", "0.5", "--domain-size", "915"]
    assert main([*words, "--shuffle", "602325"]) == 0
    said = capsys.readouterr().out
    assert "a shuffled batch of 602,325 users" in said
    assert "one report alone: " in said
    assert "the claim holds" in said
    assert main(words) == 2
    assert "--shuffle is missing: poisson is private in a batch only" in capsys.readouterr().err
    assert main([*words, "--shuffle", "602325", "--attack"]) == 2
    assert "whole releases of 542,092 users are too many to be drawn" in capsys.readouterr().err


def test_whole_batches_are_attacked(capsys):
    words = ["--shuffle", "4", "--delta", "0.05", "--attack", "--samples", "20000"]
    assert main(["audit", "poisson", "--epsilon", "1", "--domain-size", "2", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "attack with 20,000 whole releases of 3 users, of each input" in said
    )  # who are counted on
    assert "at delta 0.05; promised is 1 " in said
    assert main(["audit", "grr", "--epsilon", "2", "--domain-size", "3", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "attack with 20,000 reports of each input" in said
    assert "attack with 20,000 whole releases of 4 users, of each input" in said
    assert main(["audit", "grr", "--epsilon", "2", "--domain-size", "3", "--shuffle", "1000000",
                 "--attack", "--samples", "20000"]) == 0  # fmt: skip
    assert "a batch of so many users is too large to be drawn whole" in capsys.readouterr().out


def test_what_a_curator_releases_is_attacked(capsys):
    words = ["audit", "boost", "--epsilon", "1", "--domain-size", "4"]
    assert main(words) == 2
    assert "--attack is missing: boost has no channel" in capsys.readouterr().err
    assert main([*words, "--attack", "--samples", "1000"]) == 0
    assert "whole releases of 4 users" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "code"), [("levels", 0), ("key_value", 0), ("gradients", 0), ("dct_published", 1)]
)
def test_what_is_only_named_is_attacked_at_a_small_example(capsys, name, code):
    assert main(["audit", name, "--attack", "--samples", "20000"]) == code
    said = capsys.readouterr().out
    assert name in said
    assert ("THE CLAIM IS FALSE" if code else "the claim holds") in said


@pytest.mark.verify
def test_everything_that_ships_is_attacked(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["audit", "all", "--attack", "--samples", "2000"]) == 0
    said = capsys.readouterr().out
    keeping = [name for name, one in catalog.registrations().items() if one.claims_hold]
    for name in (*keeping, "levels", "dp-sgd", "gradients", "dssgd"):
        assert name in said


def test_shuffle_prints_the_bracket(capsys):
    words = ["--epsilon", "4", "--domain-size", "100", "--shuffle", "1000000"]
    assert main(["audit", "grr", *words]) == 0
    low, high = re.search(r"epsilon in \[([\d.]+), ([\d.]+)\]", capsys.readouterr().out).groups()
    assert float(low) <= float(high) == pytest.approx(0.01979, abs=2e-5)


def test_other_parameters(capsys):
    words = ["--epsilon", "1", "--domain-size", "100", "--parameter", "hash_range=11"]
    assert main(["audit", "srr", *words]) == 0


GRR = ["grr", "--epsilon", "1", "--domain-size", "9"]
SRR = ["srr", "--epsilon", "1", "--domain-size", "99"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["krr", "--epsilon", "1"], "there are: grr"),
        (["grr", "--epsilon", "1"], "domain_size"),
        (["grr", "--epsilon", "0", "--domain-size", "9"], "epsilon"),
        (["grr", "--epsilon", "nan", "--domain-size", "9"], "epsilon"),
        ([*SRR, "--parameter", "hash_range"], "NAME=NUMBER"),
        ([*SRR, "--parameter", "hash_range=6"], "5 and 7"),
        ([*GRR, "--shuffle", "0"], "--shuffle"),
        ([*GRR, "--delta", "1"], "--delta"),
        ([*GRR, "--attack", "--samples", "9"], "--samples"),
        ([*GRR, "--banana"], "--banana"),
    ],
)
def test_bad_requests_get_one_line(capsys, words, said):
    assert main(["audit", *words]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert said in line


def test_the_planted_catalogue_is_the_real_one_again():
    assert "loud" not in catalog.names()
    assert isinstance(catalog.build("grr", epsilon=1.0, domain_size=3), LinearHash)
