import pytest

from embedrun.study.distributions import Searched, split


def only(override: str) -> Searched:
    found = split([override])
    assert (found.problems, found.fixed) == ([], [])
    (one,) = found.searched
    return one


def problem(*overrides: str) -> str:
    return "\n".join(split(overrides).problems)


@pytest.mark.parametrize(
    ("text", "kind", "ends", "log"),
    [
        ("loguniform(1e-6,1e-4)", "FloatDistribution", [1e-6, 1e-4], True),
        ("uniform(0, 0.5)", "FloatDistribution", [0.0, 0.5], False),
        ("int(1,9)", "IntDistribution", [1, 9], False),
        ("logint(1,1024)", "IntDistribution", [1, 1024], True),
        ("choice(16,32)", "CategoricalDistribution", ["16", "32"], False),
        (r"choice('\\',b\,c)", "CategoricalDistribution", [r"'\\'", r"b\,c"], False),
        (
            "choice([1,2],{a: b},'x,y',f(1,2))",
            "CategoricalDistribution",
            ["[1,2]", "{a: b}", "'x,y'", "f(1,2)"],
            False,
        ),
    ],
)
def test_a_distribution_says_which_values_there_are(text, kind, ends, log):
    one = only(f"training.lr={text}")
    assert (one.name, list(one.ends())) == ("training.lr", ends)
    assert type(one.distribution).__name__ == kind
    assert getattr(one.distribution, "log", False) is log


def test_the_last_whole_number_is_one_that_the_step_reaches():
    one = only("training.epochs=int(1,10,4)")
    assert one.ends() == [1, 9]
    assert list(one.every() or ()) == [1, 5, 9]


def test_plus_signs_come_back_in_the_override_and_are_no_part_of_the_name():
    one = only("++training.lr=loguniform(1e-6,1e-4)")
    assert one.name == "training.lr"
    assert one.override(2.5e-5) == "++training.lr=2.5e-05"
    assert only("loss=choice(angle,cosent)").override("cosent") == "loss=cosent"


def test_a_proposed_number_is_rounded_to_six_digits_within_the_range():
    one = only("a=uniform(0.12345678,1)")
    assert one.rounded(0.5123456789) == 0.512346
    assert (
        only("a=uniform(0.1234564,1)").rounded(0.12345641) == 0.1234564
    )  # 0.123456 would be below the range
    assert only("a=int(1,9)").rounded(3) == 3


def test_what_is_no_distribution_stays_as_it_was_typed():
    plain = ["+experiment=quickstart", "seed=int(3)", "a=[1,2]", "b='choice(1,2)'", "~c", "d={x:1}", "e="]
    found = split([*plain, "f=uniform(0,1)"])
    assert (found.fixed, found.problems) == (plain, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loguniform(1e-4,1e-6)", "write loguniform(a,b) with a below b above 0, got 1e-4,1e-6"),
        ("int(1,9,9)", "the step must be from 1 to 8, got 9"),
        ("int(1.5,9)", "expected a whole number, got 1.5"),
        ("uniform(,1)", "expected a finite number, got nothing"),
        ("choice(16,)", "write choice(x,y,...) with two values or more, all different"),
    ],
)
def test_a_faulty_distribution_is_refused_with_the_reason(text, said):
    assert problem(f"a.b={text}") == f"a.b: {text}: {said}"


@pytest.mark.parametrize("value", ["1,2,3", "interval(0,1)", "range(1,10,2)", "tag(x,choice(1,2))"])
def test_a_sweep_of_hydras_is_refused(value):
    said = problem(f"a={value}", "b=uniform(0,1)")
    assert said.startswith(f"a: {value}: is a sweep of -m, which tune does not do; write a distribution")


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "training.select_by",
        "hydra.run.dir",
    ],
)
def test_what_is_no_matter_of_a_search_cannot_be_searched(name):
    assert f"{name}: choice(a,b): this option " in problem(f"{name}=choice(a,b)")


def test_an_option_is_given_once():
    assert problem("a=uniform(0,1)", "+a=choice(1,2)") == "a: is given twice; keep one of them"
    assert problem("a=uniform(0,1)", "++a=1") == "a: is given twice; keep one of them"


def test_a_search_needs_something_to_search():
    assert problem("seed=3").startswith("nothing to search; give an option a distribution")
