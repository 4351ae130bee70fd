"""The package's docstring says where to look: every module is on the map, and nothing else."""

import re
from pathlib import Path

import pytest

import slideseek.slides
import slideseek_apps.cluster
import slideseek_components.executors
import slideseek_components.readers
import slideseek_components.selectors


@pytest.mark.parametrize(
    "package",
    [
        slideseek.slides,
        slideseek_apps.cluster,
        slideseek_components.executors,
        slideseek_components.readers,
        slideseek_components.selectors,
    ],
    ids=lambda p: p.__name__,
)
def test_every_module_is_on_the_map(package):
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", package.__doc__)) == modules
