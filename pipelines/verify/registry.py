"""An entry for the deployments registry of NIST and OpenDP, from what releases say of themselves.

Only what a statement says is filled in; what a publisher alone knows is left to be written. How
many privacy units there are is what was declared: no counted number leaves a release by this way.

Source: the template of github.com/opendp/deployments-registry-data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import yaml

from pipelines.errors import RequestError, reason
from pipelines.releases import history
from pipelines.releases.history import Published
from pipelines.storage.paths import new_file
from pipelines.wording import changed

_FLAG = "--registry"
_OPEN = "(to be filled in by who publishes)"
_COMPUTED = "computed again by `hushbeam verify`, from the noise that the statements have as data"
_MODELS = {"local": "Local", "shuffle": "Shuffle", "central": "Central"}
_UNITS = {"row": "Event-level", "user": "User-level"}
_DECLARED = ("enrolled", "expected")


def entries(releases: Sequence[str]) -> list[dict[str, Any]]:
    """The entries of deployments: one of each collection, one of each release that is of none.

    Args:
        releases: of them, as of `history.releases_in`, whose prices hold; the first one of each
            is described.

    Raises:
        RequestError: there is none, or one promises nothing.
    """
    deployments: dict[str, list[Published]] = {}
    for one in history.releases_in(releases):
        plan = one.whole.get("plan") or {}
        name = plan.get("collection") or one.whole["release_id"]
        deployments.setdefault(name, []).append(one)
    return [_entry(published) for published in deployments.values()]


def _entry(published: Sequence[Published]) -> dict[str, Any]:
    whole, first = published[0].whole, published[0].whole["guarantees"]["release"]
    if first["epsilon"] is None:
        raise RequestError(f"{_FLAG}: {published[0].folder} promises nothing: it is no deployment")
    own = [one.statement for one in published if one.whole is whole]
    requests = [said.get("request", {}) for said in own]
    declared = [one[name] for one in requests for name in _DECLARED if one.get(name)]
    unit = str(first["unit"])
    windows = len({one.whole["release_id"] for one in published})
    collection = (whole.get("plan") or {}).get("collection") or whole["release"]
    loss: dict[str, Any] = {
        "privacy_unit": _UNITS.get(unit, unit),
        "privacy_unit_details": changed(first["neighbours"], unit).rstrip(","),
        "privacy_parameters": {name: first[name] for name in ("epsilon", "delta")},
        "privacy_parameters_details": _COMPUTED,
    }
    if declared:
        loss["number_of_privacy_units"] = max(declared)
    return {
        "url_slug": _slug(collection),
        "deployment": {
            "basic": {
                "name": collection,
                "data_curators": [{"data_curator_name": _OPEN, "data_curator_type": _OPEN}],
                "description": "; ".join(str(said.get("title", said["release"])) for said in own),
                "intended_use": _OPEN,
                "data_product_type": "Summary statistics",
                "data_product_region": _OPEN,
                "data_product_sector": _OPEN,
                "publication_date": str(whole["created"])[:10],
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if first["delta"] else "Pure DP",
                "data_domain": _OPEN,
                "unprotected_quantities": str(whole.get("published_exactly", "nothing")),
            },
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": _MODELS[first["model"]],
                "trust_assumptions": "\n".join(whole.get("in_words", [])),
                "actors": _OPEN,
                "release_type": "Many releases" if windows > 1 else "One release",
                "data_source_type": "Dynamic" if windows > 1 else "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "mechanisms": "; ".join(dict.fromkeys(_mechanism(said) for said in own)),
                "composition": first["how"],
                "additional_information": f"hushbeam {whole.get('versions', {}).get('hushbeam')}",
            },
            "administrative": {"status": "Draft", "registry_authors": [_OPEN], "tier": 2},
        },
    }  # fmt: skip


def _mechanism(said: Any) -> str:
    described = said.get("mechanism", {})
    if not isinstance(described, dict):
        return str(described)
    return " ".join(str(described[name]) for name in ("name", "source") if name in described)


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def write(file: str, releases: Sequence[str]) -> None:
    """Write the entries of deployments into a new file, a document of YAML for each.

    Raises:
        RequestError: as of `entries`; or the file is there already, or cannot be written.
    """
    said = entries(releases)
    if os.path.lexists(file):
        raise RequestError(f"{_FLAG}: {file} is there already: name a new file")
    try:
        with new_file(file, over=False) as stream:
            stream.write(yaml.safe_dump_all(said, sort_keys=False, allow_unicode=True).encode())
    except OSError as error:
        raise RequestError(f"{_FLAG}: cannot write {file}: {reason(error)}") from None
