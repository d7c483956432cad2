"""Whatever befalls the rows that are kept on the disk, a run trains on what the user's files say."""

import contextlib
import csv
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import accidents
import forked
import operations
import pytest
import same_run
import small_disk
import small_models

from embedrun.dataset.pairs import Texts
from embedrun.rows import Rows
from embedrun.store import Store

pytestmark = pytest.mark.chaos
_WORDS = ("a", "dog", "ran", "over", "the", "hill", "and", "was", "happy", "to", "see", "red", "cats")
SHORT, LONG = 600, 60_000  # rows; the latter take a second to prepare
Row = tuple[str, str, float]


def made(count: int, seed: int) -> list[Row]:
    rng = random.Random(seed)

    def text() -> str:
        return " ".join(rng.choices(_WORDS, k=6))

    return [(text(), text(), round(5 * rng.random(), 2)) for _ in range(count)]


def put(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text1", "text2", "score"), *rows])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and files of pairs; read only."""
    forked.warm_up()
    folder = tmp_path_factory.mktemp("files")
    small_models.put(folder / "bert", "bert")
    put(folder / "train.csv", made(SHORT, 1))
    put(folder / "long.csv", made(LONG, 2))
    put(folder / "dev.csv", made(40, 3))
    return folder


def training(files: Path, path: Path | str, *options: str) -> tuple[str, ...]:
    return (
        "train",
        f"backbone.name={files / 'bert'}",
        "pooling=mean",
        "loss=cosent",
        "gpu=cpu",
        "gpu.threads=1",
        "evaluation=none",
        "training.max_steps=6",
        "training.batch_size=16",
        "training.evaluate_every=2",
        "tracking.log_every=1",
        "hydra.run.dir=run",
        "dataset=pairs",
        f"dataset.path={path}",
        f"dataset.dev={files / 'dev.csv'}",
        *options,
    )


@contextlib.contextmanager
def cached_in(folder: Path) -> Iterator[None]:
    """The user's cache folder is this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., dict]:
    """Train in a folder of its own with a cache that they share; gives every byte of the run."""

    def run(name: str, *arguments: str, kept: Path = tmp_path / "cache") -> dict:
        (tmp_path / name).mkdir()
        ended = forked.run(tmp_path / name, *arguments, around=partial(cached_in, kept))
        assert ended.code == 0, ended.said
        return same_run.content(tmp_path / name / "run")

    return run


def said(tmp_path: Path, name: str) -> str:
    return (tmp_path / name / "output.txt").read_text()


def prepared(kept: Path) -> list[str]:
    """The kinds of what is kept."""
    folders = [path for path in (kept / "embedrun" / "prepared").iterdir() if path.is_dir()]
    return sorted(path.name.partition("-")[0] for path in folders)


def test_four_processes_at_once_prepare_the_same_file(files: Path, train, tmp_path: Path):
    kept, arguments = tmp_path / "cache", training(files, files / "long.csv")
    folders = [tmp_path / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
    started = [forked.start(folder, *arguments, around=partial(cached_in, kept)) for folder in folders]
    ended = [one.end() for one in started]
    assert [one.code for one in ended] == [0] * 4, ended
    runs = [same_run.content(folder / "run") for folder in folders]
    assert runs == [train("alone", *arguments, kept=tmp_path / "other")] * 4


def test_a_kill_while_a_file_is_prepared_leaves_nothing_that_is_read(files: Path, train, tmp_path: Path):
    kept, arguments = tmp_path / "cache", training(files, files / "long.csv")
    (tmp_path / "killed").mkdir()
    started = forked.start(tmp_path / "killed", *arguments, around=partial(cached_in, kept))
    until = time.monotonic() + 60
    while not list(kept.glob("embedrun/prepared/.tmp-*")):
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(started.pid, signal.SIGKILL)
    assert started.end().code == -9
    assert len(list(kept.glob("embedrun/prepared/.tmp-*"))) == 1
    assert not (tmp_path / "killed" / "run").exists()
    after = train("after", *arguments)
    assert after == train("alone", *arguments, kept=tmp_path / "other")


@pytest.mark.parametrize("where", ["/proc/none", "file"])
def test_a_cache_that_cannot_be_written_costs_time_alone(files: Path, train, tmp_path: Path, where: str):
    (tmp_path / "file").write_text("no folder")
    arguments = training(files, files / "train.csv")
    first = train("first", *arguments, kept=tmp_path / where)
    words = said(tmp_path, "first")
    assert words.count("cannot be written") == 1, words
    assert first == train("alone", *arguments)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("damage", "pattern"),
    [
        (flip, "*.arrow"),
        (flip, "numbers.npy"),
        (flip, "ids"),
        (cut, "view-*.npy"),
        (cut, "entry.json"),
        (Path.unlink, "texts.arrow"),
        (Path.unlink, "entry.json"),
    ],
)
def test_damage_in_the_cache_is_seen_and_made_anew(
    files: Path, train, tmp_path: Path, damage: Callable[[Path], None], pattern: str
):
    arguments = training(files, files / "train.csv")
    first = train("first", *arguments)
    found = list((tmp_path / "cache").rglob(pattern))
    assert found
    for path in found:
        damage(path)
    assert train("second", *arguments) == first
    assert "what was prepared before is damaged and is made anew" in said(tmp_path, "second")
    assert train("third", *arguments) == first
    assert "damaged" not in said(tmp_path, "third")


def test_other_bytes_under_the_same_name_size_and_time_are_other_rows(files: Path, train, tmp_path: Path):
    own = tmp_path / "own.csv"
    put(own, made(SHORT, 1))
    os.utime(own, (1e9, 1e9))
    arguments = training(files, own)
    first = train("first", *arguments)
    before = own.stat()
    own.write_bytes(own.read_bytes().replace(b"dog", b"god").replace(b"cats", b"cast"))
    os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = own.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size, before.st_mtime_ns, before.st_ino,
    )  # fmt: skip
    second = train("second", *arguments)
    assert second != first
    assert second == train("alone", *arguments, kept=tmp_path / "other")


def test_what_data_clean_removes_between_two_runs_is_made_anew(files: Path, train, tmp_path: Path):
    kept, arguments = tmp_path / "cache", training(files, files / "train.csv")
    first = train("first", *arguments)
    assert "rows" in prepared(kept)
    (tmp_path / "clean").mkdir()
    ended = forked.run(tmp_path / "clean", "data", "clean", around=partial(cached_in, kept))
    assert ended.code == 0, ended.said
    assert prepared(kept) == []
    assert train("second", *arguments) == first


def test_a_full_disk_is_named_and_leaves_no_run(files: Path, train, tmp_path: Path):
    arguments, small, folder = training(files, files / "long.csv"), tmp_path / "small", tmp_path / "folder"
    small.mkdir()
    folder.mkdir()

    def work() -> None:
        ended = forked.run(folder, *arguments, around=partial(cached_in, small / "cache"))
        assert ended.code == 5, ended.said
        assert "Traceback" not in ended.said
        assert f"{small / 'cache/embedrun/prepared'}: no room left on the disk for" in ended.said
        assert not (folder / "run").exists()
        assert list(small.glob("cache/embedrun/prepared/rows-*")) == []

    if not small_disk.run(small, 5_000_000, work):
        pytest.skip("this machine allows no file system of one's own")


@pytest.mark.parametrize("again", ["resume", "train"])
def test_a_divided_file_is_divided_alike_after_a_kill(files: Path, train, tmp_path: Path, again: str):
    own = tmp_path / "own.csv"
    put(own, made(SHORT, 1))
    options = ("dataset.dev=null", "dataset.split={train: 0.7, dev: 0.2, test: 0.1}", "dataset.split_seed=7")
    options += ("training.resume=auto", "training.save_every=1", "evaluation=heldout")
    arguments = [one for one in training(files, own, *options) if one != "evaluation=none"]
    whole = train("whole", *arguments)
    (tmp_path / "killed").mkdir()

    @contextlib.contextmanager
    def dying() -> Iterator[None]:
        with cached_in(tmp_path / "cache"), accidents.at_step(4, operations.kill):
            yield

    assert forked.run(tmp_path / "killed", *arguments, around=dying).code == -9
    command = arguments if again == "train" else ("resume", "run")
    ended = forked.run(tmp_path / "killed", *command, around=partial(cached_in, tmp_path / "colder"))
    assert ended.code == 0, ended.said
    assert same_run.resumed(tmp_path / "killed" / "run") == [3]
    assert same_run.content(tmp_path / "killed" / "run") == whole


def test_two_processes_of_one_run_prepare_once_from_a_cold_cache(files: Path, train, tmp_path: Path):
    arguments = training(files, files / "train.csv", "gpu.processes=2")
    first = train("first", *arguments)
    kept = ["baseline", "normalised", "rows", "rows", "tokens"]
    assert prepared(tmp_path / "cache") == kept
    assert train("second", *arguments) == first
    assert "waiting for another process" not in said(tmp_path, "second")


def test_masked_copies_are_alike_whether_their_texts_are_kept_or_in_memory(
    files: Path, train, tmp_path: Path
):
    own = tmp_path / "own.txt"
    own.write_text("".join(f"{one} {other} {one}\n" for one, other, _ in made(1200, 4)))
    others = ("loss=", "dataset=", "pooling=")
    arguments = [one for one in training(files, own) if not one.startswith(others)]
    arguments += ["loss=arccse", "dataset=texts", "dataset.masking={least_words: 15}", "pooling=cls_mlp"]
    cold = train("cold", *arguments)
    assert train("warm", *arguments) == cold
    read = Texts.read

    def in_memory(self: Texts, split: str, store: Store) -> Rows:
        rows = read(self, split, store)
        lists = {view: list(column) for view, column in rows.texts.items()}
        return replace(rows, texts=lists, kept=None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Texts, "read", in_memory)
        assert train("lists", *arguments, kept=tmp_path / "other") == cold
    assert "rows" in prepared(tmp_path / "cache")


OLD, NEW = "a" * 40, "b" * 40  # commits


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with two commits of a data set, laid out by hand; gives the file of its branch."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub" / "datasets--owner--name"
    for seed, commit in enumerate((OLD, NEW)):
        folder = home / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# Name\n")
        put(folder / "train.csv", made(SHORT, seed))
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(OLD)
    return home / "refs" / "main"


@pytest.mark.parametrize("revision", ["null", "main"])
@pytest.mark.parametrize("again", ["resume", "train"])
def test_a_resumed_run_keeps_the_commit_that_it_began_with(
    files: Path, train, tmp_path: Path, hub: Path, again: str, revision: str
):
    options = (f"dataset.revision={revision}", "training.resume=auto", "training.save_every=1")
    arguments = training(files, "hf://datasets/owner/name", *options)
    whole = train("whole", *arguments)
    assert said(tmp_path, "whole").count(f"is {OLD}") == 1
    folder = tmp_path / "killed"
    folder.mkdir()

    @contextlib.contextmanager
    def dying() -> Iterator[None]:
        with cached_in(tmp_path / "cache"), accidents.at_step(4, operations.kill):
            yield

    assert forked.run(folder, *arguments, around=dying).code == -9
    hub.write_text(NEW)
    command = arguments if again == "train" else ("resume", "run")
    ended = forked.run(folder, *command, around=partial(cached_in, tmp_path / "cache"))
    assert ended.code == 0, ended.said
    assert NEW not in ended.said
    assert same_run.resumed(folder / "run") == [3]
    assert same_run.content(folder / "run") == whole
    assert same_run.read(folder / "run/environment.json")["data"]["hub owner/name"] == OLD
    assert f"revision: {OLD}" in (folder / "run/config.yaml").read_text()
    assert train("newer", *arguments) != whole
    assert f"is {NEW}" in said(tmp_path, "newer")
