"""QQP: pairs of questions that were asked on Quora, duplicates or not."""

from embedrun.dataset.store_pairs import OfStore, read_binary
from embedrun.rows import Rows
from embedrun.store import Store


class Qqp(OfStore):
    """Quora Question Pairs: score 1 (duplicate) or 0.

    Source: Iyer et al. 2017 (Quora). There are several versions: GLUE's has 363,846 training and 40,430 dev
    pairs, over a third of them duplicates, and `embedrun data get qqp` fetches that one. A store may as well
    hold samples in these files, such as 20,000 / 5,000 pairs from the partitions of Wang et al. 2017
    (BiMPM), half of them duplicates, with some of GLUE's. AnglE's Table 3 scores the dev split of GLUE, so
    that a score on another version is not comparable with it; the fingerprint in `environment.json` tells
    the versions apart. The test split of GLUE has no public labels.
    """

    name = "qqp"
    form = "pair"
    targets = ("score",)
    splits = ("train", "dev")
    pattern = "pairs/qqp/{split}.jsonl.gz"

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order."""
        (file,) = self.files(split, store)
        return read_binary(store, file, name=self.name, split=split)
