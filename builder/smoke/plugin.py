"""The pytest plugin of the smoke suite: picks the tests, starts containers for them and runs probes in those.

Loaded with `-p builder.smoke.plugin`, for the shipped suite and for an image's own tests alike. Fixtures for
those: `contract`, `host` (testinfra, in a shared container), `fresh_host` (a container of its own), `probe`.
"""

from __future__ import annotations

import inspect
import json
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import testinfra  # type: ignore[import-untyped]
import testinfra.host  # type: ignore[import-untyped]

from builder.engine import containers
from builder.engine.cards import Card
from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.probing import COMMAND, Ahead, Probe, Probing
from builder.smoke.recorder import FIGURES, NOT_RUN, SECONDS, Recorder, annotate
from builder.smoke.variables import needed_programs

__all__ = ["Probe"]  # the suite's own tests take it from here

# A test may wait for probes that were asked for before its own.
_TEST_SECONDS = 900.0
_CONTRACT = pytest.StashKey[Contract]()
_PROBING = pytest.StashKey[Probing]()
_AHEAD = pytest.StashKey[Ahead]()
_QUICKEST_FIRST = ("triton", "hipcc", "hip-module", "sglang-hash", "torch-inline")
_PROBE = "rocm-images-probe"  # the distribution that images/rocm-debian builds from source
_UNNAMED = (
    "compiles",
    "fingerprint",
    "needed",
    "probe_extension",
    "program",
    "served_engine",
)  # of which an image has one
_NEED_PYTHON = frozenset({"probe", "probe_in", "probed", "shared_probe"})
_NEED_SHELL = frozenset({"fresh", "fresh_host", "host", "shared", "start"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the runner passes on."""
    group = parser.getgroup("rocm-images")
    group.addoption("--image", required=True, help="Reference of the image under test.")
    group.addoption("--contract", required=True, help="JSON file with the image's contract.")
    group.addoption("--run-id", required=True, help="Label of every container that is started.")
    group.addoption("--record", required=True, help="JSON file to write the outcome to.")
    group.addoption("--card", help="How the host's GPU is handed to containers, as JSON.")
    group.addoption("--no-card", default="no GPU was handed to the tests", help="Why no GPU is used.")


def pytest_configure(config: pytest.Config) -> None:
    """Stop on signals the way an interrupt does, so that containers go; record from here on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    text = Path(str(config.getoption("contract"))).read_text(encoding="utf-8")
    contract = config.stash[_CONTRACT] = Contract.from_json(text)
    card = json.loads(config.getoption("card") or "null")
    config.stash[_PROBING] = Probing(
        str(config.getoption("image")), contract, str(config.getoption("run_id")),
        Card(devices=tuple(card["devices"]), groups=tuple(card["groups"]), model=card["model"]) if card else None,
    )  # fmt: skip
    config.stash[_AHEAD] = Ahead(config.stash[_PROBING])
    recorder = Recorder(Path(str(config.getoption("record"))))
    config.pluginmanager.register(recorder, "rocm-images-recorder")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per component, module, distribution and target that the contract names."""
    for name, asked in _per_contract(metafunc.config.stash[_CONTRACT]).items():
        if name not in metafunc.fixturenames:
            continue
        if asked:
            ids = ["none" if name in _UNNAMED else getattr(each, "name", str(each)) for each in asked]
            metafunc.parametrize(name, asked, ids=ids)
        else:
            metafunc.parametrize(name, [pytest.param(None, marks=pytest.mark.not_asked, id="none")])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the contract does not ask for; do not run, and say why, what nobody can judge here."""
    contract = config.stash[_CONTRACT]
    asked: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        compiles = item.get_closest_marker("jit")
        absent = item.get_closest_marker("not_asked") is not None
        why = _why_not(item, config)
        if absent and "probe_extension" in getattr(item, "fixturenames", ()):
            left.append(item)  # what only some images have is not told of the others
        elif why is not None:
            item.stash[NOT_RUN] = True
            item.add_marker(pytest.mark.skip(reason=why))
            asked.append(item)
        elif absent or (compiles and compiles.args[0] not in contract.jit):
            left.append(item)
        else:
            asked.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = asked


def pytest_runtestloop(session: pytest.Session) -> None:
    """Start the probes of all tests that say beforehand which they need; they run while others look."""
    ahead, contract = session.config.stash[_AHEAD], session.config.stash[_CONTRACT]
    asked = [(item, item.get_closest_marker("ahead")) for item in session.items if NOT_RUN not in item.stash]
    # The image's own command imports the whole engine: nothing takes longer, and it must not be the last.
    for item, marker in sorted(asked, key=lambda each: each[1] is not None and each[1].args[0] != COMMAND):
        if marker is not None:
            name, arguments = marker.args
            given = arguments(contract, **_wanted(arguments, _parameters(item)))
            ahead.ask(item.nodeid, given.pop("probe", name), given)
    ahead.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no container of a probe, however the session ends."""
    if _AHEAD in session.config.stash:
        session.config.stash[_AHEAD].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """End a test that hangs: it fails, and the next one runs."""
    marker = item.get_closest_marker("limit")
    seconds = float(marker.args[0]) if marker is not None else _TEST_SECONDS

    def hangs(_number: int, _frame: FrameType | None) -> None:
        raise unfit(f"the test did not end within {seconds:g} s", hint="look for what it waits for in vain")

    signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach to a report what its test is about and why it failed."""
    report = yield
    annotate(report, item, call.excinfo.value if call.excinfo is not None else None)
    return report


@pytest.fixture(scope="session")
def contract(pytestconfig: pytest.Config) -> Contract:
    """Return what the image promises."""
    return pytestconfig.stash[_CONTRACT]


@pytest.fixture(scope="session")
def probing(pytestconfig: pytest.Config) -> Probing:
    """Return what starts containers of the image and runs probes in them."""
    return pytestconfig.stash[_PROBING]


@pytest.fixture(scope="session")
def image(probing: Probing) -> str:
    """Return the reference of the image under test."""
    return probing.image


@pytest.fixture(scope="session")
def owner(probing: Probing) -> containers.Identity:
    """Return who the image has to run as; its writable directories belong to that user."""
    return probing.owner


@pytest.fixture(scope="session")
def start(probing: Probing) -> Callable[..., AbstractContextManager[containers.Running]]:
    """Return what starts a container as production would; keywords change that, see `Probing.start`."""
    return probing.start


@pytest.fixture(scope="session")
def shared(start: Callable[..., AbstractContextManager[containers.Running]]) -> Iterator[containers.Running]:
    """Start one container for all tests that only look."""
    with start() as container:
        yield container


@pytest.fixture
def fresh(start: Callable[..., AbstractContextManager[containers.Running]]) -> Iterator[containers.Running]:
    """Start a container for one test alone: every cache in it is cold."""
    with start() as container:
        yield container


@pytest.fixture(scope="session")
def host(shared: containers.Running) -> testinfra.host.Host:
    """Return testinfra's view of the shared container."""
    return testinfra.get_host(f"docker://{shared.name}")


@pytest.fixture
def fresh_host(fresh: containers.Running) -> testinfra.host.Host:
    """Return testinfra's view of a container of the test's own."""
    return testinfra.get_host(f"docker://{fresh.name}")


@pytest.fixture(scope="session")
def probe_in(probing: Probing) -> Callable[[containers.Running], Probe]:
    """Return what makes a `probe` for a container that the test started itself."""
    return probing.probe_in


@pytest.fixture
def probe(request: pytest.FixtureRequest, fresh: containers.Running, probing: Probing) -> Probe:
    """Run a probe in a container of its own and return its figures, or fail with the innermost cause.

    The figures join the record of the test.
    """
    run = probing.probe_in(fresh)
    recorded = request.node.stash.setdefault(FIGURES, {})

    def recording(name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever the probe takes
        figures = run(name, **arguments)
        recorded[name] = figures
        return figures

    return recording


@pytest.fixture
def probed(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Callable[[], dict[str, Any]]:
    """Wait for the probe that the test's marker `ahead` names; return its figures, or fail as `probe` does."""
    item: pytest.Item = request.node
    ahead = pytestconfig.stash[_AHEAD]

    def waited() -> dict[str, Any]:
        try:
            figures = ahead.result(item.nodeid)
            item.stash.setdefault(FIGURES, {})[item.get_closest_marker("ahead").args[0]] = figures  # type: ignore[union-attr]
            return figures
        finally:
            item.stash[SECONDS] = ahead.seconds(item.nodeid)

    return waited


@pytest.fixture(scope="session")
def shared_probe(shared: containers.Running, probing: Probing) -> Probe:
    """Run a probe as `probe` does, in the shared container."""
    return probing.probe_in(shared)


def _why_not(item: pytest.Item, config: pytest.Config) -> str | None:
    """Return why a test cannot judge this image here, None when it can."""
    contract, probing = config.stash[_CONTRACT], config.stash[_PROBING]
    gpu = item.get_closest_marker("gpu")
    if gpu is not None and probing.card is None:
        return str(config.getoption("no_card"))
    if gpu is not None and "model" in gpu.args and probing.card is not None and probing.card.model is None:
        return "no folder with a model was given; give one with --model"
    subjects = [subject for marker in item.iter_markers("asks") for subject in marker.args]
    subjects += [f"jit {marker.args[0]}" for marker in item.iter_markers("jit")]
    fixtures = getattr(item, "fixturenames", ())
    subjects += ["python"] if _NEED_PYTHON.intersection(fixtures) else []
    subjects += ["shell"] if _NEED_SHELL.intersection(fixtures) else []
    return next((contract.silent[subject] for subject in subjects if subject in contract.silent), None)


def _wanted(function: Callable[..., object], given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in inspect.signature(function).parameters}


def _parameters(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return dict(call.params) if call is not None else {}


def _per_contract(contract: Contract) -> dict[str, Sequence[object]]:
    """Return, per name of a test's parameter, the values that the contract gives it."""
    askable = [each for each in contract.components if each.distribution is not None or each.apt is not None]
    return {
        "component": askable,
        "module": contract.imports,
        "absent": contract.absent,
        "library": contract.dlopen,
        "loader": contract.loaders,
        "path": contract.paths,
        "pair": [f"{importer} -> {provider}" for importer, provider in contract.contracts],
        "needed": [programs] if (programs := needed_programs(contract)) else [],
        "required": contract.required,
        "served_engine": [contract.engine] if contract.engine is not None else [],
        "probe_extension": [each.name for each in contract.components if each.distribution == _PROBE][:1],
        "program": [*contract.entrypoint, *contract.cmd][:1],
        "label": sorted(contract.labels),
        "fingerprint": [contract.fingerprint] if contract.fingerprint is not None else [],
        "started": _ways_to_start(contract),
        "compiles": [name for name in _QUICKEST_FIRST if name in contract.jit][:1],
        "sized": sorted(contract.sizes),
        "patch": contract.patches,
        "probed_patch": [patch for patch in contract.patches if patch.is_probed],
        "hook": [patch for patch in contract.patches if patch.kind == "hook"],
        "triton_gfx": contract.triton_gfx,
        "hip_gfx": contract.hip_gfx,
    }


def _ways_to_start(contract: Contract) -> list[str]:
    if not contract.argv:
        return []
    without = ["without the entrypoint"] if contract.entrypoint else []
    return ["as declared", *without, "as another user"]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
