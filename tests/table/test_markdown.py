import re

from table_sheets import HOSTILE, entry, hostile, missing, row, sheet

from embedrun.table.formats import markdown, markdown_escaped


def test_a_small_table_is_this_text():
    text = markdown(
        sheet(
            row("first", entry(), group="G"),
            row("second", missing("second"), notes=("a note",)),
            notes=("a remark",),
            commands=("embedrun reproduce angle/small",),
        )
    )
    assert (
        text
        == """\
### angle/small: A table

Source: a paper, Table 1. Seeds: 1, 2, 3.

within: at most 0.5 from the printed number; off: further away.

| row    | paper |         ours | difference |   n | mark    | notes |
| ------ | ----: | -----------: | ---------: | --: | ------- | ----- |
| **G**  |       |              |            |     |         |       |
| first  | 80.00 | 79.50 ± 0.25 |      -0.50 |   3 | within  |       |
| second | 80.00 |            - |            |     | not run | 1     |

1. a note

a remark

To fill what is missing:

```
embedrun reproduce angle/small
```
"""
    )


def test_a_reduced_table_says_so_in_bold_above_all():
    text = markdown(sheet(row("first", entry(mark="reduced")), scale="small", scale_title="a tenth"))
    assert text.splitlines()[2] == "**Reduced setting small: not a reproduction. a tenth**"


def test_every_line_of_a_hostile_table_has_the_same_cells():
    lines = [line for line in markdown(hostile()).splitlines() if line.startswith("| ")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert len(lines) > 2 * len(HOSTILE)
    assert len(bars) == 1


def test_nothing_of_a_hostile_text_is_code_link_or_html():
    text = re.sub(r"(?s)^```.*?^```", "", markdown(hostile()), flags=re.MULTILINE)
    plain = re.sub(r"\\[^A-Za-z0-9 ]", "", text)  # what has a backslash before it is shown as it is
    for special in ("<", ">", "`", "[", "]", "$", "&", "://", "@"):
        assert special not in plain, special
    assert re.findall(r"[\x00-\x09\x0b-\x1f\u202e]", text) == []


def test_a_text_begins_no_list_and_no_heading():
    text = markdown(
        sheet(row("first", entry()), notes=("- list", "# heading", "1. list", "2) list", "+ list"))
    )
    for line in (r"\- list", r"\# heading", r"1\. list", r"2\) list", r"\+ list"):
        assert line in text.splitlines()


def test_words_with_an_underscore_or_a_number_with_a_sign_stay_as_they_are():
    assert markdown_escaped("Only L_rank, -0.50, w/o ibn, 25 %") == "Only L_rank, -0.50, w/o ibn, 25 %"


def test_commands_end_no_fence():
    text = markdown(sheet(row("first", entry()), commands=("x ```` y",)))
    assert "`````\nx ```` y\n`````" in text
