"""Values of options: plain ones are checked without pydantic, and just as it checks them."""

import json
import subprocess
import sys
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from slideseek.errors import UsageError
from slideseek.options import typed_value

HINTS = [bool, int, float, str, Literal["a", "b"], Literal[1, 2], int | None, tuple[float, ...], Any]
VALUES = [True, False, 0, 1, -3, 2**53, 2**53 + 1, 10**20, 0.5, -0.0, 1.0, "a", "c", "", "1", None, [1, 0.5], []]


@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_checked_as_pydantic_does(hint: Any, value: Any) -> None:
    try:
        expected = TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        with pytest.raises(UsageError):
            typed_value(hint, value, "x")
        return
    found = typed_value(hint, value, "x")
    assert found == expected and type(found) is type(expected)


def test_the_default_engine_is_made_without_what_only_other_engines_need() -> None:
    code = """
import sys
from slideseek.config import default_config, parse_config
from slideseek.engine import make_engine
from slideseek.plugins import load_registry
make_engine(parse_config(default_config()).engine(), load_registry())
print(sorted({"pydantic", "torch", "tifffile", "sklearn"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
