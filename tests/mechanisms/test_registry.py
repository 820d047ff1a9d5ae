"""Facts that mechanisms carry: what contradicts them is refused where it is written."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from unittest.mock import patch

import pytest

from mechanisms import catalog, registry
from mechanisms.registry import RegistrationError, register

FACTS = {"task": "frequency", "source": "here", "small": {"epsilon": 1.0}}


@pytest.fixture(autouse=True)
def _forgotten():
    catalog.names()
    with patch.dict(registry._known):
        yield


def seeded(epsilon: float, seed: int = 0) -> None:
    """A constructor that rests on a public seed."""


def plain(epsilon: float, size: int = 3) -> None:
    """One that does not."""


@pytest.mark.parametrize(
    ("constructor", "facts", "said"),
    [
        (seeded, {}, "seeded is False, and its constructor takes a seed"),
        (plain, {"seeded": True}, "seeded is True, and its constructor takes no seed"),
        (plain, {"small": ()}, "small is missing"),
        (plain, {"source": ""}, "source is missing"),
        (plain, {"models": ()}, "models must be some of"),
        (plain, {"models": ["remote"]}, "models must be some of"),
        (plain, {"models": ["local"], "searched": ["shuffle"]}, "searched where it does not serve"),
    ],
)
def test_facts_that_contradict_the_constructor_are_refused(constructor, facts, said):
    with pytest.raises(RegistrationError, match=said):
        register("planted", **{**FACTS, **facts})(constructor)
    assert "planted" not in catalog.names()


def test_one_name_is_one_mechanism_of_its_task():
    with pytest.raises(
        RegistrationError, match=r"'grr' is registered twice, by .*hashed_responses.k_ary"
    ):
        register("grr", **FACTS)(plain)
    register("grr", **{**FACTS, "task": "parity"})(plain)
    assert catalog.of_task("parity")["grr"].constructor is plain
    assert catalog.registrations()["parity:grr"].constructor is plain
    assert catalog.registrations()["grr"].task == "frequency"


def test_a_registered_mechanism_is_known_at_once_and_in_the_same_place():
    before = catalog.names()
    register("planted", searched=True, **FACTS)(plain)
    assert catalog.names() == [*before, "planted"]
    assert catalog.of_task("frequency")["planted"].searched == ("local", "shuffle")
    assert catalog.of_task("frequency")["planted"].small == ({"epsilon": 1.0},)


def test_a_module_is_listed_with_the_task_of_all_its_mechanisms():
    registered = catalog.registrations().values()
    assert {(one.constructor.__module__, one.task) for one in registered} == set(
        catalog.MODULES.items()
    )


def test_sizes_are_integers_and_unknown_parameters_name_the_known():
    register("planted", **FACTS)(plain)
    with pytest.raises(ValueError, match="size must be an integer"):
        catalog.build("planted", epsilon=1.0, size=2.5)
    with pytest.raises(ValueError, match=r"planted: .*'g'.*it takes: epsilon, size \(optional\)"):
        catalog.build("planted", epsilon=1.0, g=1)


def test_claims_that_do_not_hold_are_kept_apart():
    assert set(catalog.published("mean")) == {"im_published", "dct_published"}
    assert not set(catalog.published("mean")) & set(catalog.of_task("mean"))


def _entry(monkeypatch, value: str) -> None:
    point = EntryPoint("theirs", value, catalog.GROUP)
    monkeypatch.setattr(catalog, "entry_points", lambda group: [point])
    catalog._import_others.cache_clear()


def test_other_distributions_register_through_an_entry_point(monkeypatch, tmp_path):
    (tmp_path / "their_mechanisms.py").write_text(
        "from mechanisms.frequency.hashed_responses import k_ary\n"
        "from mechanisms.registry import register\n"
        "@register('theirs', task='frequency', source='them', small={'epsilon': 1.0})\n"
        "def theirs(epsilon: float, domain_size: int):\n"
        "    return k_ary(epsilon, domain_size)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    _entry(monkeypatch, "their_mechanisms")
    assert catalog.names()[-1] == "theirs"
    assert catalog.build("theirs", epsilon=1.0, domain_size=4).guarantee.epsilon == 1.0


def test_a_broken_distribution_is_named_in_one_line(monkeypatch):
    _entry(monkeypatch, "no_such_module")
    with pytest.raises(
        RegistrationError, match=r"its mechanisms \(no_such_module\) are refused, Mo"
    ):
        catalog.names()
    catalog._import_others.cache_clear()
