"""Data sets of the hub, as files."""

import pytest

from embedrun.errors import DataError
from embedrun.store.hub import snapshot

COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
PINNED = "0123456789abcdef0123456789abcdef01234567"


def test_a_snapshot_of_another_commit_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path / COMMIT))
    with pytest.raises(DataError, match=f"expected the files of commit {PINNED}, got those of '{COMMIT}'"):
        snapshot("owner/sts", PINNED, ["one.jsonl"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RepositoryNotFoundError", "the hub has no data set of this name, or it is private"),
        ("RevisionNotFoundError", f"the hub has no revision '{PINNED}' of it"),
        ("GatedRepoError", "the hub gives it to approved users only"),
    ],
)
def test_what_the_hub_answers_is_put_in_words(monkeypatch, name, reason):
    import huggingface_hub
    from huggingface_hub import errors

    fault = getattr(errors, name)
    answer = fault.__new__(fault)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: (_ for _ in ()).throw(answer))
    with pytest.raises(DataError, match=reason):
        snapshot("owner/sts", PINNED, ["one.jsonl"])
