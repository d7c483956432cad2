import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.commands import encode
from embedrun.commands.encode import main
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import NON_FINITE, ConfigError, DataError, RunFailed

TEXTS = ["a dog runs over the hill", 'a "cat", it sits', "dogs", "a\u2028cat", "dogs", "the hill is green"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    shape = ScratchConfig(vocabulary=100, layers=1, width=16, heads=2, positions=12)
    config = BackboneConfig(name=None, scratch=shape)
    encoder = Encoder.build(config, PoolingConfig(name="mean"), seed=1, vocabulary_texts=TEXTS)
    folder = tmp_path_factory.mktemp("model") / "m"
    encoder.save(folder)
    return folder


@pytest.fixture
def expected(model) -> np.ndarray:
    return Encoder.load(model).encode(TEXTS)


@pytest.fixture
def piped(monkeypatch):
    """Put text on standard input."""

    def put(text: str) -> None:
        Path("piped").write_text(text, encoding="utf-8")
        monkeypatch.setattr("sys.stdin", open("piped", encoding="utf-8"))  # noqa: SIM115

    return put


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def given(name: str, texts=TEXTS, field: str = "text") -> Path:
    """A file of these texts, of the kind that its name says."""
    path = Path(name)
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        pq.write_table(pa.table({"number": range(len(texts)), field: texts}), path)
        return path
    quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
    content = {
        "txt": lines(*texts),
        "jsonl": lines(*(json.dumps({"number": 1, field: text}) for text in texts)),
        "tsv": lines(f"number\t{field}", *(f"1\t{text}" for text in texts)),
        "csv": lines(f"number,{field}", *(f"1,{text}" for text in quoted)),
    }[kind].encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["txt.gz", "jsonl", "csv", "parquet"])
def test_each_text_of_a_file_is_one_row_in_order(kind, model, expected, capsys):
    assert main([str(model), str(given(f"texts.{kind}")), "-o", "v.npy"]) == 0
    found = np.load("v.npy", mmap_mode="r")
    assert (found.shape, found.dtype) == ((6, 16), np.float32)
    close(found, expected)
    rates = r"6 texts, dim 16, \d+\.\d s, [\d,]+ texts/s: v\.npy\n"
    assert re.fullmatch(rates, capsys.readouterr().out)


def test_with_a_field_standard_input_is_json_lines(model, expected, piped):
    piped(lines(*(json.dumps({"body": text}) for text in TEXTS)))
    assert main([str(model), "-", "--field", "body", "-o", "v.npy"]) == 0
    close(np.load("v.npy"), expected)


def test_blocks_of_standard_input_give_one_file(model, expected, piped, monkeypatch):
    monkeypatch.setattr(encode, "_TEXTS_AT_ONCE", 4)
    piped(lines(*TEXTS))
    assert main([str(model), "-o", "v.npy"]) == 0
    close(np.load("v.npy"), expected)


def vectors(table: pa.Table) -> np.ndarray:
    return np.stack(table["vector"].to_numpy())


def test_a_parquet_file_has_texts_and_vectors_of_fixed_size(model, expected):
    assert main([str(model), str(given("texts.txt")), "-o", "v.parquet"]) == 0
    table = pq.read_table("v.parquet")
    assert table["text"].to_pylist() == TEXTS
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 16)
    close(vectors(table), expected)
    assert main([str(model), "texts.txt", "-o", "w.parquet", "--no-text"]) == 0
    assert pq.read_table("w.parquet").column_names == ["vector"]


def test_empty_texts_are_refused_by_line_unless_they_are_wanted(model):
    Path("t.txt").write_text("dogs\n\n  \na cat\n")
    with pytest.raises(DataError) as caught:
        main(["./no-model-is-needed", "t.txt", "-o", "v.npy"])
    assert caught.value.problems == [
        "t.txt, row 2: the text is empty",
        "t.txt, row 3: the text is empty",
        "an empty text has a vector too: --allow-empty encodes them",
    ]
    assert main([str(model), "t.txt", "-o", "v.npy", "--allow-empty"]) == 0
    close(np.load("v.npy"), Encoder.load(model).encode(["dogs", "", "  ", "a cat"]))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "t.jsonl, row 2: has no field 'text' (fields: txt)"),
        ("t.tsv", "txt\tn\na\t1\n", "t.tsv, row 1: no column 'text'; did you mean 'txt'"),
        ("t.txt", "", "t.txt: holds no text"),
        ("t.txt.gz", "no", "t.txt.gz: cannot be read: "),
    ],
)
def test_a_faulty_file_is_refused_before_a_model_is_looked_for(name, content, said):
    Path(name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        main(["./no-model-is-needed", name, "-o", "v.npy"])
    assert any(problem.startswith(said) for problem in caught.value.problems), caught.value.problems
    assert not Path("v.npy").exists()


def test_a_file_that_is_there_is_replaced_only_with_force(model, expected):
    Path("v.npy").write_text("mine")
    with pytest.raises(ConfigError, match=r"-o: 'v\.npy' exists; name another, or replace it with --force"):
        main([str(model), str(given("t.txt")), "-o", "v.npy"])
    assert Path("v.npy").read_text() == "mine"
    assert main([str(model), "t.txt", "-o", "v.npy", "--force"]) == 0
    close(np.load("v.npy"), expected)


def test_a_vector_that_is_not_finite_is_no_result(model, monkeypatch):
    bad = np.array([[0.0] * 16, [np.nan] * 16], dtype=np.float32)
    monkeypatch.setattr(Encoder, "encode", lambda self, texts, **options: bad)
    with pytest.raises(RunFailed, match="the vector of text 2 is not finite") as caught:
        main([str(model), str(given("t.txt", TEXTS[:2])), "-o", "v.npy"])
    assert caught.value.exit_code == NON_FINITE
    assert not Path("v.npy").exists()


def test_options_change_how_the_model_is_used(model, expected):
    given("t.txt")

    def encoded(*options: str) -> np.ndarray:
        assert main([str(model), "t.txt", "-o", "v.npy", "--force", *options]) == 0
        return np.load("v.npy")

    close(encoded("--normalize"), expected / np.linalg.norm(expected, axis=1, keepdims=True))
    close(encoded("--batch-tokens", "1"), expected)
    close(encoded("--prompt", "the {text}"), Encoder.load(model).encode([f"the {text}" for text in TEXTS]))
    short = Encoder.load(model, max_length=4)
    close(encoded("--max-length", "4"), short.encode(TEXTS))
    assert np.abs(encoded("--pooling", "cls") - expected).max() > 0.01
    half = encoded("--precision", "bf16")
    assert 0 < np.abs(half - expected).max() < 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["t.txt", "-o", "v.txt"], r"-o: 'v\.txt' must end in \.npy or \.parquet"),
        (["t.txt", "-o", "v.npy", "--field", "a"], r"--field: a \.txt file has no fields"),
        (["t.txt", "-o", "v.npy", "--prompt", "query:"], r"--prompt: expected a template with \{text\} once"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused(options, said):
    Path("t.txt").write_text("a\n")
    with pytest.raises(ConfigError, match=said):
        main(["./no-model-is-needed", *options])
