"""What a browser reads is what was logged, however it was encoded."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from deployer.page.strict_json import EXACT_IN_A_DOUBLE, encode_value


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ([1, 0.5, "a", True, None], [1, 0.5, "a", True, None]),
        ([math.nan, math.inf, -math.inf, 1e-7], ["NaN", "Infinity", "-Infinity", 1e-7]),
        ([EXACT_IN_A_DOUBLE, -EXACT_IN_A_DOUBLE], [EXACT_IN_A_DOUBLE, -EXACT_IN_A_DOUBLE]),
        ([[1], [EXACT_IN_A_DOUBLE + 1, 0.5]], [[1], [str(EXACT_IN_A_DOUBLE + 1), 0.5]]),
        ([["é", 1.0], [math.nan]], [["é", 1.0], ["NaN"]]),
        (["\ud800", math.nan], ["\ud800", "NaN"]),
        ([{"a": math.nan}, (2**60,)], [{"a": "NaN"}, [str(2**60)]]),
        ([], []),
    ],
)
def test_a_list_is_strict_json_in_ascii(value: list[Any], read: list[Any]) -> None:
    text = encode_value(value)
    assert text.isascii()
    assert json.loads(text, parse_constant=pytest.fail) == read
