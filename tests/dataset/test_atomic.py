import pytest

from embedrun.files import clear_remains, published


def test_a_file_appears_once_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with published(path) as aside:
        aside.write_text("half")
        assert not path.exists()
        aside.write_text("whole")
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_fault_leaves_the_old_file_and_no_remains(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write() -> None:
        with published(path) as aside:
            aside.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_another_process_has_published_meanwhile_stands(tmp_path):
    path = tmp_path / "file.txt"
    with published(path) as aside:
        aside.write_text("same")
        path.write_text("same")
        clear_remains(tmp_path)
    assert path.read_text() == "same"


def test_a_file_that_nobody_published_is_missed(tmp_path):
    with pytest.raises(FileNotFoundError), published(tmp_path / "file.txt"):
        pass
