"""Toy: graded sentence pairs and NLI triples from a small grammar, made on the spot.

A scene says who does what to whom, with what, where, when and how many. What it means (`Scene`) and how that
is said (`Statement`) are apart, so that two sentences can share all their meaning and no content word, or all
their words and little meaning. No content word stands for two meanings.

A word count should not solve the task: pairs that mean the same are mostly said in other words, and pairs
that do not (roles swapped, action turned into its opposite) mostly in the same words.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from embedrun.rows import FORMS, Rows
from embedrun.store import Store

T = TypeVar("T")

MOST = 100_000  # rows of a split, made in seconds

# A meaning is the one or two ways to say it: "dog/dogs, hound/hounds". A slash separates two forms of a word,
# singular and plural of a noun, past tense and participle of a verb.
SLOTS = ("agent", "agent_count", "action", "patient", "patient_count", "tool", "place", "time")
OPTIONAL_SLOTS = ("tool", "place", "time")
Scene = Mapping[str, Any]  # the meaning of each slot; None where it says nothing

ONE = "a, one"  # the only count that takes a singular noun
# By a more general meaning, those that imply it.
_COUNTS = {"some": ("two", "three", "ten")}
_BEINGS = {
    "animal/animals": ("dog/dogs, hound/hounds", "rabbit/rabbits, bunny/bunnies"),
    "worker/workers": ("doctor/doctors, physician/physicians", "lawyer/lawyers, attorney/attorneys"),
    "criminal/criminals": ("thief/thieves, robber/robbers", "pirate/pirates, buccaneer/buccaneers"),
    "relative/relatives": ("father/fathers, dad/dads", "mother/mothers, mom/moms"),
    "youngster/youngsters": ("boy/boys, lad/lads", "girl/girls, lass/lasses"),
}
_PLACES = {
    "in the countryside": ("in the forest, in the woods", "in the meadow, in the pasture"),
    "in a building": ("in the hospital, in the clinic", "in the prison, in the jail"),
    "near the water": ("on the beach, on the shore", "in the harbor, in the port"),
}
_TIMES = {
    "during the day": ("at noon, at midday", "at dawn, at sunrise"),
    "in the past": ("long ago, ages ago", "recently, lately"),
}
# Tools, and the actions that all of them suit, each beside its opposite.
_ACTIONS = {
    ("rope, cord", "stick, rod", "net, mesh"): (
        ("pushed, shoved", "pulled, tugged"),
        ("freed, released", "caught, captured"),
        ("attacked, assaulted", "defended, protected"),
    ),
    ("lantern, lamp", "map, chart", "telescope, spyglass"): (
        ("followed, trailed", "led, guided"),
        ("saw/seen, spotted", "overlooked, missed"),
    ),
    ("song, tune", "story, tale", "gift, present"): (("scared, frightened", "calmed, soothed"),),
}
_FAMILIES = {**_COUNTS, **_BEINGS, **_PLACES, **_TIMES}
BROADER_OF = {member: broader for broader, members in _FAMILIES.items() for member in members}
COUNTS = (ONE, *_COUNTS["some"])
BEINGS, PLACES, TIMES = (tuple(sum(part.values(), ())) for part in (_BEINGS, _PLACES, _TIMES))
_OPPOSED = [(*pair, tools) for tools, pairs in _ACTIONS.items() for pair in pairs]
OPPOSITES = {action: other for left, right, _ in _OPPOSED for action, other in ((left, right), (right, left))}
TOOLS = {action: tools for left, right, tools in _OPPOSED for action in (left, right)}
ACTIONS = tuple(OPPOSITES)


class Statement(NamedTuple):
    """A scene and the way it is said."""

    scene: Scene
    ways: tuple[int, ...] = (0,) * len(SLOTS)  # the first (0) or the second (1) for each slot
    passive: bool = False  # the patient is the subject and the agent follows "by"
    time_first: bool = False  # the time opens the sentence; else it closes it

    def words(self, slot: str, index: int = 0) -> str:
        """Form `index` (0 or 1) of what fills a slot, as it is said; a word without a slash has one form."""
        return _form(self.scene[slot], self.ways[SLOTS.index(slot)], index)

    def noun_phrase(self, slot: str) -> str:
        """Who, and how many."""
        word = self.words(slot, 0 if self.scene[f"{slot}_count"] == ONE else 1)
        number = self.words(f"{slot}_count")
        return _with_article(word) if number == "a" else f"{number} {word}"

    def sentence(self) -> str:
        """One English sentence in the past tense, with a capital and a full stop."""
        agent, patient = self.noun_phrase("agent"), self.noun_phrase("patient")
        if self.passive:
            was = "was" if self.scene["patient_count"] == ONE else "were"
            parts = [patient, was, self.words("action", 1), "by", agent]
        else:
            parts = [agent, self.words("action"), patient]
        if self.scene["tool"]:
            parts += ["with", _with_article(self.words("tool"))]
        if self.scene["place"]:
            parts.append(self.words("place"))
        if self.scene["time"]:
            time = self.words("time")
            parts = [time, *parts] if self.time_first else [*parts, time]
        text = " ".join(parts)
        return f"{text[0].upper()}{text[1:]}."


@cache
def _form(meaning: str, way: int, index: int) -> str:
    ways = meaning.split(", ")
    forms = ways[min(way, len(ways) - 1)].split("/")
    return forms[min(index, len(forms) - 1)]


def _with_article(word: str) -> str:
    # In every word above a vowel letter in front is a vowel sound too.
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


SINGULAR_SHARE = 0.5  # of agents and of patients
FILLED_SHARE = 0.3  # of scenes, for each optional slot
# As in English, the exception; still in so many pairs that word order alone does not tell who did what.
PASSIVE_SHARE = 0.2
TIME_FIRST_SHARE = 0.2


def draw_pair(rng: Generator) -> tuple[Statement, ...]:
    """Two statements, one made out of the other; either may come first."""
    first = _reworded(rng, Statement(_draw_scene(rng)), 0.5)
    second = _follow(rng, first, PAIR_RECIPES)
    return (first, second) if _chance(rng, 0.5) else (second, first)


def draw_triple(rng: Generator) -> tuple[Statement, ...]:
    """A statement, one that follows from it and one that contradicts it."""
    anchor = _reworded(rng, Statement(_draw_scene(rng)), 0.5)
    return anchor, _follow(rng, anchor, ENTAILED_RECIPES), _follow(rng, anchor, CONTRADICTED_RECIPES)


def _follow(rng: Generator, first: Statement, recipes: "Sequence[Recipe]") -> Statement:
    bounds = list(accumulate(recipe.share for recipe in recipes))
    recipe = recipes[bisect_right(bounds, rng.random() * bounds[-1])]
    return _reworded(rng, first._replace(scene=recipe.change(rng, first.scene)), recipe.reword)


def _reworded(rng: Generator, statement: Statement, probability: float) -> Statement:
    flips = (rng.random(len(SLOTS)) < probability).tolist()
    ways = tuple(way ^ flip for way, flip in zip(statement.ways, flips, strict=True))
    return Statement(statement.scene, ways, _chance(rng, PASSIVE_SHARE), _chance(rng, TIME_FIRST_SHARE))


def _draw_scene(rng: Generator) -> Scene:
    agent, action = _pick(rng, BEINGS), _pick(rng, ACTIONS)
    return {
        "agent": agent,
        "agent_count": _draw_count(rng),
        "action": action,
        "patient": _pick(rng, [being for being in BEINGS if being != agent]),
        "patient_count": _draw_count(rng),
        "tool": _pick(rng, TOOLS[action]) if _chance(rng, FILLED_SHARE) else None,
        "place": _pick(rng, PLACES) if _chance(rng, FILLED_SHARE) else None,
        "time": _pick(rng, TIMES) if _chance(rng, FILLED_SHARE) else None,
    }


def _draw_count(rng: Generator) -> str:
    return ONE if _chance(rng, SINGULAR_SHARE) else _pick(rng, COUNTS[1:])


def _generalise(rng: Generator, scene: Scene) -> Scene:
    for _ in range(_pick(rng, (1, 2, 3))):
        choices = [(slot, BROADER_OF[value]) for slot, value in scene.items() if value in BROADER_OF]
        choices += [(slot, None) for slot in OPTIONAL_SLOTS if scene[slot] is not None]
        if choices:
            scene = {**scene, **dict([_pick(rng, choices)])}
    return scene


def _swap(rng: Generator, scene: Scene) -> Scene:
    swapped = {**scene, "agent": scene["patient"], "patient": scene["agent"]}
    if _chance(rng, 0.5):
        return swapped
    return {**swapped, "agent_count": scene["patient_count"], "patient_count": scene["agent_count"]}


def _alter(rng: Generator, scene: Scene) -> Scene:
    slots = [slot for slot in SLOTS if scene[slot] is not None]
    for _ in range(_pick(rng, (1, 2, 3, 4))):
        slot = slots.pop(_pick(rng, range(len(slots))))
        taken = (scene[slot], scene["agent"], scene["patient"])
        others = [value for value in _values(slot, scene) if value not in taken]
        scene = {**scene, slot: _pick(rng, others)}
    return scene


def _values(slot: str, scene: Scene) -> Sequence[str]:
    suitable = TOOLS[scene["action"]]
    if slot == "action":  # the tool stays, so it must suit the new action
        return [action for action in ACTIONS if scene["tool"] in (None, *TOOLS[action])]
    return {"agent": BEINGS, "patient": BEINGS, "tool": suitable, "place": PLACES, "time": TIMES}.get(
        slot, COUNTS
    )


def _replace_all(rng: Generator, scene: Scene) -> Scene:
    """Another scene, mostly at the same place and time, so that something is shared."""
    other = _draw_scene(rng)
    return {**other, "place": scene["place"], "time": scene["time"]} if _chance(rng, 0.7) else other


def _chance(rng: Generator, probability: float) -> bool:
    return rng.random() < probability


def _pick(rng: Generator, values: Sequence[T]) -> T:
    # Several times as fast as rng.choice, which makes an array of the values.
    return values[int(rng.random() * len(values))]


class Recipe(NamedTuple):
    """One way to make a second statement out of a first."""

    share: int  # percent of the pairs
    change: Callable[[Generator, Scene], Scene]
    reword: float  # probability, for each slot, that it is said in the other way


PAIR_RECIPES = (
    Recipe(16, lambda _, scene: scene, 0.5),
    Recipe(20, _generalise, 0.5),
    Recipe(10, _swap, 0.0),
    Recipe(7, lambda _, scene: {**scene, "action": OPPOSITES[scene["action"]]}, 0.2),
    Recipe(27, _alter, 0.4),
    Recipe(20, _replace_all, 0.0),
)
ENTAILED_RECIPES = (PAIR_RECIPES[0]._replace(share=60, reword=0.8), Recipe(40, _generalise, 0.5))
CONTRADICTED_RECIPES = (Recipe(50, _swap, 0.0), PAIR_RECIPES[3]._replace(share=20), Recipe(30, _alter, 0.2))

# How much each slot counts. Who and to whom weigh most: a pair with swapped roles can agree in every word,
# and still loses at least half of its score.
WEIGHTS: dict[str, int] = dict(zip(SLOTS, (8, 1, 6, 8, 1, 2, 2, 2), strict=True))
SYNONYM = 0.95  # agreement of one meaning said in two ways
BROADER = 0.5  # agreement of a meaning and the more general one that it implies
TOP_SCORE = 5.0


def score(first: Statement, second: Statement) -> float:
    r"""Similarity of two statements, from 0 for nothing shared to 5 for the same but for voice and order.

    .. math:: 5 \, \frac{\sum_k w_k a_k}{\sum_k w_k}

    over the slots *k* that either statement fills, with :math:`w_k` from `WEIGHTS` and the agreement
    :math:`a_k`: 1 for one meaning in the same words, 0.95 for synonyms, 0.5 where one meaning is the
    more general one, else 0. Symmetric; rounded to hundredths.
    """
    filled = [slot for slot in SLOTS if (first.scene[slot], second.scene[slot]) != (None, None)]
    gained = sum(WEIGHTS[slot] * _agreement(first, second, slot) for slot in filled)
    return round(TOP_SCORE * gained / sum(WEIGHTS[slot] for slot in filled), 2)


def _agreement(first: Statement, second: Statement, slot: str) -> float:
    value, other = first.scene[slot], second.scene[slot]
    if value is None or other is None:
        return 0.0
    if value == other:
        return 1.0 if first.words(slot) == second.words(slot) else SYNONYM
    return BROADER if _implies(value, other) or _implies(other, value) else 0.0


ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2


def label(premise: Scene, hypothesis: Scene) -> int:
    """Whether the hypothesis follows from the premise, as an NLI label.

    Both are taken to tell of one event. One incompatible slot (another agent, action, place) makes a
    contradiction; else a slot that the hypothesis alone fills, or fills more exactly, makes it neutral;
    else it is entailed.
    """
    answer = ENTAILMENT
    for slot in SLOTS:
        known, claimed = premise[slot], hypothesis[slot]
        if known == claimed or _implies(known, claimed):
            continue
        if not _implies(claimed, known):
            return CONTRADICTION
        answer = NEUTRAL
    return answer


def _implies(exact: str | None, general: str | None) -> bool:
    return exact is not None and (general is None or BROADER_OF.get(exact) == general)


class Toy:
    """Who does what to whom: made-up pairs whose similarity hangs on word order, voice and synonyms.

    Needs no file. A pair has a `score` from 0 to 5, by the slots that its two scenes share, and a `label`:
    does the right text follow from the left one. A bag of words gets the test split about 40 Spearman x 100.
    Every text is in one split alone, while words are shared: from about 1,000 training rows on, each word of
    the other splits is in the training texts.

    The rows depend on the arguments alone; those of test and dev not on `train_rows` nor on `form`.

    Args:
        form: of the training rows; dev and test rows are pairs in any case. `triplet` is a text, one that
            follows from it and one that contradicts it, without targets.
        train_rows: number of training rows, 1 to 100,000.
        dev_rows: number of dev pairs, likewise.
        test_rows: number of test pairs, likewise.
        seed: of everything drawn, >= 0.
    """

    name = "toy"
    splits = ("train", "dev", "test")
    graded = ("dev", "test")  # pairs with a score, also where the training rows are triplets

    def __init__(
        self,
        *,
        form: Literal["pair", "triplet"] = "pair",
        train_rows: int = 6000,
        dev_rows: int = 500,
        test_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        # The order matters: a split draws around the texts of those before it, and so depends on them.
        self.made = {"test": test_rows, "dev": dev_rows, "train": train_rows}
        for split, rows in self.made.items():
            if not 0 < rows <= MOST:
                raise ValueError(f"Toy: {split}_rows must be from 1 to {MOST}, got {rows}")
        if seed < 0:
            raise ValueError(f"Toy: seed must be >= 0, got {seed}")
        self.form = form
        self.targets = ("score", "label") if form == "pair" else ()
        self._seed = seed

    def problems(self, split: str, store: Store | None = None) -> list[str]:
        """Never any: the rows are generated."""
        return []

    def read(self, split: str, store: Store | None = None) -> Rows:
        """The rows of the split, generated anew."""
        if split not in self.splits:
            raise ValueError(f"Toy: no split {split!r} (there are: {', '.join(self.splits)})")
        form = self.form if split == "train" else "pair"
        sizes = list(self.made.values())[: list(self.made).index(split) + 1]
        statements, texts = _drawn(self._seed, tuple(sizes), form)
        targets = {}
        if form == "pair":
            targets["score"] = np.array([score(left, right) for left, right in statements], np.float64)
            labels = [label(left.scene, right.scene) for left, right in statements]
            targets["label"] = np.array(labels, np.int64)
        columns = {view: [row[index] for row in texts] for index, view in enumerate(FORMS[form])}
        return Rows(name=self.name, split=split, form=form, texts=columns, targets=targets)


@lru_cache(maxsize=4)  # a command reads every split, and each after the one before it
def _drawn(
    seed: int, sizes: tuple[int, ...], form: str
) -> tuple[list[tuple[Statement, ...]], list[tuple[str, ...]]]:
    """Statements and texts of each row of the last split; its texts differ, and none is in a split before."""
    taken: set[str] = set()
    for count in range(1, len(sizes)):
        taken.update(*_drawn(seed, sizes[:count], "pair")[1])
    # PCG64 by name: what numpy.random.default_rng stands for may change.
    rng = Generator(np.random.PCG64(np.random.SeedSequence(seed).spawn(len(sizes))[-1]))
    draw = draw_triple if form == "triplet" else draw_pair
    statements: list[tuple[Statement, ...]] = []
    texts: list[tuple[str, ...]] = []
    while len(texts) < sizes[-1]:
        drawn = draw(rng)
        sentences = tuple(statement.sentence() for statement in drawn)
        if len(set(sentences)) == len(sentences) and taken.isdisjoint(sentences):
            statements.append(drawn)
            texts.append(sentences)
    return statements, texts
