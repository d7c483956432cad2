"""Files and answers that nobody should have: they are read, or refused in one of embedrun's messages."""

import gzip
import json
from pathlib import Path
from random import Random

import fuzz
import strange_files
from small_data_sets import MADE, Made

from embedrun.curation.generation.answers import parse, read_file, sift
from embedrun.curation.generation.llm import Answer
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.texts import Texts
from embedrun.dataset.triplets import Triplets
from embedrun.errors import DataError
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue
from embedrun.store.folder import verify
from embedrun.store.read import Texts as Encoded

CLASSES = {"pair": Pairs, "triplet": Triplets, "text": Texts}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@fuzz.sizes(few=20, many=12_000)
def test_files_of_rows_with_changed_bytes(count, fresh):

    def read(random: Random) -> None:
        folder = fresh()
        case = strange_files.make(str(random.random()), folder)
        for path in _files(folder):
            content = path.read_bytes()
            if path.suffix == ".gz" and random.random() < 0.5:
                fuzz.replace(path, gzip.compress(fuzz.data(random, _unpacked(content))))
            else:
                fuzz.replace(path, fuzz.data(random, content))
        if random.random() < 0.3 and case.path.is_file():
            texts = Encoded(case.path, random.choice((None, "text", "text1")), random.random() < 0.5)
            texts.check()
            texts.count()
            return
        options = {"path": str(case.path), "columns": case.columns}
        data = CLASSES[case.form](**options, on_bad_row=random.choice(("refuse", "skip")))
        store = Store(folder / "none")
        if problems := data.problems("train", store):
            raise DataError(problems)
        rows = data.read("train", store)
        assert all(len(column) == len(rows) and list(column[:100]) for column in rows.texts.values())

    fuzz.trial("files of rows", count, read)


def _unpacked(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, ValueError):
        return content
    except Exception:  # zlib's own
        return content


@fuzz.sizes(few=100, many=14_000)
def test_files_of_the_store(count, fresh):
    catalogue = Catalogue.read()

    def read(random: Random) -> None:
        made: Made = random.choice(MADE)
        store = Store(fresh())
        entries = []
        for name, lines in made.files.items():
            content = "".join(f"{_line(random, line)}\n" for line in lines[:30])
            if random.random() < 0.6:
                content = fuzz.text(random, content)
            raw = content.encode("utf-8", "surrogatepass")
            if random.random() < 0.2:
                raw = fuzz.data(random, raw)
            packed = gzip.compress(raw, 1) if name.endswith(".gz") else raw
            if random.random() < 0.2:
                packed = fuzz.data(random, packed)
            fuzz.write(random, store.root / name, packed)
            entries.append({**_ENTRY, "path": name})
        if random.random() < 0.2:
            return _verified(random, store, entries, catalogue)
        data = made.data(store)
        if problems := data.problems(made.split, store):
            raise DataError(problems)
        data.read(made.split, store)

    fuzz.trial("files of the store", count, read)


_ENTRY = {
    "bytes": 100,
    "sha256": "0" * 64,
    "rows": 3,
    "columns": ["text1", "text2", "sentence1", "score", "label"],
    "labels": {"0": 1, "1": 2},
    "subsets": {"OnWN": 1},
    "sources": {"mnli": 1},
    "entailment": {"neutral": 1},
    "score_min_max": [0, 5],
    "captions": 5,
    "hub": {"constants": {"label": 1}},
}  # fmt: skip


def _verified(random: Random, store: Store, entries: list, catalogue: Catalogue) -> None:
    fuzz.write(random, store.root / "MANIFEST.json", fuzz.json_text(random, entries))
    for entry in store.manifest:
        assert all(isinstance(one, str) for one in verify(store, entry, catalogue))


def _line(random: Random, line: object) -> str:
    if isinstance(line, str):
        return line
    if isinstance(line, list):
        fields = [*line]
        if random.random() < 0.1:
            fields[random.randrange(len(fields))] = random.choice(strange_files.TEXTS + strange_files.SCORES)
        return "\t".join(fields)
    return fuzz.json_text(random, line).replace("\n", " ") if random.random() < 0.1 else json.dumps(line)


ANSWERS = (
    "1. A cat sat.\n2. A dog ran.\n3) Rain fell.",
    'Here you are:\n\n- "A cat sat."\n- **A dog ran.**\n  on the mat\n* Rain fell.',
    '```json\n["A cat sat.", "A dog ran."]\n```',
    '{"sentences": ["A cat sat.", "A dog ran."]}',
    '[{"text": "A cat sat."}, {"text": "A dog ran."}]',
    "<think>1. no</think>\n(1) A cat sat.\n(2) «A dog ran.»",
    "I cannot help with that.",
)


@fuzz.sizes(few=300, many=30_000)
def test_answers_of_language_models(count):
    def read(random: Random) -> None:
        def answer() -> Answer:
            text = fuzz.text(random, random.choice(ANSWERS), more=6)
            return Answer(text, random.random() < 0.2, "filtered" if random.random() < 0.02 else None)

        parsed = parse(one := answer(), random.choice((0, 1, 2, 5)))
        assert all(sentence.strip() for sentence in parsed.sentences)
        assert all(isinstance(part, str) for reject in parsed.rejects for part in reject), one
        answers = [(name, {"positive": answer(), "negative": answer()}) for name in "ab"]
        found = sift("A cat sat.", answers, size=3, words=random.choice((None, 1, 5)))
        assert all(pair["text2"] != pair["text1"] for pair in found.pairs)

    fuzz.trial("answers", count, read)


@fuzz.sizes(few=60, many=4_000)
def test_input_files_of_generate(count, fresh):
    def read(random: Random) -> None:
        path = fresh() / random.choice(("a.txt", "a.txt.gz", "a"))
        text = fuzz.text(random, "A cat sat.\nA dog ran.\n\ufeffRain fell.\n")
        raw = text.encode("utf-8", "surrogatepass")
        path.write_bytes(fuzz.data(random, gzip.compress(raw) if path.suffix == ".gz" else raw, more=2))
        assert read_file(path)

    fuzz.trial("input files of generate", count, read)
