"""The tests: docs/contributing.md names the lanes."""

import pytest

pytest.register_assert_rewrite("tests.support")
