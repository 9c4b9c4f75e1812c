"""No error repeats a secret of a channel."""

import pytest

from dcron.notifying.secrets import redact, secrets_of


@pytest.mark.parametrize(
    ("options", "text", "shown"),
    [
        (
            {"url": "slack://tokenA/tokenB/tokenC/#chan"},
            "no service tokenB at tokenA",
            "no service *** at ***",
        ),
        ({"url": ["x://h0st1", "slack://aaaa/bbbb"]}, "h0st1 bbbb", "*** ***"),
        (
            {"url": "https://u:pass@hooks.example.org/T0/abcdef?k=wxyz"},
            "pass wxyz abcdef T0",
            "*** *** *** T0",
        ),
        (
            {"url": "https://hooks.example.org/abcdef"},
            "hooks.example.org answers",
            "hooks.example.org answers",
        ),
        ({"url": "https://h/a%20secret"}, "the path /a secret", "the path /***"),
        ({"url": "https://[::1/abcdef"}, "see abcdef", "see ***"),
        ({"url": "https://h/abcdef"}, "see https://h/abcdef", "see ***"),
        ({"password": "hunter22", "user": "ann"}, "ann and hunter22", "ann and ***"),
        ({"headers": {"Authorization": "Bearer wxyz"}}, "sent Bearer wxyz", "sent ***"),
        ({"command": "page --ops"}, "page failed", "page failed"),
    ],
)
def test_secrets_are_hidden(options: dict[str, object], text: str, shown: str) -> None:
    assert redact(text, secrets_of(options)) == shown
