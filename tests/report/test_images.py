import base64

from embedrun.report.charts import images

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_plot_is_a_data_address_with_the_score_of_its_set_in_words(tmp_path):
    (tmp_path / "stsb_density.png").write_bytes(PNG + b"a")
    (found,), left_out = images(tmp_path, {"stsb": "sts/stsb/spearman"}, {"sts/stsb/spearman": 81.234})
    assert found.address == "data:image/png;base64," + base64.b64encode(PNG + b"a").decode()
    assert found.caption == "Density of the cosines by human score, stsb"
    assert found.alt == "Plot: Density of the cosines by human score, stsb. sts/stsb/spearman 81.23."
    assert left_out == []


def test_plots_come_in_the_order_of_the_sets_and_without_the_curves(tmp_path):
    for name in ("a_scores", "b_scores", "curves", "dropout_map"):
        (tmp_path / f"{name}.png").write_bytes(PNG)
    found, _ = images(tmp_path, {"b": "x", "a": "y"}, {})
    assert [image.file for image in found] == ["b_scores.png", "a_scores.png", "dropout_map.png"]
    assert found[2].alt == "Plot: Related sentences under many dropout masks, on a plane."


def test_what_is_no_picture_is_not_shown_and_named(tmp_path):
    (tmp_path / "page.png").write_bytes(b"<svg onload='x'>")
    (tmp_path / "large.png").write_bytes(PNG + bytes(4_000_001))
    (tmp_path / "folder.png").mkdir()
    found, left_out = images(tmp_path, {}, {})
    assert found == []
    assert [line.partition(".png")[0].rpartition("/")[2] for line in left_out] == ["folder", "large", "page"]


def test_there_need_be_no_folder(tmp_path):
    assert images(tmp_path / "plots", {}, {}) == ([], [])
