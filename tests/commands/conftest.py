import base64
import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedrun.cli import main
from embedrun.launch import launcher
from embedrun.runs.directory import Run

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


@pytest.fixture(autouse=True)
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


@pytest.fixture(autouse=True)
def _quick_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not drawn, which is half the time of a tiny run; tests/plot draws them all."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: Path(path).write_bytes(PIXEL))


@pytest.fixture
def embedrun(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*arguments: str | Path) -> Ended:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


def _train(folder: Path) -> Finished:
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
