"""Files such as users have and such as nobody should have, made from a seed: tables, shards, gzip, damage.

`make` writes one case into a folder. The names are mostly the same from case to case, so that a reader which
takes a new file for one that it knows is found out.
"""

import datetime
import gzip
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FORMS = {
    "pair": ("text1", "text2", "score", "label"),
    "triplet": ("anchor", "positive", "negative"),
    "text": ("text",),
}
TARGETS = ("score", "label")

_SENTENCE = "a cat sat on the mat while rain fell over seven quiet houses and nobody saw the dog"
WORDS = _SENTENCE.split()
TEXTS = (
    *("NA", "N/A", "null", "NULL", "None", "nan", "NaN", "007", "True", "false", "1", "1.0", "1e5", "1_000"),
    *("2024-01-31", "2024-01-31T10:00:00Z", "12:30", "31/01/2024", "0x1F", "-", "+1", "inf", "#N/A", "\\N"),
    *("", " ", "   ", "\u00a0", "\u3000", "\u200b", "\u2028", "\u0085", "\x1c", "\x0c", "\x0b"),
    *(
        '"',
        '""',
        '"""',
        '"quoted"',
        '"open',
        'close"',
        'in the "middle" of it',
        'a " b',
        '""twice""',
        "'one'",
    ),
    *("a,b", ",", ",,", "a, b", "a;b", "a|b", "#comment", "a\\b", "\\", '\\"', "\\t", "\\n", "=1+1"),
    *("a\u2028b", "a\u2029b", "a\u0085b", "a\x0bb", "a\x0cb", "a\x1db", "a\x00b", "\x00", "a\x1ab", "\x7f"),
    *(
        "\ufeff",
        "\ufeffa",
        "a\ufeffb",
        "\u200ea",
        "e\u0301",
        "\u00e9",
        "naïve",
        "日本語",
        "🙂",
        "👩‍👩‍👧",
        "𝔘",
    ),
    *(
        "\u0660\u0661",
        "\uff11",
        "½",
        "²",
        " leading",
        "trailing ",
        "two  blanks",
        "a\u00a0b",
        "[UNK]",
        "</s>",
    ),
)
BREAKING = ("a\tb", "\t", "a\rb", "\r", "a\nb", "\n", "a\r\nb", "a\n\nb", "\n\n", "a\n", "\na", "\r\r", "a\r")
SCORES = (
    *("0", "1", "2.5", "-0", "-0.0", "+3", ".5", "5.", "1e5", "1E-5", "1e400", "-1e400", "5e-324", "0.1"),
    *("0.1000000000000000055511151231257827", "2.2250738585072011e-308", "9007199254740993", "1" * 400),
    *(
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "+-nan",
        "--inf",
        "1_000",
        "1,5",
        "0x10",
        "٣",
        "１",
        "²",
        "½",
        "1.0f",
    ),
    *(
        "",
        " ",
        " 1 ",
        "\u00a01",
        "1\u2003",
        "1\x0b",
        "1\x1c",
        "\ufeff1",
        "NA",
        "null",
        "True",
        "1 2",
        "1e",
        "e5",
        ".",
    ),
    *("3.14159265358979323846264338327950288", "1e-400", "00012", "1.7976931348623159e308", "4" * 60 + "x"),
)
LABELS = (
    *("0", "1", "2", "3", "-1", "1.0", "01", " 1", "1 ", "+1", "", "neutral", "١", "２", "²", "True", "null"),
    *("1\u00a0", "1e0", "NA", "0x1"),
)
# What stands in a line of JSON Lines.
JSON_VALUES = (
    *(
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "-0",
        "-0.0",
        "2.5",
        "1e5",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
    ),
    *(
        "-Infinity",
        "12345678901234567890",
        "1" * 400,
        "1" * 5000,
        "[]",
        "{}",
        '["a"]',
        '{"text": "a"}',
        "1.0",
    ),
    *(
        '""',
        '" "',
        '"\\ud800"',
        '"a\\udc00b"',
        '"\\ud83d\\ude42"',
        '"a\\u0000b"',
        '"a\\nb"',
        '"a\\rb"',
        "5e-324",
    ),
    *(
        '"\\u2028"',
        '"a\\tb"',
        "0.1000000000000000055511151231257827",
        "9007199254740993",
        '"\\/"',
        '"1"',
        '" 2 "',
    ),
    *('"nan"', '"1_000"', '"\\ufeff"', '"' + "a" * 60 + '"', "1E2", "0.30000000000000004", "1e-400"),
)
JSON_LINES = (
    *(
        "[]",
        "null",
        "1",
        '"text"',
        "{",
        "}",
        "{}",
        "{'text': 'a'}",
        '{"text": "a",}',
        '{"text"}',
        "//",
        "nan",
    ),
    *(
        '{"text": "a"} {"text": "b"}',
        "[" * 100_000,
        '{"text": "a\tb"}',
        '{"text": "\x01"}',
        "\ufeff{}",
        "  ",
        "\r",
    ),
    *(
        '{"text": 01}',
        '{"text": "\\x"}',
        '{"text": "\\u12"}',
        '{"text": .5}',
        '{"text": +1}',
        "\u2028",
        "\x0c",
    ),
)
NAMES = (
    "question",
    "Text",
    "a b",
    "a.b",
    "ü",
    "sentence,1",
    '"q"',
    "日本",
    "text1 ",
    "",
    "0",
    "id",
    "None",
    "a\u2028b",
)
STEMS = (
    "a[b]",
    "x*y",
    "q?",
    "[0-9]",
    "two words",
    "ü",
    "label=1",
    "a.b",
    "-",
    "#x",
    "%20",
    "a{b,c}d",
    "a::b",
    "s3:",
)
JUNK = (".hidden.tsv", "_SUCCESS", "README.md", "notes", ".part-0.parquet.crc", "_metadata.parquet")
BAD_BYTES = (
    b"\xff",
    b"\xfe",
    b"\xc3",
    b"\xe2\x80",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf5\x80\x80\x80",
    b"\x80",
)


@dataclass
class Case:
    """One thing to read.

    Args:
        form: of the rows.
        path: a file or a folder, or something that is not there.
        columns: our name to the file's name, or None for our own names.
        done: what is special about it, for a person.
        size: bytes of all its files.
    """

    form: str
    path: Path
    columns: dict[str, str] | None
    done: list[str] = field(default_factory=list)
    size: int = 0

    def turned(self) -> "Case | None":
        """The same with the first two texts exchanged; None where there are not two."""
        ours = [name for name in FORMS[self.form] if name not in TARGETS]
        if len(ours) < 2:
            return None
        names = self.columns or {name: name for name in FORMS[self.form] if name != "label"}
        first, second = ours[:2]
        return replace(self, columns={**names, first: names[second], second: names[first]})


def make(seed: str, folder: Path) -> Case:
    """Write the case of a seed into an empty folder."""
    return _Maker(Random(seed), folder).case()


class _Maker:
    def __init__(self, random: Random, folder: Path) -> None:
        self._random = random
        self._folder = folder
        self._done: list[str] = []
        self._strange = random.choice((0.0, 0.0, 0.01, 0.05, 0.3))  # share of strange values
        self._size = 0

    def case(self) -> Case:
        random = self._random
        form = random.choices(list(FORMS), (6, 1.5, 2.5))[0]
        suffixes = (".tsv", ".csv", ".jsonl", ".parquet", ".txt")
        suffix = random.choices(suffixes, (3, 4, 4, 2, 3 if form == "text" else 0.05))[0]
        columns = self._columns(form)
        wanted = {name: name for name in FORMS[form] if name != "label"} if columns is None else columns
        stem = random.choice(STEMS) if self._chance(0.05) else "data"
        if self._chance(0.12):
            path = self._folder / stem
            self._shards(path, suffix, wanted)
        else:
            path = self._write(self._folder / stem, suffix, wanted, rows=self._rows())
            path = self._misnamed(path)
        return Case(form, path, columns, self._done, self._size)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _note(self, what: str) -> bool:
        self._done.append(what)
        return True

    def _happens(self, share: float, what: str) -> bool:
        return self._chance(share) and self._note(what)

    def _columns(self, form: str) -> dict[str, str] | None:
        if self._chance(0.5):
            return None
        ours = list(FORMS[form])
        if form == "pair" and self._chance(0.7):
            ours.remove(self._random.choice(TARGETS))
        if self._chance(0.3):
            self._random.shuffle(ours)
        if self._chance(0.4):
            return {name: name for name in ours}
        theirs = self._random.sample([*NAMES, *(f"c{number}" for number in range(10))], len(ours))
        return dict(zip(ours, theirs, strict=True))

    def _rows(self) -> int:
        random = self._random
        least, most = random.choices(
            [(0, 0), (1, 1), (2, 9), (10, 60), (200, 900), (6000, 9000), (60_000, 60_001)],
            (4, 6, 70, 20, 1.5, 0.15, 0.03),
        )[0]
        if (rows := random.randint(least, most)) > 100:
            self._note(f"{rows} rows")
            self._strange = min(self._strange, random.choice((0, 0.01, 2 / rows)))
        return rows

    def _misnamed(self, path: Path) -> Path:
        if self._happens(0.008, "no such file"):
            return path.with_name(self._random.choice(("dat.tsv", "data.tvs", "other.csv", "data.jsonl.gzz")))
        if self._happens(0.008, "another suffix"):
            other = self._random.choice((".xlsx", ".tsv", ".csv.gz", ".txt", ".parquet", ".JSONL", ".gz", ""))
            return path.rename(path.with_name(f"data{other}"))
        if self._happens(0.005, "a link"):
            there = path.rename(path.with_name(f"there-{path.name}"))
            path.symlink_to(there.name)
        return path

    def _shards(self, folder: Path, suffix: str, wanted: dict[str, str]) -> None:
        random = self._random
        folder.mkdir()
        names = random.sample(("part-0", "part-1", "part-10", "part-2", "B", "a"), random.randint(0, 4))
        self._note(f"{len(names)} shards")
        for name in names:
            other = self._happens(0.02, "another kind among them")
            rows = self._rows() if self._chance(0.2) else random.randint(1, 9)
            self._write(
                folder / name, random.choice((".tsv", ".jsonl")) if other else suffix, wanted, rows=rows
            )
        for name in random.sample(JUNK, random.randint(0, 2)):
            (folder / name).write_bytes(b"nothing\n")
        if self._happens(0.05, "a folder in the folder"):
            (folder / f"inner{suffix}").mkdir()

    # --- one file

    def _write(self, stem: Path, suffix: str, wanted: dict[str, str], *, rows: int) -> Path:
        random = self._random
        names = [
            *wanted.values(),
            *random.sample(("id", "extra", "more", "text9"), random.choice((0, 0, 1, 2))),
        ]
        ours = {theirs: name for name, theirs in wanted.items()}
        if self._chance(0.3):
            random.shuffle(names)
        if self._happens(0.02, "a column is missing"):
            names.remove(random.choice(list(wanted.values())))
        if self._happens(0.02, "a column is there twice") and names:
            names.insert(random.randint(0, len(names)), random.choice(names))
        roles = [ours.get(name, "extra") for name in names]
        if suffix == ".parquet":
            content = self._parquet(names, roles, rows)
        else:
            lines = self._lines(suffix, names, roles, rows)
            content = self._damaged(self._joined(lines))
            if self._chance(0.25):
                suffix += ".gz"
                content = self._packed(content)
        if self._chance(0.02):
            suffix = suffix.upper()
        self._size += len(content)
        path = stem.with_name(stem.name + suffix)
        path.write_bytes(content)
        return path

    def _text(self) -> str:
        random = self._random
        if self._strange and self._chance(self._strange):
            if self._chance(0.003):
                length = random.choice((40, 100_000, 140_000))
                self._note(f"a text of {length} characters")
                return random.choice(("a", "é", "ab ", '"', "\t", "🙂"))[0] * length
            return random.choice(BREAKING if self._chance(0.2) else TEXTS)
        return (
            " ".join(random.choices(WORDS, k=random.randint(1, 9)))
            + random.choice(("", ".", "?", ', "so"'))[:1]
        )

    def _field(self, role: str) -> str:
        random = self._random
        strange = self._strange and self._chance(self._strange)
        if role == "score":
            return (
                random.choice(SCORES) if strange else random.choice(("1", "0.25", f"{random.random() * 5}"))
            )
        if role == "label":
            return random.choice(LABELS) if strange else random.choice("012")
        return self._text()

    def _lines(self, suffix: str, names: list[str], roles: list[str], rows: int) -> list[str]:
        if suffix == ".txt":
            return [self._flat(self._text()) for _ in range(rows)]
        if suffix == ".jsonl":
            return [self._object(names, roles) for _ in range(rows)]
        one: Callable[[list[str]], str] = self._csv if suffix == ".csv" else self._tsv
        lines = [one([self._flat(name) for name in names])]
        for _ in range(rows):
            fields = [self._field(role) for role in roles]
            if self._strange and self._chance(0.03):
                fields = fields[: self._random.randint(0, len(fields))] + ["more"] * self._random.choice(
                    (0, 0, 2)
                )
            lines.append(one(fields))
        return lines

    def _flat(self, text: str) -> str:
        return text if self._strange and self._chance(0.2) else text.replace("\n", " ").replace("\t", " ")

    def _tsv(self, fields: list[str]) -> str:
        return "\t".join(self._flat(value) for value in fields)

    def _csv(self, fields: list[str]) -> str:
        return ",".join(self._quoted(value) for value in fields)

    def _quoted(self, value: str) -> str:
        if self._strange and self._chance(0.02):
            return value  # as people write it by hand
        if self._strange and self._chance(0.01):
            return self._random.choice(('"{}', '{}"', '"{}" ', ' "{}"', '"{}"x', '"a"{}"b"')).format(value)
        needed = any(end in value for end in ',"\r\n')
        return '"' + value.replace('"', '""') + '"' if needed or self._chance(0.1) else value

    def _object(self, names: list[str], roles: list[str]) -> str:
        random = self._random
        if self._strange and self._chance(self._strange / 4):
            return random.choice(JSON_LINES)
        parts = []
        for name, role in zip(names, roles, strict=True):
            if self._strange and self._chance(self._strange / 4):
                continue
            if self._strange and self._chance(self._strange / 2):
                value = random.choice(JSON_VALUES)
            else:
                given = self._field(role)
                bare = role in TARGETS and self._chance(0.8)
                value = given if bare else json.dumps(given, ensure_ascii=self._chance(0.5))
            parts.append(f"{json.dumps(name)}:{' ' * self._chance(0.5)}{value}")
        if self._strange and parts and self._chance(0.03):
            parts.append(random.choice(parts))
        if self._strange and self._chance(0.2):
            random.shuffle(parts)
        return "{" + ", ".join(parts) + "}"

    # --- from lines to bytes

    def _joined(self, lines: list[str]) -> bytes:
        random = self._random
        if len(lines) > 1000 and self._happens(0.3, "a quote that is not closed"):
            lines.insert(random.randint(1, len(lines)), '"never closed')
        for _ in range(random.randint(1, 3) if self._happens(0.06, "blank lines") else 0):
            lines.insert(
                random.randint(0, len(lines)), random.choice(("", "", " ", "\t", "\r", "\u00a0", ",", '""'))
            )
        end = "\n"
        if self._happens(0.12, "Windows line ends"):
            end = "\r\n"
        elif self._happens(0.02, "CR alone"):
            end = "\r"
        text = end.join(lines)
        if self._happens(0.02, "mixed line ends"):
            text = "".join(random.choice(("\n", "\r\n", "\r")) if one == "\n" else one for one in text)
        last = ("", end, end + end, "\n\r\n", "\r\r\n", end + " ", " ", "\t", end + "\t" + end)
        text += random.choices(last, (3, 12, 1, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2))[0]
        if self._happens(0.06, "a byte-order mark"):
            text = (
                random.choice(("\ufeff", "\ufeff", "\ufeff", "\ufeff\ufeff", "\n\ufeff", "\ufeff\n")) + text
            )
        return text.encode("utf-8", "surrogatepass")

    def _damaged(self, content: bytes) -> bytes:
        random = self._random
        place = random.randint(0, len(content))
        if self._happens(0.02, "invalid UTF-8"):
            return content[:place] + random.choice(BAD_BYTES) + content[place:]
        if self._happens(0.02, "cut"):
            return content[:place]
        if self._happens(0.02, "a strange byte"):
            strange = random.choice((b"\0", b'"', b"\r", b"\n", b"\t", b",", b"\x1a", b"\\", b"{", b" "))
            return content[:place] + strange + content[place:]
        if self._happens(0.01, "nothing in it"):
            return random.choice(
                (b"", b"\n\n", b"\xef\xbb\xbf", b" ", b"\r\n", b"\t\n", b"\xe2\x80\xa8\n", b"\0")
            )
        if self._happens(0.004, "UTF-16"):
            return content.decode("utf-8", "replace").encode("utf-16")
        return content

    def _packed(self, content: bytes) -> bytes:
        random = self._random
        place = random.randint(0, len(content))
        if self._happens(0.1, "several gzip members"):
            packed = gzip.compress(content[:place], 1) + gzip.compress(content[place:], 1)
        else:
            packed = gzip.compress(content, random.choice((1, 6)))
        if self._happens(0.03, "not gzip"):
            return content
        if self._happens(0.03, "gzip is cut"):
            return packed[: random.randint(0, len(packed))]
        if self._happens(0.03, "something behind gzip"):
            return packed + random.choice(
                (b"\0" * 20, b"\0", b"x", b"garbage" * 9, b"\x1f\x8b", b"\n", b"\0\0x")
            )
        if self._happens(0.02, "a wrong checksum of gzip"):
            return packed[:-8] + struct.pack("<I", random.getrandbits(32)) + packed[-4:]
        if self._happens(0.02, "a wrong length of gzip"):
            return packed[:-4] + struct.pack("<I", random.getrandbits(32))
        if self._happens(0.02, "a byte of gzip is changed"):
            place = random.randrange(len(packed))
            return packed[:place] + bytes([packed[place] ^ (1 << random.randrange(8))]) + packed[place + 1 :]
        return packed

    # --- Parquet

    def _parquet(self, names: list[str], roles: list[str], rows: int) -> bytes:
        random = self._random
        arrays = [self._array(role, rows) for role in roles]
        table = pa.Table.from_arrays(arrays, names=names) if arrays else pa.table({"none": [1] * rows})
        buffer = io.BytesIO()
        groups = random.choice((None, None, 1, 2, 3, 7)) if rows < 200 else random.choice((None, 64, 1000))
        options: dict[str, Any] = {
            "row_group_size": groups,
            "compression": random.choice(("snappy", "zstd", "none", "gzip")),
            "use_dictionary": self._chance(0.5),
            "store_schema": self._chance(0.8),
            "data_page_version": random.choice(("1.0", "2.0")),
        }
        try:
            pq.write_table(table, buffer, **options)
        except (pa.ArrowException, OSError):  # a type that Parquet has not
            buffer = io.BytesIO()
            plain = [pa.array([self._text() for _ in range(rows)], pa.string()) for _ in names]
            pq.write_table(pa.Table.from_arrays(plain, names=names), buffer, row_group_size=groups)
        content = buffer.getvalue()
        if self._happens(0.04, "Parquet is cut"):
            return content[: random.randint(0, len(content))]
        if self._happens(0.02, "a byte of Parquet is changed"):
            place = random.randrange(len(content))
            return (
                content[:place] + bytes([content[place] ^ (1 << random.randrange(8))]) + content[place + 1 :]
            )
        if self._happens(0.02, "not Parquet"):
            return random.choice((b"", b"text1\ttext2\n", b"PAR1", b"PAR1PAR1", content + b"x"))
        return content

    def _array(self, role: str, rows: int) -> pa.Array:
        kinds = _TARGET_ARRAYS if role in TARGETS else _TEXT_ARRAYS
        usual = {"score": "float64", "label": "int64"}.get(role, "string")
        kind = self._random.choice(list(kinds)) if self._chance(0.3) else usual
        if kind != usual:
            self._note(f"{role}: {kind}")
        if role not in TARGETS:
            values: list[Any] = [self._text() for _ in range(rows)]
        elif role == "label":
            values = [self._random.choice((0, 1, 2)) for _ in range(rows)]
        else:
            values = [
                self._random.choice((0, 1, 2, 1, 2, 1.5 if "float" in kind else 1)) for _ in range(rows)
            ]
        if self._chance(0.5):
            values = [None if self._strange and self._chance(self._strange) else value for value in values]
        return kinds[kind](values)


def _given(
    function: Callable[[Any], Any], type_: pa.DataType | None = None
) -> Callable[[list[Any]], pa.Array]:
    """An array of the values that are there, each through a function."""

    def array(values: list[Any]) -> pa.Array:
        return pa.array([None if value is None else function(value) for value in values], type_)

    return array


_DAY = datetime.date(2024, 1, 31)
_TIME = datetime.datetime(2024, 1, 31, 10, 30)


def _not_utf_8(values: list[Any]) -> pa.Array:
    raw = [None if value is None else value.encode() + b"\xff" * value.startswith("the") for value in values]
    return pa.array(raw, pa.binary()).view(pa.string())


_TEXT_ARRAYS: dict[str, Callable[[list[Any]], pa.Array]] = {
    "string": _given(str, pa.string()),
    "large_string": _given(str, pa.large_string()),
    "string_view": _given(str, pa.string_view()),
    "dictionary of string": lambda values: pa.array(values, pa.string()).dictionary_encode(),
    "dictionary of large_string": lambda values: pa.array(values, pa.large_string()).dictionary_encode(),
    "binary": _given(str.encode, pa.binary()),
    "large_binary": _given(str.encode, pa.large_binary()),
    "fixed-size binary": _given(lambda value: value.encode()[:3].ljust(3), pa.binary(3)),
    "text as JSON": lambda values: pa.array(values, pa.string()).cast(pa.json_()),
    "list of string": _given(lambda value: [value], pa.list_(pa.string())),
    "map": _given(lambda value: [("text", value)], pa.map_(pa.string(), pa.string())),
    "struct": _given(lambda value: {"text": value}),
    "int of text": _given(len, pa.int32()),
    "date of text": _given(lambda _: _DAY, pa.date32()),
    "bool of text": _given(bool, pa.bool_()),
    "null of text": lambda values: pa.nulls(len(values)),
    "string that is not UTF-8": _not_utf_8,
}
_TARGET_ARRAYS: dict[str, Callable[[list[Any]], pa.Array]] = {
    "float64": _given(float, pa.float64()),
    "float32": _given(lambda value: value + 0.1, pa.float32()),
    "float16": _given(np.float16, pa.float16()),
    **{
        name: _given(int, getattr(pa, name)())
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "large uint64": _given(lambda value: 2**64 - 1 - int(value), pa.uint64()),
    "large int64": _given(lambda value: 2**53 + int(value), pa.int64()),
    "float64 that is none": _given(lambda value: float("nan") if value == 2 else float("inf"), pa.float64()),
    "decimal128": _given(lambda value: Decimal(str(value)) + Decimal("0.123456789"), pa.decimal128(38, 18)),
    "decimal256": _given(lambda value: Decimal(str(value)), pa.decimal256(50, 5)),
    "decimal128 of whole numbers": _given(lambda value: Decimal(int(value)), pa.decimal128(5, 0)),
    "decimal64": _given(lambda value: Decimal(str(value)), pa.decimal64(18, 3)),
    "decimal32": _given(lambda value: Decimal(str(value)), pa.decimal32(9, 2)),
    "bool": _given(bool, pa.bool_()),
    "string of numbers": _given(str, pa.string()),
    "dictionary of float": lambda values: pa.array(values, pa.float64()).dictionary_encode(),
    "dictionary of int": lambda values: pa.array(
        [None if value is None else int(value) for value in values], pa.int64()
    ).dictionary_encode(),
    "dictionary of string numbers": lambda values: pa.array(
        [None if value is None else str(value) for value in values], pa.string()
    ).dictionary_encode(),
    "binary of numbers": _given(lambda value: str(value).encode(), pa.binary()),
    "date": _given(lambda _: _DAY, pa.date32()),
    "timestamp": _given(lambda _: _TIME, pa.timestamp("us")),
    "timestamp of nanoseconds": _given(lambda value: int(value) + 1, pa.timestamp("ns")),
    "duration of nanoseconds": _given(lambda value: int(value) + 1, pa.duration("ns")),
    "time of nanoseconds": _given(lambda value: int(value) + 1, pa.time64("ns")),
    "timestamp of a zone": _given(lambda _: _TIME, pa.timestamp("ms", tz="UTC")),
    "time": _given(lambda _: _TIME.time(), pa.time64("us")),
    "duration": _given(lambda value: datetime.timedelta(int(value)), pa.duration("us")),
    "list of float": _given(lambda value: [float(value)], pa.list_(pa.float64())),
    "null": lambda values: pa.nulls(len(values)),
}
