"""How the scenes of the toy data set become English sentences.

A scene says who does what to whom, with what, where, when and how many. What it means (`Scene`) and
how that is said (`Wording`) are apart, so that two sentences can share all their meaning and no content
word, or all their words and little meaning. The words themselves are in `toy_lexicon`.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, eq=False)
class Meaning:
    """One value of a slot. Each is made once, so only the same object is equal to it.

    Args:
        words: two ways to say it, equal if there is but one. A slash parts two forms of a word:
            singular and plural of a noun, past tense and participle of a verb.
        broader: the more general value that it implies; None if there is none.
    """

    words: tuple[str, str]
    broader: "Meaning | None" = None

    def form(self, way: int, index: int = 0) -> str:
        """Form ``index`` (0 or 1) of one of the two ways; a word without a slash is the same in both."""
        forms = self.words[way].split("/")
        return forms[min(index, len(forms) - 1)]


ONE = Meaning(("a", "one"))  # the only count that takes a singular noun


@dataclass(frozen=True)
class Scene:
    """What a sentence says; a slot is None where it says nothing."""

    agent: Meaning
    agent_count: Meaning
    action: Meaning
    patient: Meaning
    patient_count: Meaning
    tool: Meaning | None = None
    place: Meaning | None = None
    time: Meaning | None = None


SLOTS = tuple(slot.name for slot in fields(Scene))
OPTIONAL_SLOTS = ("tool", "place", "time")


@dataclass(frozen=True)
class Wording:
    """How a scene is said.

    Args:
        ways: which of the two ways (0 or 1) to say each slot, in the order of `SLOTS`.
        passive: the patient is the subject and the agent follows "by".
        time_first: the time opens the sentence; else it closes it.
    """

    ways: tuple[int, ...] = (0,) * len(SLOTS)
    passive: bool = False
    time_first: bool = False


@dataclass(frozen=True)
class Statement:
    """A scene and the way it is said."""

    scene: Scene
    wording: Wording = Wording()


def sentence(statement: Statement) -> str:
    """The statement as one English sentence in the past tense, with a capital and a full stop."""
    scene, wording = statement.scene, statement.wording
    way = dict(zip(SLOTS, wording.ways, strict=True))
    agent = _noun_phrase(scene.agent, way["agent"], scene.agent_count, way["agent_count"])
    patient = _noun_phrase(scene.patient, way["patient"], scene.patient_count, way["patient_count"])
    if wording.passive:
        was = "was" if scene.patient_count == ONE else "were"
        parts = [patient, was, scene.action.form(way["action"], 1), "by", agent]
    else:
        parts = [agent, scene.action.form(way["action"], 0), patient]
    if scene.tool is not None:
        parts += ["with", _with_article(scene.tool.form(way["tool"]))]
    if scene.place is not None:
        parts.append(scene.place.form(way["place"]))
    if scene.time is not None:
        time = scene.time.form(way["time"])
        parts = [time, *parts] if wording.time_first else [*parts, time]
    text = " ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _noun_phrase(noun: Meaning, way: int, count: Meaning, count_way: int) -> str:
    word = noun.form(way, 0 if count == ONE else 1)
    number = count.form(count_way)
    return _with_article(word) if number == "a" else f"{number} {word}"


def _with_article(word: str) -> str:
    # In every word of the lexicon a vowel letter in front is a vowel sound too.
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
