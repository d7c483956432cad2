import pytest

from embedrun.dataset.published import GithubIssues
from embedrun.store import Store

ROW = {"text1": "a", "text2": "b\n\nc", "score": 1, "repository": "o/r", "number1": 2, "number2": 1}


@pytest.mark.parametrize("below", ["", "github_issues"])
def test_a_path_is_the_output_of_a_collection_or_the_folder_in_it(store, write, below, tmp_path):
    write("github_issues/train.jsonl.gz", [ROW])
    own = GithubIssues(path=str(store.root / below))
    elsewhere = Store(tmp_path / "none")
    assert own.problems("train", elsewhere) == []
    assert own.files("train", elsewhere) == []
    assert len(own.read("train", elsewhere)) == 1
