"""The pytest plugin of the smoke suite: picks the tests, starts containers for them and runs probes in those.

Loaded with `-p builder.smoke.plugin`, for the shipped suite and for an image's own tests alike. Fixtures for
those: `contract`, `host` (testinfra, in a shared container), `fresh_host` (a container of its own), `probe`.
"""

from __future__ import annotations

import shlex
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
from builder.smoke import probes
from builder.smoke.contract import Contract
from builder.smoke.findings import Finding, Unfit, diagnosed
from builder.smoke.recorder import FIGURES, Recorder, annotate

Probe = Callable[..., dict[str, Any]]
_PROBE_SECONDS = 240.0
_LIFETIME_SECONDS = 1200
_CONTRACT = pytest.StashKey[Contract]()
_RECORDER = pytest.StashKey[Recorder]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the runner passes on."""
    group = parser.getgroup("rocm-images")
    group.addoption("--image", required=True, help="Reference of the image under test.")
    group.addoption("--contract", required=True, help="JSON file with the image's contract.")
    group.addoption("--run-id", required=True, help="Label of every container that is started.")
    group.addoption("--record", required=True, help="JSON file to write the outcome to.")


def pytest_configure(config: pytest.Config) -> None:
    """Stop on signals the way an interrupt does, so that containers go; record from here on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    text = Path(str(config.getoption("contract"))).read_text(encoding="utf-8")
    config.stash[_CONTRACT] = Contract.from_json(text)
    config.stash[_RECORDER] = Recorder(Path(str(config.getoption("record"))))
    config.pluginmanager.register(config.stash[_RECORDER], "rocm-images-recorder")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per component, module, distribution and target that the contract names."""
    for name, asked in _per_contract(metafunc.config.stash[_CONTRACT]).items():
        if name not in metafunc.fixturenames:
            continue
        if asked:
            metafunc.parametrize(name, asked, ids=[getattr(each, "name", str(each)) for each in asked])
        else:
            metafunc.parametrize(name, [pytest.param(None, marks=pytest.mark.not_asked)])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the contract does not ask for, and what needs a GPU."""
    jit = config.stash[_CONTRACT].jit
    asked: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        compiles = item.get_closest_marker("jit")
        if item.get_closest_marker("gpu") is not None:
            config.stash[_RECORDER].leave_out(item)
            left.append(item)
        elif item.get_closest_marker("not_asked") or (compiles is not None and compiles.args[0] not in jit):
            left.append(item)
        else:
            asked.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = asked


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
def image(pytestconfig: pytest.Config) -> str:
    """Return the reference of the image under test."""
    return str(pytestconfig.getoption("image"))


@pytest.fixture(scope="session")
def owner(image: str, contract: Contract) -> containers.Identity:
    """Return who the image has to run as; its writable directories belong to that user."""
    return containers.identity(image, contract.user or None)


@pytest.fixture(scope="session")
def start(
    image: str, contract: Contract, owner: containers.Identity, pytestconfig: pytest.Config
) -> Callable[..., AbstractContextManager[containers.Running]]:
    """Return what starts a container as production would; keywords change that, see `containers.running`."""

    def started(
        *,
        writable: Sequence[str] = contract.writable,
        **changes: Any,  # noqa: ANN401 -- whatever the engine module takes
    ) -> AbstractContextManager[containers.Running]:
        run = str(pytestconfig.getoption("run_id"))
        changes.setdefault("owner", owner)
        changes.setdefault("shm", contract.shm)
        return containers.running(image, run=run, writable=writable, lifetime_seconds=_LIFETIME_SECONDS, **changes)

    return started


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
def probe_in(contract: Contract) -> Callable[[containers.Running], Probe]:
    """Return what makes a `probe` for a container that the test started itself."""
    return lambda container: _probe_in(container, contract)


@pytest.fixture
def probe(request: pytest.FixtureRequest, fresh: containers.Running, contract: Contract) -> Probe:
    """Run a probe in a container of its own and return its figures, or fail with the innermost cause.

    The figures join the record of the test.
    """
    run = _probe_in(fresh, contract)
    recorded = request.node.stash.setdefault(FIGURES, {})

    def recording(name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever the probe takes
        figures = run(name, **arguments)
        recorded[name] = figures
        return figures

    return recording


@pytest.fixture(scope="session")
def shared_probe(shared: containers.Running, contract: Contract) -> Probe:
    """Run a probe as `probe` does, in the shared container."""
    return _probe_in(shared, contract)


def _per_contract(contract: Contract) -> dict[str, Sequence[object]]:
    """Return, per name of a test's parameter, the values that the contract gives it."""
    askable = [each for each in contract.components if each.distribution is not None or each.apt is not None]
    return {
        "component": askable,
        "module": contract.imports,
        "absent": contract.absent,
        "triton_gfx": contract.triton_gfx,
        "hip_gfx": contract.hip_gfx,
    }


def _probe_in(container: containers.Running, contract: Contract) -> Probe:
    host = testinfra.get_host(f"docker://{container.name}")

    def run(name: str, *, limit_seconds: float = _PROBE_SECONDS, **arguments: object) -> dict[str, Any]:
        command = probes.argv(contract.python, name, arguments, limit_seconds=limit_seconds)
        done = host.run(shlex.join(command))
        answer = probes.read_answer(done.stdout)
        words = probes.last_words(done.stderr)
        if answer is None:
            raise Unfit(_death(name, container, contract, done.rc, words))
        if not answer.ok:
            evidence = "\n".join([answer.evidence, *words])
            details = answer.compiler or words
            raise Unfit(diagnosed(evidence, contract, otherwise=answer.innermost, details=details))
        if done.rc != 0:
            cause = f"the probe {name} did its work and then died with status {done.rc} while it ended"
            raise Unfit(Finding(cause=cause, details=words))
        return dict(answer.figures)

    return run


def _death(
    name: str, container: containers.Running, contract: Contract, status: int, words: tuple[str, ...]
) -> Finding:
    """Say why a probe gave no answer. Raises `EngineError` when the engine is the reason."""
    known = containers.state(container.name)
    if known is None or not known.running:
        return Finding(cause=f"the container ended while the probe {name} ran in it: killed, or out of memory")
    said = "\n".join(words)
    otherwise = f"the probe {name} died with status {status}: {words[0] if words else 'it said nothing'}"
    if said.startswith("Timeout ("):
        otherwise = f"the probe {name} did not end in time"
    return diagnosed(said, contract, otherwise=otherwise, details=words)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
