"""Two organisations on this machine: `make two-organisations` runs a window from keys to a figure.

The services and schedules are the commands of shuffler.yaml and collector.yaml, as plain processes
in a folder of each organisation. Devices of this machine and, where the TypeScript client is built,
browsers' worth of clients send; a third party verifies what was published.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import yaml

from pipelines.views.headline import OTHER

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLANS = ("page.yaml", "devices.yaml", "meals.txt")
PORTS = {"PAGE_ENDPOINT": 8080, "ISSUER": 8081, "DEVICE_ENDPOINT": 8082, "PAGE": 8000}

_CLIENT = ROOT / "clients" / "typescript" / "dist"
_EXAMPLE = ROOT / "examples" / "client"
_LUNCHES = ("soup", "salad")
# Of the example's page: here clients randomise nothing, and the shuffler adds dummies.
_WORDS = {
    "randomised and sealed on this page. Nobody sees it: not the site, not the network, not those "
    "who\n        count.": (
        "sealed on this page, and mixed with made-up ones. The site, the network and the\n"
        "        shuffler cannot read it; those who count cannot tell it from the made-up ones."
    ),
    "Send my randomised answer": "Send my sealed answer",
}
_ENDPOINT = "http://localhost:8080"
_WAIT = 120.0  # seconds for a service to begin


class Organisation(NamedTuple):
    """One of the two.

    Attributes:
        name: of its Compose file.
        folder: its own; the exchange is beside it.
        variables: of its commands.
    """

    name: str
    folder: Path
    variables: dict[str, str]

    @property
    def commands(self) -> dict[str, str]:
        """Service -> what a shell is given, as Compose would give it."""
        described: Any = yaml.safe_load((HERE / f"{self.name}.yaml").read_text())
        return {
            service: fields["command"][0].replace("$$", "$")
            for service, fields in described["services"].items()
        }

    def run(self, service: str) -> None:
        """Run one of the schedule, to its end."""
        print(f"\n{self.name}: {service}", flush=True)
        subprocess.run(**self._process(service), check=True)

    @contextlib.contextmanager
    def serving(self, service: str, port: int) -> Iterator[None]:
        """A service that runs meanwhile."""
        process = subprocess.Popen(**self._process(service), start_new_session=True)
        try:
            end = time.monotonic() + _WAIT
            while process.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def _process(self, service: str) -> dict[str, Any]:
        own = {"XDG_STATE_HOME": str(self.folder / "state"), **self.variables}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        words = ["/bin/sh", "-euc", self.commands[service]]
        # Each signs with a key of its own, whatever key this account has.
        rest = {k: v for k, v in os.environ.items() if k != "HUSHBEAM_SIGNING_KEY"}
        return {"args": words, "cwd": self.folder, "env": {**rest, "PATH": path, **own}}


def main() -> None:
    """Run a window."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/two-organisations"))
    parser.add_argument("--window", default=date.today().isoformat())
    parser.add_argument("--devices", type=int, default=3, help="that fetch tokens")
    parser.add_argument("--browsers", type=int, default=20, help="simulated, where node is")
    parser.add_argument("--stay", action="store_true", help="wait for your own browser, and Enter")
    for name, port in PORTS.items():
        parser.add_argument(f"--{name.lower().replace('_', '-')}", type=int, default=port)
    arguments = parser.parse_args()
    ports = {name: getattr(arguments, name.lower()) for name in PORTS}
    folder = arguments.folder.absolute()
    if folder.exists():
        parser.error(f"--folder: {folder} is there; remove it, or name another one")
    window_of(folder, arguments, ports)


def window_of(folder: Path, arguments: argparse.Namespace, ports: dict[str, int]) -> None:
    """One window, from keys to a release that is verified."""
    variables = {"WINDOW": arguments.window} | {name: str(port) for name, port in ports.items()}
    shuffler, collector = (
        Organisation(name, folder / name, variables) for name in ("shuffler", "collector")
    )
    for organisation in (shuffler, collector):
        organisation.folder.mkdir(parents=True)
        for plan in PLANS:
            shutil.copy(HERE / plan, organisation.folder)
    (folder / "exchange").mkdir()
    devices = [_device(folder / "devices" / str(number)) for number in range(arguments.devices)]
    # The last is a browser's: `--stay` shows its address.
    devices.append(_device(folder / "devices" / "browser"))
    enrolled = [subprocess.check_output([*words, "--json"], text=True) for words, _ in devices]
    lines = [yaml.safe_load(answer)["enrol"] for answer in enrolled]
    (collector.folder / "devices.txt").write_text("\n".join([*lines, ""]))
    collector.run("keys")
    _site(collector.folder / "site", ports)
    shuffler.run("open")
    with contextlib.ExitStack() as services:
        for organisation, service, name in (
            (shuffler, "endpoint-page", "PAGE_ENDPOINT"),
            (shuffler, "endpoint-devices", "DEVICE_ENDPOINT"),
            (collector, "issuer", "ISSUER"),
            (collector, "page", "PAGE"),
        ):
            services.enter_context(organisation.serving(service, ports[name]))
        for number, (_, place) in enumerate(devices[:-1]):
            _report(place, _LUNCHES[number % 2], arguments.window, ports)
        site = collector.folder / "site"
        if (site / "client").exists() and arguments.browsers:
            address = f"http://localhost:{ports['PAGE_ENDPOINT']}/reports"
            script = str(_EXAMPLE / "devices.mjs")
            subprocess.run(
                ["node", script, str(site), address, str(arguments.browsers)], check=True
            )
        if arguments.stay:
            page, secret = f"http://localhost:{ports['PAGE']}/", devices[-1][1] / "secret"
            print(f"\nAnswer at {page}, or with a token at {page}device/#", end="")
            input(f"{secret.read_bytes().hex()}\nthen press Enter here: ")
        shuffler.run("night")
        collector.run("night")
    _verify(folder, arguments.window)


def _device(folder: Path) -> tuple[list[str], Path]:
    """The command that makes a device's secret, and its folder."""
    folder.mkdir(parents=True)
    return [_hushbeam(), "parties", "tokens", "device", str(folder / "secret")], folder


def _report(folder: Path, lunch: str, window: str, ports: dict[str, int]) -> None:
    """Fetch a token, seal a report, and post it."""
    exchange = folder.parents[1] / "exchange"
    for plan in PLANS:
        shutil.copy(HERE / plan, folder)
    own = f"devices.yaml --window {window}"
    keys = f"--keys {exchange}/keys.json --signer {exchange}/signing.public.pem"
    issuer, endpoint = (f"http://127.0.0.1:{ports[name]}" for name in ("ISSUER", "DEVICE_ENDPOINT"))
    for words, values in (
        (
            f"tokens fetch {own} --issuer {issuer} --device-secret secret {keys} "
            "--seen-keys seen.json --output token",
            "",
        ),
        (f"client {own} --input - --seal {exchange}/key.pem --output report.bin", f"{lunch}\n"),
        (
            f"tokens spend {own} --input report.bin --seal {exchange}/key.pem --tokens token "
            f"--to {endpoint}",
            "",
        ),
    ):
        subprocess.run(
            [_hushbeam(), "parties", *words.split()], cwd=folder, input=values, text=True,
            check=True, env=os.environ | {"XDG_STATE_HOME": str(folder / "state")},
        )  # fmt: skip


def _site(site: Path, ports: dict[str, int]) -> None:
    """The pages of the example, with the client where it is built: for all, and for the invited."""
    page = (_EXAMPLE / "index.html").read_text()
    for old, new in _WORDS.items():
        before, page = page, page.replace(old, new)
        if page == before:
            raise SystemExit(f"{_EXAMPLE / 'index.html'} does not say {old!r} any more")
    own, invited, issuer = (
        f"http://localhost:{ports[name]}" for name in ("PAGE_ENDPOINT", "DEVICE_ENDPOINT", "ISSUER")
    )
    (site / "index.html").write_text(page.replace(_ENDPOINT, own))
    # In earnest an hour, or a day: who sees both services must not tell fetches by their posts.
    page = page.replace('data-spread="3600000"', 'data-spread="10000"')
    page = page.replace('data-issuer=""', f'data-issuer="{issuer}"')
    page = page.replace(_ENDPOINT, invited).replace(f"{invited};", f"{invited} {issuer};")
    (site / "device" / "index.html").write_text(page)
    script = (_EXAMPLE / "page.js").read_text()
    (site / "page.js").write_text(script)
    (site / "device" / "page.js").write_text(script.replace("./client/", "../client/"))
    if _CLIENT.exists():
        shutil.copytree(_CLIENT, site / "client")
    else:
        print("clients/typescript is not built (npm ci && npm run build): no browser can report")


def _verify(folder: Path, window: str) -> None:
    """As a third party, who has been given the publisher's key alone."""
    released = folder / "collector" / "released" / window
    for plan in ("page", "devices"):
        table = pq.read_table(released / plan / "lunch" / "count.parquet").to_pylist()
        figures = ", ".join(f"{row['value'] or OTHER} {row['estimate']:.1f}" for row in table)
        print(f"\n{plan}: {figures}", flush=True)
    subprocess.run(
        [_hushbeam(), "verify", str(released / "page"), str(released / "devices"),
         "--key", str(folder / "exchange" / "publisher.pem")],
        check=True,
    )  # fmt: skip


def _hushbeam() -> str:
    return str(Path(sys.executable).parent / "hushbeam")


if __name__ == "__main__":
    main()
