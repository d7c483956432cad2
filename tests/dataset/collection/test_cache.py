import gzip
import os
import time

import pytest

from embedrun.curation.collection.github import Cache, Page

PAGE = Page("https://api.github.com/repos/o/r/issues", 200, [{"body": "é \ud800"}], "next", 'W/"1"')


def test_a_page_comes_back_as_it_was(tmp_path):
    cache = Cache(tmp_path)
    assert cache.read(PAGE.url) is None
    cache.write(PAGE)
    assert cache.read(PAGE.url) == PAGE
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cache.path(PAGE.url)]


def test_the_same_page_is_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        Cache(tmp_path / name).write(PAGE)
    assert (
        Cache(tmp_path / "a").path(PAGE.url).read_bytes() == Cache(tmp_path / "b").path(PAGE.url).read_bytes()
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: b"",
        lambda content: gzip.compress(b"{}"),
        lambda content: gzip.compress(b"[1]"),
    ],
)
def test_a_damaged_page_is_none(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    path = cache.path(PAGE.url)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(PAGE.url) is None


def test_a_page_under_the_name_of_another_is_none(tmp_path):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    other = cache.path("https://other")
    other.parent.mkdir(parents=True)
    cache.path(PAGE.url).rename(other)
    assert cache.read("https://other") is None


def test_only_old_remains_of_killed_writers_are_removed(tmp_path):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    folder = cache.path(PAGE.url).parent
    old, new = folder / ".tmp-old", folder / ".tmp-new"
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 3700,) * 2)
    cache.clear_remains()
    assert (old.exists(), new.exists()) == (False, True)
    assert cache.read(PAGE.url) == PAGE
