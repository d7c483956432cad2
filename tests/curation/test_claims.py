"""What a comment says of duplicates."""

from embedrun.curation.claims import Reference, claims

SAID = [
    "Duplicate of #12",
    "Duplicate of\r\n#12\r\n",
    "**Duplicate of** #12",
    "This duplicates #12",
    "Closing as dup (#12)",
    "dupe of #12",
    "Closing as a duplicate of #12",
    "Closing as duplicate.\n\nSee #12",
    "Closing this as a duplicate in favor of #12",
    "This has been marked as duplicate of #12",
    "Thanks! Looks like a duplicate of #12, closing.",
    "As said in #10, this is a duplicate of #12",
    "duplicate of GH-12",
    "> is it new?\n\nNo: duplicate of #12",
]
NOT_SAID = [
    "Is this a duplicate of #12?",
    "Possible duplicate of #12",
    "This might be a duplicate of #12",
    "not sure if duplicate of #12",
    "If this is a duplicate of #12, close it",
    "#10 is a duplicate of #12",
    "Marking #10 as a duplicate of #12",
    "Duplicated by #12",
    "deduplicate #12",
    "We should not duplicate code. Fixed in #12",
    "duplicate of https://gitlab.com/o/r/issues/12",
    "> Duplicate of #12",
    "```\nduplicate of #12\n```",
    "```\nan unclosed fence\nduplicate of #12",
    "`duplicate of #12`",
    "<!-- say if it is a duplicate of #12 -->",
    "Fixed by #12, no duplicate",
    "",
]
DENIED = [
    "not a duplicate of #12",
    "I don’t think this is a dup of #12",
    "Unmarking as duplicate of #12",
    "non-duplicate of #12",
]


def test_usual_spellings_are_claims_false_friends_are_none_and_denials_are_known():
    assert [text for text in SAID if claims(text) != [(Reference(None, 12), True)]] == []
    assert [text for text in NOT_SAID if claims(text)] == []
    assert [text for text in DENIED if claims(text) != [(Reference(None, 12), False)]] == []


def test_other_repositories_are_named_in_lower_case():
    for text, repository in (
        ("dupe of Owner/repo#12", "owner/repo"),
        ("closing as a duplicate of https://github.com/o/R/issues/12", "o/r"),
        ("duplicate of https://github.com/o/r/pull/12", "o/r"),
        ("duplicate of <https://www.github.com/o/r/issues/12>", "o/r"),
        ("duplicate of https://github.com/o/r/issues/12#issuecomment-5 thanks", "o/r"),
        ("This is a duplicate of [#12](https://github.com/o/r/issues/12).", "o/r"),
        ("duplicate of [this one](https://github.com/three/three.js/issues/12)", "three/three.js"),
    ):
        assert claims(text) == [(Reference(repository, 12), True)]


def test_one_comment_can_name_several():
    both = [(Reference(None, 12), True), (Reference(None, 13), True)]
    for text in (
        "Duplicate of #12 and #13",
        "dup of #12, #13",
        "Duplicate of #12.\nAlso a duplicate of #13.",
    ):
        assert claims(text) == both
