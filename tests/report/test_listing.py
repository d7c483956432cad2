from embedrun.report.facts import Entry, listing


def test_files_come_first_then_folders_with_what_they_hold(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(bytes(1500))
    (tmp_path / "model" / "config").write_bytes(bytes(500))
    (tmp_path / "results.json").write_bytes(bytes(12))
    (tmp_path / "own").write_bytes(b"")
    for name in (".lock", "report.html"):
        (tmp_path / name).write_bytes(b"x")
    assert listing(tmp_path) == [
        Entry("own", "0 B", ""),
        Entry("results.json", "12 B", "scores, intervals, baseline, counts, times"),
        Entry(
            "model/",
            "2 files, 2.0 kB",
            "the best weights, for embedrun, transformers and sentence-transformers",
        ),
    ]


def test_links_are_not_followed(tmp_path):
    inside = tmp_path / "run"
    (inside / "plots").mkdir(parents=True)
    (tmp_path / "large").write_bytes(bytes(5000))
    (inside / "plots" / "link").symlink_to(tmp_path / "large")
    (inside / "model").symlink_to(tmp_path)
    sizes = {entry.name: entry.size for entry in listing(inside)}
    assert sizes.keys() == {"plots/", "model"}
    assert "kB" not in "".join(sizes.values())
