import json
from pathlib import Path

import operations
import pytest

from embedrun.errors import ConfigError, DataError
from embedrun.store import Store, fill
from embedrun.store.fill import from_folder

SUBJ_FILE, STS_FILE, TEXT_FILE = "senteval/subj/train.jsonl.gz", "sts/a.tsv.gz", "wiki/a.txt.gz"


def everything(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def states(results: list[fill.Fetched]) -> dict[str, str]:
    return {one.path: one.state for one in results}


def test_a_copy_has_the_same_files_and_the_same_entries(tmp_path, make_store, catalogue):
    source, store = make_store("source"), Store(tmp_path / "made" / "data")
    results = from_folder(store, source, [], catalogue)
    assert states(results) == dict.fromkeys((SUBJ_FILE, STS_FILE, TEXT_FILE), "copied")
    assert [one.rows for one in results] == [4, 2, 2]
    copied, given = everything(store.root), everything(source)
    assert json.loads(copied.pop("MANIFEST.json")) == json.loads(given.pop("MANIFEST.json"))
    assert copied == given


def test_names_choose_files_by_data_set_group_folder_and_stem(tmp_path, make_store, catalogue):
    source = make_store("source")
    for names, paths in (
        (["subj"], [SUBJ_FILE]),
        (["senteval/", "plain"], [SUBJ_FILE, TEXT_FILE]),
        (["all"], [SUBJ_FILE, STS_FILE, TEXT_FILE]),
        (["a"], [STS_FILE, TEXT_FILE]),
    ):
        store = Store(tmp_path / "-".join(names).replace("/", ""))
        assert list(states(from_folder(store, source, names, catalogue))) == paths
        assert [entry["path"] for entry in store.manifest] == paths


def test_a_name_that_means_nothing_gets_the_nearest_and_copies_nothing(tmp_path, make_store, catalogue):
    with pytest.raises(ConfigError, match="nothing is named 'sbj'; did you mean 'subj'"):
        from_folder(Store(tmp_path / "data"), make_store("source"), ["sbj", "plain"], catalogue)
    assert not (tmp_path / "data").exists()


def test_what_is_there_and_right_is_not_copied_again(tmp_path, make_store, catalogue, monkeypatch):
    source, store = make_store("source"), Store(tmp_path / "data")
    from_folder(store, source, ["subj", "sts"], catalogue)
    written: list[str] = []
    monkeypatch.setattr(fill, "place", lambda _, entry, pieces: written.append(entry["path"]))
    results = from_folder(Store(tmp_path / "data"), source, [], catalogue)
    assert written == [TEXT_FILE]
    assert states(results) == {SUBJ_FILE: "there", STS_FILE: "there", TEXT_FILE: "copied"}


def test_a_copy_that_is_killed_at_any_change_goes_on_to_the_same_store(tmp_path, make_store, catalogue):
    source = make_store("source")
    with operations.strike(0, operations.raise_killed, tmp_path / "whole") as done:
        from_folder(Store(tmp_path / "whole"), source, [], catalogue)
    assert sum(change.startswith("replace") for change in done) == 6  # three files, the manifest after each
    for number in range(1, len(done) + 1):
        data = tmp_path / f"data-{number}"
        with operations.strike(number, operations.raise_killed, data), pytest.raises(operations.Killed):
            from_folder(Store(data), source, [], catalogue)
        from_folder(Store(data), source, [], catalogue)
        assert everything(data) == everything(tmp_path / "whole")


def test_what_a_killed_copy_left_aside_is_overwritten(tmp_path, make_store, catalogue):
    store = Store(tmp_path / "data")
    (store.root / "wiki").mkdir(parents=True)
    (store.root / "wiki/.tmp-a.txt.gz").write_bytes(b"half a file, and longer than the whole one" * 10)
    source = make_store("source")
    from_folder(store, source, ["plain"], catalogue)
    assert set(everything(store.root)) == {TEXT_FILE, "MANIFEST.json"}
    assert (store.root / TEXT_FILE).read_bytes() == (source / TEXT_FILE).read_bytes()


def test_a_faulty_source_is_refused_before_anything_is_written(tmp_path, make_store, catalogue):
    source = make_store("source", {SUBJ_FILE: ['{"text": "a", "label": 1}'], TEXT_FILE: ["One."]})
    with pytest.raises(DataError) as caught:
        from_folder(Store(tmp_path / "data"), source, [], catalogue)
    text = str(caught.value)
    assert "1 rows, the manifest says 4" in text
    assert "1 rows, the manifest says 2" in text
    assert everything(tmp_path / "data") == {}


def test_a_truncated_source_is_refused_though_its_manifest_agrees(tmp_path, make_store, catalogue):
    source = make_store("source", {SUBJ_FILE: ['{"text": "a", "label": 1}']}, honest=True)
    with pytest.raises(DataError, match="1 rows, the published data set has 4"):
        from_folder(Store(tmp_path / "data"), source, ["subj"], catalogue)


def test_a_damaged_file_that_the_manifest_lists_is_replaced(tmp_path, make_store, catalogue):
    source, store = make_store("source"), Store(tmp_path / "data")
    from_folder(store, source, [], catalogue)
    (store.root / TEXT_FILE).write_bytes(b"short")
    assert states(from_folder(store, source, ["plain"], catalogue)) == {TEXT_FILE: "copied"}
    assert (store.root / TEXT_FILE).read_bytes() == (source / TEXT_FILE).read_bytes()


def test_another_file_of_the_name_is_never_overwritten(tmp_path, make_store, catalogue):
    source = make_store("source")
    other = make_store("other", {TEXT_FILE: ["Three.", "Four."]}, honest=True)
    unlisted = tmp_path / "unlisted"
    (unlisted / "wiki").mkdir(parents=True)
    (unlisted / TEXT_FILE).write_bytes(b"my own")
    for root in (other, unlisted):
        before = everything(root)
        with pytest.raises(DataError, match="another file of this name is there; move it away"):
            from_folder(Store(root), source, ["plain"], catalogue)
        assert everything(root) == before


def test_a_folder_without_manifest_is_no_source(tmp_path, catalogue):
    with pytest.raises(DataError, match=r"MANIFEST\.json: not in the data folder"):
        from_folder(Store(tmp_path / "data"), tmp_path / "nothing", [], catalogue)


def test_a_second_filler_is_refused_while_the_first_works(tmp_path, make_store, catalogue):
    store = Store(tmp_path / "data")
    with fill.filling(store), pytest.raises(DataError, match="another embedrun data get fills it now"):
        from_folder(store, make_store("source"), [], catalogue)


def test_a_store_that_cannot_be_made_is_refused(tmp_path, make_store, catalogue):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written .*--data-dir DIR"):
        from_folder(Store(tmp_path / "file" / "data"), make_store("source"), [], catalogue)


def test_bytes_that_changed_since_they_were_checked_are_not_placed(tmp_path, make_store):
    source, store = Store(make_store("source")), Store(tmp_path / "data")
    with fill.filling(store), pytest.raises(DataError, match="not those that were checked"):
        fill.place(store, source.manifest[0], [b"other bytes"])
    assert everything(store.root) == {}


def test_no_name_of_a_manifest_leads_out_of_the_store(tmp_path, make_store, catalogue):
    source = make_store("source")
    entries = json.loads((source / "MANIFEST.json").read_text())
    entries[0]["path"] = "../outside.jsonl.gz"
    (source / "MANIFEST.json").write_text(json.dumps(entries))
    with pytest.raises(DataError, match="leads out of the data folder"):
        from_folder(Store(tmp_path / "data"), source, [], catalogue)
