"""One set of features is found in the layouts of TRIDENT and CLAM or in a plain folder; several are an error."""

import numpy as np
import pytest

from slideseek.errors import UsageError
from slideseek_apps.interchange.feature_folders import find_feature_set


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize("below", ["", "20x_256px_0px_overlap", "20x_256px_0px_overlap/features_uni_v1"])
def test_a_job_of_trident(trident_job, below):
    found = find_feature_set(trident_job / below)
    assert found.name == "uni_v1"
    assert [file.path.name for file in found.files] == ["a.h5", "b.h5", "c.h5"]


def test_several_sets_are_listed(trident_job):
    other = touch(trident_job / "10x_512px_0px_overlap" / "features_conch_v15" / "a.h5").parent
    with pytest.raises(UsageError) as caught:
        find_feature_set(trident_job)
    assert "holds 2 sets" in caught.value.cause
    assert "10x_512px_0px_overlap/features_conch_v15" in caught.value.cause
    assert "20x_256px_0px_overlap/features_uni_v1" in caught.value.cause
    assert f"slideseek import {other}" in caught.value.fix
    assert find_feature_set(other).name == "conch_v15"


def test_clam(tmp_path):
    for name in ("a", "b"):
        touch(tmp_path / "FEATURES" / "h5_files" / f"{name}.h5")
        touch(tmp_path / "FEATURES" / "pt_files" / f"{name}.pt")
    touch(tmp_path / "FEATURES" / "pt_files" / "c.pt")
    for given in (tmp_path, tmp_path / "FEATURES"):
        found = find_feature_set(given)
        assert found.name == "FEATURES"
        assert [file.path.name for file in found.files] == ["a.h5", "b.h5", "c.pt"]
        assert found.notes == ("2 slide(s) have more than one file: a.h5 is used, not a.pt",)
    found = find_feature_set(tmp_path / "FEATURES" / "pt_files")
    assert (found.name, len(found.files), found.notes) == ("FEATURES", 3, ())


def test_a_plain_folder(tmp_path):
    np.save(tmp_path / "TCGA-01.uuid.npy", np.ones((1, 1)))
    touch(tmp_path / ".hidden.npy")
    touch(tmp_path / "notes.txt")
    found = find_feature_set(tmp_path, "mine")
    assert (found.name, [file.path.name for file in found.files]) == ("mine", ["TCGA-01.uuid.npy"])


def test_mistakes(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no feature files in"):
        find_feature_set(tmp_path / "empty")
    with pytest.raises(UsageError, match="is not a folder"):
        find_feature_set(tmp_path / "missing")
    touch(tmp_path / "a b" / "x.h5")
    with pytest.raises(UsageError, match="'a b' cannot be the name of a set: pass --set"):
        find_feature_set(tmp_path / "a b")
    with pytest.raises(UsageError, match="'\\.\\./x' cannot be the name"):
        find_feature_set(tmp_path / "a b", "../x")


def test_folders_far_below_are_not_looked_into(tmp_path):
    touch(tmp_path / "1" / "2" / "3" / "4" / "5" / "a.h5")
    with pytest.raises(UsageError, match="no feature files"):
        find_feature_set(tmp_path)
    assert len(find_feature_set(tmp_path / "1").files) == 1
