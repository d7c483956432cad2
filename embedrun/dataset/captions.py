"""Image captions, one text a row: the captions of one image describe the same scene."""

from typing import Literal

from embedrun.dataset.store_pairs import OfStore, read_columns, require_published
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import LineFaults, Rule, as_labels, sentence

SetName = Literal["flickr30k", "flickr8k", "mscoco"]
_FILES = {
    ("flickr30k", "karpathy"): {"test": "test_captions", "dev": "val_captions"},
    ("flickr30k", "entities"): {"test": "entities_test_captions", "dev": "entities_val_captions"},
    ("flickr8k", "karpathy"): {"test": "captions"},  # the whole of it; there is no split
    ("mscoco", "karpathy"): {"test": "test_captions"},
}


class Captions(OfStore):
    """The captions of a split, image after image in file order; `group` numbers the images from 0.

    Sources: Young et al. 2014 (Flickr30k), doi:10.1162/tacl_a_00166, 1,000 test and 1,014 dev images of the
    Karpathy split, or 1,000 of each of Flickr30k Entities (Plummer et al. 2015), whose captions are
    tokenised; Hodosh et al. 2013 (Flickr8k), doi:10.1613/jair.3994, all of its 8,092 images; Lin et al. 2014
    (MS COCO), the 5,000 test images of the Karpathy split. Five captions an image, six for ten of COCO's.
    A few captions are of two images. Premises of SNLI are captions of Flickr30k.

    Args:
        set: which.
        split_of: whose division of Flickr30k; the others have no second one.

    Raises:
        ValueError: if there is no such set or no such division of it.
    """

    form = "text"
    targets = ("group",)

    def __init__(
        self, *, set: SetName = "flickr30k", split_of: Literal["karpathy", "entities"] = "karpathy"
    ) -> None:
        if (set, split_of) not in _FILES:
            known = ", ".join(f"set={name} split_of={division}" for name, division in _FILES)
            raise ValueError(f"Captions: no set={set} split_of={split_of} (there are: {known})")
        self.name: str = set if split_of == "karpathy" else f"{set}_{split_of}"
        self._files = {split: f"{set}/{stem}.jsonl.gz" for split, stem in _FILES[set, split_of].items()}
        self.splits = tuple(self._files)

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store."""
        self.require(split)
        return [self._files[split]]

    def read(self, split: str, store: Store) -> Rows:
        """The captions of the split.

        DataError also unless it has the published number of images, each once and with two captions or more.
        """
        (file,) = self.files(split, store)
        rules: dict[str, Rule] = {"image_id": sentence, "captions": _captions}
        typed = read_columns(store, file, rules)
        images = len(typed["image_id"])
        _check_once(store, file, typed["image_id"])
        require_published(store, file, images)
        every = typed["captions"]
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"text": [text for captions in every for text in captions]},
            targets={"group": as_labels([image for image, captions in enumerate(every) for _ in captions])},
        )


def _captions(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) < 2:
        found = f"{len(value)} of them" if isinstance(value, list) else repr(value)[:40]
        raise ValueError(f"expected a list of two captions or more, got {found}")
    return [sentence(text) for text in value]


def _check_once(store: Store, file: str, images: list[str]) -> None:
    faults = LineFaults(store.path(file))
    first: dict[str, int] = {}
    for row, image in enumerate(images, 1):
        if first.setdefault(image, row) != row:
            faults.add(row, f"image {image!r} is in row {first[image]} already", "image_id")
    faults.check()
