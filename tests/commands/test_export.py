import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import httpx
import huggingface_hub
import numpy as np
import pytest
import torch
import yaml
from huggingface_hub.errors import HfHubHTTPError

from embedrun.commands.export import main
from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError, RunFailed

TOKEN = "hf_canary"
TEXTS = ["a dog runs over the hill", "Two Dogs", "a cat sits, and sits " * 60]


def close(found, wanted, tolerance=1e-6):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


def with_sentence_transformers(folder) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return loaded.encode(TEXTS, show_progress_bar=False)


def test_an_exported_run_gives_the_vectors_of_the_run_in_every_library(tiny, capsys):
    assert main([str(tiny.path), "out", "--repo-id", "me/mine", "--license", "apache-2.0"]) == 0
    said = capsys.readouterr()
    assert "the vectors of 5 texts differ from the run's by at most 0\n" in said.out
    assert said.out.endswith("\n\nhf upload me/mine out\n")
    assert said.err == ""
    ours = Encoder.load(tiny.path).encode(TEXTS)
    close(Encoder.load("out").encode(TEXTS), ours)
    close(with_sentence_transformers("out"), ours)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["out"]


@pytest.mark.parametrize("scores", [["sts"], {"sts/avg/spearman": "high"}])
def test_a_run_whose_scores_make_no_card_is_refused_by_name(scores, tiny):
    path = Path(shutil.copytree(tiny.path, "broken")) / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scores": scores}))
    with pytest.raises(
        DataError, match=r"make a model card \((Attribute|Value)Error.*copy of its model folder"
    ):
        main(["broken", "out"])
    assert not Path("out").exists()


def test_the_card_of_a_run_says_what_it_scores_and_what_it_was_made_of(tiny):
    assert main([str(tiny.path), "out", "--repo-id", "me/mine", "--license", "apache-2.0"]) == 0
    text = Path("out/README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---\n")[1])
    assert (head["license"], head["library_name"]) == ("apache-2.0", "sentence-transformers")
    results = json.loads((tiny.path / "results.json").read_text())
    before, after = (results[name]["toy_test/spearman"] for name in ("baseline", "scores"))
    assert f"| toy_test/spearman | {before:.2f} | {after:.2f} |" in text
    assert "2 steps of 16 rows, 48 rows in all, seed 42. The weights are those of step 2." in text
    assert "\n# mine\n" in text
    assert "```yaml\nbackbone:\n  name: null\n" in text
    assert "Li and Li" in text
    assert "@inproceedings{AnglE," in text
    assert head["model-index"][0]["results"][0]["metrics"][0]["value"] == pytest.approx(after, abs=1e-4)
    assert "schema:" not in text


def test_a_model_folder_and_the_model_of_a_run_can_be_exported_too(tiny):
    assert main([str(tiny.path / "model"), "of_run"]) == 0
    assert "## Scores" in Path("of_run/README.md").read_text()
    shutil.copytree(tiny.path / "model", "folder")
    assert main(["folder", "of_folder"]) == 0
    card = Path("of_folder/README.md").read_text()
    assert "It comes from a model of the folder `folder`." in card
    assert "## Scores" not in card
    close(Encoder.load("of_folder").encode(TEXTS), Encoder.load(tiny.path).encode(TEXTS))


@pytest.fixture
def adapted(tiny) -> Path:
    """A model folder with an adapter that changes the vectors."""
    config = BackboneConfig(name=str(tiny.path), adapter=AdapterConfig(r=2, alpha=4))
    encoder = Encoder.build(config, PoolingConfig(), seed=0)
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if ".lora_B." in name:
                weight.normal_(std=0.3, generator=torch.Generator().manual_seed(1))
    encoder.save(Path("adapted"))
    assert np.abs(encoder.encode(TEXTS) - Encoder.load(tiny.path).encode(TEXTS)).max() > 0.01
    return Path("adapted")


def test_an_adapter_is_exported_as_it_is_or_merged_with_equal_vectors(adapted, capsys):
    ours = Encoder.load(adapted).encode(TEXTS)
    assert main([str(adapted), "plain"]) == 0
    assert "note: the adapter's base model is the folder" in capsys.readouterr().err
    assert main([str(adapted), "merged", "--merge-lora"]) == 0
    assert "base model is the folder" not in capsys.readouterr().err
    assert Path("plain/adapter_model.safetensors").is_file()
    assert not Path("plain/model.safetensors").exists()
    assert Path("merged/model.safetensors").is_file()
    assert not Path("merged/adapter_config.json").exists()
    for folder in ("plain", "merged"):
        close(Encoder.load(folder).encode(TEXTS), ours)
        close(with_sentence_transformers(folder), ours)


def test_an_export_with_other_vectors_is_no_export(tiny, monkeypatch):
    save = Encoder.save

    def spoilt(self, folder):
        with torch.no_grad():
            next(self.parameters())[:, ::2].add_(0.1)
        save(self, folder)

    monkeypatch.setattr(Encoder, "save", spoilt)
    with pytest.raises(RunFailed, match="the exported model gives other vectors: they differ by"):
        main([str(tiny.path), "out"])
    assert list(Path.cwd().iterdir()) == []


def test_all_faults_of_the_command_line_are_refused_together(tiny):
    Path("out").mkdir()
    with pytest.raises(ConfigError) as caught:
        main([str(tiny.path), "out", "--repo-id", "mine", "--license", "Apache 2"])
    first, second, third = caught.value.problems
    assert first == "DEST: 'out' exists; an export is a new folder, name another"
    assert second == "--repo-id: expected OWNER/NAME, got 'mine'"
    assert third.startswith("--license: expected an identifier of the hub, such as apache-2.0")


class Hub:
    """The three calls of the hub's client; `fails` raises in one of them."""

    def __init__(self, *, public=False, fails=None):
        self.public, self.fails, self.calls = public, fails or {}, []

    def __call__(self, *, token):
        self.calls.append(("token", token))
        return self

    def _called(self, name, *what):
        self.calls.append((name, *what))
        if name in self.fails:
            raise self.fails[name]

    def create_repo(self, repo, *, private, exist_ok):
        self._called("create_repo", repo, private, exist_ok)
        return f"https://huggingface.co/{repo}"

    def model_info(self, repo):
        self._called("model_info", repo)
        return SimpleNamespace(private=not self.public)

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        self._called("upload_folder", repo_id, sorted(path.name for path in Path(folder_path).iterdir()))
        return SimpleNamespace(oid="c0ffee")


@pytest.fixture
def hub(monkeypatch):
    def use(**given):
        made = Hub(**given)
        monkeypatch.setattr(huggingface_hub, "HfApi", made)
        return made

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return use


def refused(status):
    request = httpx.Request("POST", "https://huggingface.co/api/repos/create")
    return HfHubHTTPError("No.", response=httpx.Response(status, request=request))


def test_a_push_makes_a_private_repository_and_uploads_the_folder(tiny, hub, capsys):
    one = hub()
    assert main([str(tiny.path), "out", "--license", "mit", "--push", "me/mine"]) == 0
    files = sorted(path.name for path in Path("out").iterdir())
    assert {"README.md", "model.safetensors", "modules.json"} <= set(files)
    assert one.calls == [
        ("token", TOKEN),
        ("create_repo", "me/mine", True, True),
        ("model_info", "me/mine"),
        ("upload_folder", "me/mine", files),
    ]
    said = capsys.readouterr()
    assert said.out.endswith("\nhttps://huggingface.co/me/mine (private), commit c0ffee\n")
    assert 'SentenceTransformer("me/mine")' in Path("out/README.md").read_text()
    written = "".join(path.read_text(errors="replace") for path in Path("out").rglob("*") if path.is_file())
    assert TOKEN not in said.out + said.err + written


def test_a_push_is_public_on_request_alone(tiny, hub, capsys):
    one = hub(public=True)
    assert main([str(tiny.path), "public", "--push", "me/mine", "--public"]) == 0
    assert ("create_repo", "me/mine", False, True) in one.calls
    assert "https://huggingface.co/me/mine (public)" in capsys.readouterr().out
    one.calls.clear()
    with pytest.raises(RunFailed, match="is there already and public, and nothing was uploaded; --public"):
        main([str(tiny.path), "out", "--push", "me/mine"])
    assert [call[0] for call in one.calls] == ["token", "create_repo", "model_info"]


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ({"create_repo": refused(401)}, "me/mine: the hub answers 401 (No.); the token in HF_TOKEN must"),
        ({"upload_folder": refused(503)}, "me/mine: the hub answers 503"),
        (
            {"create_repo": ValueError(f"bad header Bearer {TOKEN}")},
            "me/mine: the hub is not reached (bad header Bearer (token))",
        ),
    ],
)
def test_a_push_that_fails_keeps_the_export_and_says_how_to_go_on(tiny, hub, fails, says):
    hub(fails=fails)
    with pytest.raises(RunFailed) as caught:
        main([str(tiny.path), "out", "--push", "me/mine"])
    assert caught.value.exit_code == 3
    assert str(caught.value).startswith(says)
    assert str(caught.value).endswith(
        "; out is whole and stays; to upload it: hf upload me/mine out --private"
    )
    assert Path("out/modules.json").is_file()


def test_a_push_without_token_network_or_free_place_is_refused_before_anything_is_written(
    tiny, hub, monkeypatch
):
    one = hub()
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    Path("out").mkdir()
    with pytest.raises(ConfigError) as caught:
        main([str(tiny.path), "out", "--push", "me/mine", "--repo-id", "me/other"])
    other, token, offline, exists = caught.value.problems
    assert other == "--repo-id: 'me/other' is not where --push goes; leave it out"
    assert token.startswith("--push: no token in the environment; make one that may write at https://")
    assert token.endswith("and set HF_TOKEN")
    assert offline == "--push: HF_HUB_OFFLINE is set, and the hub is needed; unset it"
    assert exists.endswith("; an export that is there is uploaded by `hf upload me/mine out --private`")
    assert one.calls == []
    with pytest.raises(ConfigError, match="--public: says who sees what is pushed; add --push OWNER/NAME"):
        main([str(tiny.path), "new", "--public"])


def test_an_adapter_on_a_folder_of_this_machine_is_not_pushed(tiny, hub):
    one = hub()
    adapted = BackboneConfig(name=str(tiny.path / "model"), adapter=AdapterConfig(r=2))
    Encoder.build(adapted, PoolingConfig(), seed=0).save(Path("adapted"))
    with pytest.raises(
        ConfigError, match=r"--push: the adapter's base model is the folder .*; add --merge-lora"
    ):
        main(["adapted", "out", "--push", "me/mine"])
    assert one.calls == []
    assert not Path("out").exists()
