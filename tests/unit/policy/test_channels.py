"""Addresses of one mail."""

from dcron.policy.channels import addresses_of, is_offered, joined


def test_all_addresses_are_one_channel_and_names_stay_alone() -> None:
    channels = ("ops", "mailto:ann", "pager", "mailto:bob@example.org", "mailto:eve")
    assert joined(channels) == ["ops", "mailto:ann,bob@example.org,eve", "pager"]
    assert joined(("ops", "mailto:ann")) == ["ops", "mailto:ann"]
    assert joined(()) == []


def test_a_channel_of_several_addresses_is_one_of_mail() -> None:
    assert addresses_of("mailto:ann,bob@example.org") == ("ann", "bob@example.org")
    assert addresses_of("ops") == ()
    assert is_offered("mailto:ann,bob@example.org", ["post", "mailto"])
    assert not is_offered("mailto:ann,bob@example.org", ["post"])


def test_long_addresses_are_several_channels() -> None:
    channels = [f"mailto:{letter * 100}@example.org" for letter in "abcde"]
    found = joined(channels)
    assert [len(addresses_of(channel)) for channel in found] == [2, 2, 1]
    assert max(map(len, found)) <= 300
    assert sum(map(addresses_of, found), ()) == sum(map(addresses_of, channels), ())
