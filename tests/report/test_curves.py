from embedrun.report.charts import Metrics, panels

STEPS = [(1, 0.5), (2, 0.25)]


def of(train: dict, dev: dict | None = None) -> list:
    series = {("train", name): points for name, points in train.items()}
    return panels(Metrics(series | {("dev", name): points for name, points in (dev or {}).items()}))


def test_loss_and_dev_stand_first_then_terms_then_what_they_compare_then_the_optimizer():
    train = {"lr": STEPS, "gradient_norm": STEPS, "loss": STEPS, "loss/angle": STEPS, "active/angle": STEPS,
             "violated/angle": STEPS}  # fmt: skip
    found = of(train, {"stsb_dev/spearman": [(0, 50.0), (2, 60.0)], "stsb_dev/spearman_clean": [(0, 1.0)]})
    assert [panel.title for panel in found] == [
        "Loss and dev scores", "Terms of the loss", "Comparisons of the terms", "Optimizer"
    ]  # fmt: skip
    assert [[chart.title for chart in panel.charts] for panel in found] == [
        ["training loss", "stsb_dev/spearman"], ["angle"], ["angle"], ["learning rate", "gradient norm"]
    ]  # fmt: skip
    assert [line.name for line in found[2].charts[0].lines] == ["active", "violated"]


def test_the_best_step_is_the_first_of_the_highest_and_never_the_start():
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0), (10, 80.0), (20, 85.0), (30, 85.0), (40, None)]})
    assert panel.charts[0].note == "best 85.00 at step 20"
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0)]})
    assert panel.charts[0].note == ""


def test_a_run_without_values_has_no_panel():
    assert of({}) == []
    assert of({"loss": [(1, None)]}) == []


def test_numbers_that_cannot_be_shares_have_a_chart_of_their_own():
    (panel,) = of({"active/odd": [(1, 3.0)]})
    assert panel.title == "Optimizer"


def test_names_without_end_are_cut_and_counted():
    (panel,) = of({f"loss/{place}": STEPS for place in range(30)})
    assert (len(panel.charts), panel.left_out) == (12, 18)
