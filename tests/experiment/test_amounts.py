"""What a training has used."""

from pathlib import Path

from embedrun.experiment.amounts import Energy


def test_energy_is_that_of_all_processors_through_a_counter_that_starts_anew(tmp_path: Path):
    def count(package: int, microjoules: int) -> None:
        folder = tmp_path / f"intel-rapl:{package}"
        folder.mkdir(exist_ok=True)
        (folder / "max_energy_range_uj").write_text("10000000")
        (folder / "energy_uj").write_text(f"{microjoules}\n")

    count(0, 1_000_000)
    count(1, 9_000_000)
    energy = Energy(folder=tmp_path)
    count(0, 5_000_000)  # 4 J
    count(1, 2_000_000)  # 1 J to the end of its range, and 2 J
    assert energy.read() == 7 / 3.6e6
    count(0, 6_000_000)
    assert energy.read() == 8 / 3.6e6
    assert Energy(folder=tmp_path / "none").read() is None
