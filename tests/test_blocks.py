import pytest

from embedrun.blocks import Shard


def test_what_names_no_shard_is_refused():
    for text in ["", "1", "4/4", "-1/4", "0/0", "1/2/3", "a/b", " 0/1", "٠/١", "0.5/1"]:
        with pytest.raises(ValueError, match="expected I/N with I from 0 to N - 1"):
            Shard.parse(text)


def test_the_shards_share_the_blocks_out():
    for count in [1, 2, 3, 7, 20]:
        shares = [Shard.parse(f"{index}/{count}").of(7) for index in range(count)]
        assert sorted(number for share in shares for number in share) == list(range(7))
        assert Shard(1, 3).of(7) == [1, 4]
