import itertools

from embedrun.curation.collection.pairs import Groups


def test_a_chain_of_links_is_one_group_in_any_order():
    for links in itertools.permutations([(b"a", b"b"), (b"c", b"b"), (b"d", b"c"), (b"x", b"y")]):
        groups = Groups()
        for link in links:
            groups.link(*link)
        assert [groups.root(text) for text in (b"a", b"b", b"c", b"d")] == [b"a"] * 4
        assert groups.root(b"y") == b"x"
        assert groups.root(b"alone") == b"alone"


def test_a_circle_of_duplicates_is_one_group():
    groups = Groups()
    for link in ((b"a", b"b"), (b"b", b"c"), (b"c", b"a")):
        groups.link(*link)
    assert {groups.root(text) for text in (b"a", b"b", b"c")} == {b"a"}


def test_a_chain_of_a_hundred_thousand_takes_no_recursion():
    groups = Groups()
    names = [number.to_bytes(3, "big") for number in range(100_000)]
    for one, other in itertools.pairwise(reversed(names)):
        groups.link(one, other)
    assert groups.root(names[-1]) == names[0]
