"""Rules for every test: no network, few interpreters, nothing skipped unseen, a cache of its own.

And commands to run, in an empty folder where a test asks for one.
"""

import base64
import contextlib
import gc
import io
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Before anything imports torch or the hub's client, which read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
# The hundred interpreters that tests start compile the package once, and so do the workers; see below.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest
from hypothesis import settings

gc.disable()  # until all is collected: what is imported until then stays
sys.dont_write_bytecode = False
# The same examples in every run, and no folder of earlier ones.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup: heard in tests of it, and never fatal
    signal.signal(signal.SIGHUP, lambda *_: None)
_LOOPBACK = ("127.", "::1", "localhost", "::ffff:127.")

Interpreter = Callable[..., subprocess.CompletedProcess[str]]


def _stays_here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return name is None or (isinstance(name, str) and name.startswith(_LOOPBACK))


class NetworkRefusedError(OSError):
    """A test reached for the network without the marker `network`."""


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback addresses and Unix sockets; a test marked `network` is free."""
    if request.node.get_closest_marker("network"):
        monkeypatch.delenv("HF_HUB_OFFLINE")
        return
    look_up = socket.getaddrinfo

    def guarded(name: str) -> Callable:
        original = getattr(socket.socket, name)

        def connect(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX and not (isinstance(address, tuple) and _stays_here(address[0])):
                raise NetworkRefusedError(f"a test may not reach {address!r}; mark it `network`")
            return original(self, address)

        return connect

    def resolve(host: object, *rest: object, **more: object) -> object:
        if not _stays_here(host):
            raise NetworkRefusedError(f"a test may not look up {host!r}; mark it `network`")
        return look_up(host, *rest, **more)  # type: ignore[arg-type]

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache folder, and with it the default data store, is an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _own_log() -> None:
    """The package's logger as Python makes it: a run of an earlier test has changed it."""
    logger = logging.getLogger("embedrun")
    logger.setLevel(logging.NOTSET)
    logger.propagate, logger.disabled = True, False


@pytest.fixture
def counted() -> None:
    """Says that this test starts interpreters; few may, see test_interpreters.py."""


@pytest.fixture
def interpreter(counted: None, tmp_path: Path) -> Interpreter:
    """Run `python -m embedrun ...`, or with `code=...` that program, in the test's own folder."""

    def run(
        *arguments: str, code: str | None = None, cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        what = ["-m", "embedrun", *arguments] if code is None else ["-c", code, *arguments]
        root = Path(__file__).resolve().parent.parent
        path = os.pathsep.join(part for part in (str(root), os.environ.get("PYTHONPATH")) if part)
        return subprocess.run(
            [sys.executable, *what],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


# The whole pipeline in a second: two steps of a BERT of one layer on 48 generated pairs.
TINY = (
    "+experiment=quickstart",
    "dataset.train_rows=48",
    "dataset.dev_rows=16",
    "dataset.test_rows=16",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "training.max_steps=2",
    "training.batch_size=16",
)

# What must never be written down.
CANARIES = {"HF_TOKEN": "hf_canary1", "WANDB_API_KEY": "canary2", "AWS_SECRET_ACCESS_KEY": "canary3"}

# A PNG of one grey pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Finished:
    """A finished training run.

    Args:
        path: its directory, absolute.
        folder: where the command ran.
        out: of the command.
        err: of the command.
    """

    path: Path
    folder: Path
    out: str
    err: str


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def _no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known speed."""
    monkeypatch.setattr("embedrun.estimate.rate", lambda device, kind: 1e9)


@pytest.fixture
def _alone(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to run in; loggers that Hydra switches off are on again afterwards."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if not request.node.get_closest_marker("realdata"):
        monkeypatch.delenv("EMBEDRUN_DATA", raising=False)
    yield
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.disabled = False


@pytest.fixture
def _quick_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots of a run are no figures, which are half the time of a tiny one; test_plot.py draws them all."""
    from matplotlib.figure import Figure

    from embedrun import plot

    def sketch(*arguments: object) -> None:
        (path,) = (one for one in arguments if isinstance(one, Path))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(PIXEL)

    for name in ("curves", "density", "distribution"):
        monkeypatch.setattr(plot, name, sketch)
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: Path(path).write_bytes(PIXEL))


@pytest.fixture
def embedrun(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""
    from embedrun.cli import main

    def run(*arguments: str | Path) -> Ended:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


def _train(folder: Path) -> Finished:
    from embedrun.cli import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        for name, value in CANARIES.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["train", *TINY])
    assert code == 0, err.getvalue()
    (path,) = (folder / "outputs" / "quickstart").iterdir()
    return Finished(path, folder, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def options() -> tuple[str, ...]:
    """Overrides of a run that takes a second."""
    return TINY


@pytest.fixture
def canaries() -> dict[str, str]:
    """The secrets that stood in the environment while `tiny` ran."""
    return CANARIES


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run of `TINY`; read only."""
    return _train(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_again(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The same once more."""
    return _train(tmp_path_factory.mktemp("again"))


@pytest.fixture
def refused(embedrun: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command that must end before anything is written or started; returns its message."""
    from embedrun.launch import launcher
    from embedrun.runs.directory import Run

    create = Run.create

    def make(name: str, config: dict, *, directory: str | None = None, again: bool = False) -> Run:
        assert directory is not None, "a run has begun"
        assert Path(directory).exists(), "a run has begun"
        return create(name, config, directory=directory, again=again)  # refuses

    def start(*_: object) -> None:
        raise AssertionError("a job has begun")

    monkeypatch.setattr(Run, "create", make)
    monkeypatch.setattr(launcher, "run_in_child", start)

    def run(*arguments: str | Path, code: int = 2) -> str:
        before = sorted(Path.cwd().rglob("*"))
        ended = embedrun(*arguments)
        assert (ended.code, ended.out) == (code, ""), ended
        assert sorted(Path.cwd().rglob("*")) == before
        assert "Traceback" not in ended.err
        return ended.err

    return run


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file of the user's own --config-dir; returns that folder."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return tmp_path / "own"

    return write


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--limits", action="store_true", help="name slow tests; fail where all take over 300 s")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--limits") and not hasattr(config, "workerinput"):
        from limits import Limits

        config.pluginmanager.register(Limits())


def pytest_collection_finish() -> None:
    """What libraries and tests are made of is never garbage, and not to be looked through again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real data need the folder with it."""
    if "EMBEDRUN_DATA" in os.environ:
        return
    unset = pytest.mark.skip(reason="EMBEDRUN_DATA is not set")
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(unset)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where the data is there and the machine is to test all, a skipped test on it is a failure."""
    report = yield
    must_run = os.environ.get("CI") == "true" and "EMBEDRUN_DATA" in os.environ
    if report.skipped and must_run and item.get_closest_marker("realdata"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although EMBEDRUN_DATA is set: {report.longrepr}"
    return report
