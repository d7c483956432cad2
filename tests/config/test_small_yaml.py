from pathlib import Path

import pytest

from embedrun import files


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "data"),
    [("", None), ("a: [1, x]\n", {"a": [1, "x"]}), ("a: &a [1]\nb: *a\n", {"a": [1], "b": [1]}), ("é", "é")],
)
def test_a_small_file_is_plain_data(tmp_path: Path, text, data):
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    assert files.read_yaml(tmp_path / "x.yaml") == data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (bomb(levels=12), "its aliases expand to over 100,000 values"),
        ("a: &a [*a]\n", "its aliases expand"),
        (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 1_000}]\n", "its aliases expand"),  # 100 MB written out
        ("#" * (1 << 20) + "\n", "over 1 MiB"),
        (f"a: 1{':1' * 100_000}\n", "a number of over 100 characters"),
        (f"a: 1{':1' * 400}.0\n", "a number of over 100 characters"),
        ("a: [1\n", "not valid YAML"),
        ("\x00", "not valid YAML"),
        ("[" * 1500 + "]" * 1500, "not valid YAML"),
        ("a: !!bool maybe\n", "not valid YAML"),
        ("a: !!timestamp soon\n", "not valid YAML"),
        ("a: !!int ''\n", "not valid YAML"),
        ("2026-99-99\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system ['touch canary']\n", "python/object"),
    ],
)
def test_what_is_large_or_no_plain_yaml_is_refused(tmp_path: Path, text, words):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ValueError, match=words):
        files.read_yaml(tmp_path / "x.yaml")
    assert not Path("canary").exists()


def test_what_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="not valid YAML"):
        files.read_yaml(tmp_path / "x.yaml")
