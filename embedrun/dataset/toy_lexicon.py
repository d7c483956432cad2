"""The words of the toy data set: about 130, so that a small model meets each of them a few hundred times.

``"dog/dogs, hound/hounds"`` is one meaning with two ways to say it, each with two forms. No content word
stands for two meanings.
"""

from embedrun.dataset.toy_grammar import ONE, Meaning


def _meaning(entry: str, broader: Meaning | None = None) -> Meaning:
    first, _, second = entry.partition(", ")
    return Meaning((first, second or first), broader)


def _family(broader: str, *members: str) -> tuple[Meaning, ...]:
    parent = _meaning(broader)
    return tuple(_meaning(member, parent) for member in members)


COUNTS = (ONE, *_family("some", "two", "three", "ten"))
BEINGS = (
    *_family("animal/animals", "dog/dogs, hound/hounds", "rabbit/rabbits, bunny/bunnies"),
    *_family("worker/workers", "doctor/doctors, physician/physicians", "lawyer/lawyers, attorney/attorneys"),
    *_family("criminal/criminals", "thief/thieves, robber/robbers", "pirate/pirates, buccaneer/buccaneers"),
    *_family("relative/relatives", "father/fathers, dad/dads", "mother/mothers, mom/moms"),
    *_family("youngster/youngsters", "boy/boys, lad/lads", "girl/girls, lass/lasses"),
)
PLACES = (
    *_family("in the countryside", "in the forest, in the woods", "in the meadow, in the pasture"),
    *_family("in a building", "in the hospital, in the clinic", "in the prison, in the jail"),
    *_family("near the water", "on the beach, on the shore", "in the harbor, in the port"),
)
TIMES = (
    *_family("during the day", "at noon, at midday", "at dawn, at sunrise"),
    *_family("in the past", "long ago, ages ago", "recently, lately"),
)

# Opposite actions side by side, each group with the tools that suit all of its actions.
_ACTION_GROUPS = (
    (
        ("pushed, shoved", "pulled, tugged"),
        ("freed, released", "caught, captured"),
        ("attacked, assaulted", "defended, protected"),
    ),
    (
        ("followed, trailed", "led, guided"),
        ("saw/seen, spotted", "overlooked, missed"),
    ),
    (("scared, frightened", "calmed, soothed"),),
)
_TOOL_GROUPS = (
    ("rope, cord", "stick, rod", "net, mesh"),
    ("lantern, lamp", "map, chart", "telescope, spyglass"),
    ("song, tune", "story, tale", "gift, present"),
)


def _actions() -> tuple[dict[Meaning, Meaning], dict[Meaning, tuple[Meaning, ...]]]:
    opposites, tools = {}, {}
    for pairs, suitable in zip(_ACTION_GROUPS, _TOOL_GROUPS, strict=True):
        group = tuple(_meaning(tool) for tool in suitable)
        for pair in pairs:
            first, second = (_meaning(action) for action in pair)
            opposites |= {first: second, second: first}
            tools |= {first: group, second: group}
    return opposites, tools


OPPOSITES, TOOLS = _actions()  # by action
ACTIONS = tuple(OPPOSITES)
