from embedrun.store import Store
from embedrun.store.fill import HEADING, listing


def test_each_data_set_has_files_rows_licence_and_presets(make_store, catalogue):
    root = make_store("data")
    (root / "wiki/a.txt.gz").unlink()
    (root / "mine.txt.gz").write_bytes(b"")
    assert listing(Store(root), catalogue, {"subj": ["arccse", "angle_bert"]}) == [
        HEADING,
        ["subj", "1 of 1", "4", "yes", "research use", "arccse, angle_bert"],
        ["sts", "1 of 2", "2", "yes", "CC BY", "-"],
        ["plain", "0 of 1", "-", "no", "CC BY-SA", "-"],
        ["mine.txt.gz", "1 of 1", "?", "no", "?", "-"],
    ]


def test_a_store_that_is_not_there_yet_lists_what_it_could_hold(tmp_path, catalogue):
    table = listing(Store(tmp_path / "none"), catalogue, {})
    assert [row[:3] for row in table[1:]] == [
        ["subj", "0 of 1", "-"],
        ["sts", "0 of 2", "-"],
        ["plain", "0 of 1", "-"],
    ]
