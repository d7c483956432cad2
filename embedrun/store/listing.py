"""What the data sets are, what of them is here, and who needs them: rows of a table."""

from collections.abc import Mapping, Sequence

from embedrun.store.catalogue import Catalogue
from embedrun.store.folder import Store
from embedrun.store.place import entries

HEADING = ["data set", "files here", "rows here", "on the hub", "licence", "presets"]
RIGHT = (1, 2)  # columns of numbers


def listing(store: Store, catalogue: Catalogue, presets: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One row of cells for each data set, after a heading; then one for each file of no known data set.

    Args:
        store: the data folder; it need not exist, nor have a manifest.
        catalogue: the data sets.
        presets: those of conf/experiment that need it, by data set.
    """
    known = entries(store)
    table = [HEADING]
    for name, one in catalogue.data_sets.items():
        here = [path for path in one.files if store.has(path)]
        rows = [known[path]["rows"] if path in known else None for path in here]
        counted = "?" if None in rows else f"{sum(row for row in rows if row is not None):,}"
        hub = "yes" if any(file.hub is not None for file in one.files.values()) else "no"
        table.append(
            [
                name,
                f"{len(here)} of {len(one.files)}",
                counted if here else "-",
                hub,
                one.licence,
                ", ".join(presets.get(name, ())) or "-",
            ]
        )
    found = {path.relative_to(store.root).as_posix() for path in store.root.rglob("*.gz")}
    for path in sorted((found | set(known)) - set(catalogue.files())):
        rows = f"{known[path]['rows']:,}" if path in known else "?"
        table.append([path, f"{int(path in found)} of 1", rows, "no", "?", "-"])
    return table
