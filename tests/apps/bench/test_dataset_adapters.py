"""Dataset adapters: each turns a path into slides, truths and bags, and names what is wrong with a file."""

import csv
import gzip
import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from slideseek.errors import SlideseekError, UsageError
from slideseek.plugins import KINDS, load_registry
from slideseek_apps.bench.datasets import Adapter, guess_kind, load_dataset
from slideseek_apps.bench.datasets.gdc_manifest import check_files, read_gdc_manifest
from slideseek_apps.bench.datasets.tcga_names import SITE_GROUPS, parse_tcga_name, site_group

REGISTRY = load_registry(kinds=KINDS)


def features(seed: int, n: int = 4, width: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def write_h5(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["features"] = values
        file["coords"] = np.zeros((len(values), 2), np.int64)


def load(kind, path, **options):
    given = {"path": str(path), **{k: str(v) if isinstance(v, Path) else v for k, v in options.items()}}
    return load_dataset(kind, given, Path.cwd(), REGISTRY)


def guess(path):
    """Guess the kind of a path; every adapter can be asked."""
    notes: list[str] = []
    kind = guess_kind(path, REGISTRY, notes.append)
    assert notes == []
    return kind


def test_every_adapter_can_be_imported():
    kinds = [entry.name for entry in REGISTRY.registrations("dataset")]
    assert kinds == ["archive", "bag-csv", "bags", "features", "lks", "tcga"]
    assert all(issubclass(REGISTRY.load("dataset", kind), Adapter) for kind in kinds)


class TestBagArrays:
    def test_instances_with_labels(self, tmp_path):
        path = tmp_path / "toy.npz"
        x = features(0, 5)
        np.savez(path, x=x, bag=np.array([7, 7, 2, 2, 2]), y=np.array([1, 1, 0, 0, 0]))
        data = load("bags", path)
        assert [(r.id, r.label, r.patient, r.site) for r in data.records] == [
            ("toy-0002", "0", "toy-0002", "toy"),
            ("toy-0007", "1", "toy-0007", "toy"),
        ]
        assert np.array_equal(data.bags["toy-0007"].features, x[:2])
        assert any("one site" in note for note in data.notes)

    def test_slides_with_a_table(self, shared_data):
        data = load("bags", shared_data / "bags" / "atlas_lite2.npz")
        assert (len(data.records), data.patients, data.width) == (35, 23, 1280)
        assert len({r.site for r in data.records}) == 7
        assert sum(len(data.bags[r.id]) for r in data.records) == 2110

    @pytest.mark.parametrize(
        ("arrays", "why"),
        [
            ({"x": np.zeros((2, 3))}, "no array 'bag'"),
            ({"x": np.zeros((2, 3)), "bag": np.zeros(2, int)}, "neither 'slide_id' nor labels"),
            ({"x": np.zeros((2, 3)), "bag": np.zeros(2, int), "y": np.array([0, 1])}, "several labels"),
            ({"x": np.zeros(2), "bag": np.zeros(2, int)}, "'x' is float64"),
            ({"x": np.zeros((2, 3)), "bag": np.array([0, 4]), "slide_id": np.array(["a"])}, "beyond the 1"),
            ({"x": np.zeros((2, 3)), "bag": np.zeros(2, int), "slide_id": np.array([object()])}, "cannot be read"),
        ],
    )
    def test_a_bad_file_is_named(self, tmp_path, arrays, why):
        path = tmp_path / "bad.npz"
        np.savez(path, **arrays)
        with pytest.raises(SlideseekError, match=why) as found:
            load("bags", path)
        assert "bad.npz" in str(found.value)

    def test_text_is_no_npz(self, tmp_path):
        (tmp_path / "text.npz").write_text("hello")
        with pytest.raises(SlideseekError, match=r"text\.npz: it cannot be read"):
            load("bags", tmp_path / "text.npz")


class TestBagCsv:
    def test_rows_become_bags(self, tmp_path):
        path = tmp_path / "mil.csv"
        path.write_text("bag,label,f1,f2\nb,1,1.5,2\na,0,0,1\nb,1,3,4\n")
        data = load("bag-csv", path, site="breast")
        assert [(r.id, r.label, r.site) for r in data.records] == [("a", "0", "breast"), ("b", "1", "breast")]
        assert data.bags["b"].features.tolist() == [[1.5, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("bag,label\na,1\n", "one or more features"),
            ("bag,label,f\na,1,x\n", "line 2: a feature is not a number"),
            ("bag,label,f\na,1,2,3\n", "line 2: 4 cells, 3 columns"),
            ("bag,label,f\na,1,2\na,0,2\n", "line 3: bag 'a' has another label"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path, text, why):
        (tmp_path / "mil.csv").write_text(text)
        with pytest.raises(SlideseekError, match=why):
            load("bag-csv", tmp_path / "mil.csv")


class TestFeatureFolder:
    def folder(self, tmp_path):
        for number in range(3):
            write_h5(tmp_path / "features_uni" / f"s{number}.h5", features(number))
        manifest = tmp_path / "m.csv"
        manifest.write_text(
            "slide_id,case_id,primary_site,diagnosis,split\ns0,p0,lung,a,train\ns1,p1,lung,b,test\ns2,p2,lung,a,test\n"
        )
        return manifest

    def test_files_meet_the_rows_of_the_manifest(self, tmp_path):
        manifest = self.folder(tmp_path)
        data = load("features", tmp_path / "features_uni", manifest=manifest)
        assert [(r.id, r.patient, r.label, r.fields["split"]) for r in data.records] == [
            ("s0", "p0", "a", "train"),
            ("s1", "p1", "b", "test"),
            ("s2", "p2", "a", "test"),
        ]
        assert np.array_equal(data.bags["s1"].features, features(1))
        assert data.name == "uni"

    def test_a_damaged_file_is_a_problem_and_the_rest_is_used(self, tmp_path):
        manifest = self.folder(tmp_path)
        (tmp_path / "features_uni" / "s1.h5").write_bytes(b"not hdf5")
        write_h5(tmp_path / "features_uni" / "s2.h5", features(2, width=9))
        data = load("features", tmp_path / "features_uni", manifest=manifest)
        assert [r.id for r in data.records] == ["s0"]
        assert {p.subject: p.cause for p in data.problems}.keys() == {"s1", "s2"}
        assert "9 features per patch" in next(p.cause for p in data.problems if p.subject == "s2")

    def test_a_manifest_is_needed(self, tmp_path):
        self.folder(tmp_path)
        with pytest.raises(UsageError, match="needs a manifest"):
            load("features", tmp_path / "features_uni")


def test_the_fingerprint_follows_labels_and_features_but_not_patch_order(tmp_path):
    def make(name, x, label):
        np.savez(
            tmp_path / name,
            x=x,
            bag=np.zeros(len(x), int),
            slide_id=np.array(["s"]),
            label=np.array([label]),
            patient=np.array(["p"]),
            site=np.array(["lung"]),
        )
        return load("bags", tmp_path / name).fingerprint

    x = features(3)
    same = make("a.npz", x, "benign")
    assert make("b.npz", x[::-1].copy(), "benign") == same
    assert make("c.npz", x, "malignant") != same
    assert make("d.npz", x + 1, "benign") != same


class TestArchive:
    def test_the_features_of_an_engine(self, tiny_archive):
        assert guess(tiny_archive) == "archive"
        data = load("archive", tiny_archive, engine="mean")
        assert [r.id for r in data.records] == [f"s{n}" for n in range(8)]
        assert {r.site for r in data.records} == {"colon", "lung"}
        assert len(data.bags["s0"]) > 0
        assert len(set(data.identities.values())) == 8


NAME = "TCGA-{centre}-{person}-01Z-00-{kind}1.{uuid}"


class TestTcga:
    @pytest.fixture
    def folder(self, tmp_path):
        slides = [
            ("05", "A001", "DX", "TCGA-LUAD"),
            ("05", "A002", "DX", "TCGA-LUSC"),
            ("B8", "A003", "TS", "TCGA-LUAD"),
            ("B8", "A004", "DX", "TCGA-BRCA"),
        ]
        rows = []
        for number, (centre, person, kind, project) in enumerate(slides):
            name = NAME.format(centre=centre, person=person, kind=kind, uuid=f"uuid-{number}")
            write_h5(tmp_path / "features" / f"{name}.h5", features(number))
            rows.append({"slide_name": f"{name}.svs", "project_id": project, "primary_site": "Somewhere"})
        with gzip.open(tmp_path / "table.csv.gz", "wt") as stream:
            writer = csv.DictWriter(stream, ["slide_name", "project_id", "primary_site"])
            writer.writeheader()
            writer.writerows(rows)
        return tmp_path

    def test_names_say_patient_and_centre_and_frozen_slides_stay_out(self, folder):
        data = load("tcga", folder / "features", table=folder / "table.csv.gz")
        assert [(r.patient, r.center, r.site, r.label) for r in data.records] == [
            ("TCGA-05-A001", "05", "Pulmonary", "LUAD"),
            ("TCGA-05-A002", "05", "Pulmonary", "LUSC"),
        ]
        said = " ".join(data.notes)
        assert "1 slide(s) are frozen sections" in said
        assert "1 slide(s) are of projects the paper's tables leave out" in said

    def test_frozen_slides_and_other_projects_on_demand(self, folder):
        data = load("tcga", folder / "features", table=folder / "table.csv.gz", frozen=True, sites="primary_site")
        assert len(data.records) == 4
        assert {r.site for r in data.records} == {"Somewhere"}

    def test_rows_without_project_or_label_leave_their_slides_out(self, folder):
        rows = gzip.decompress((folder / "table.csv.gz").read_bytes()).decode().splitlines()
        name, _, site = rows[1].split(",")
        (folder / "short.csv").write_text("\n".join([rows[0], name, *rows[2:]]) + "\n")
        data = load("tcga", folder / "features", table=folder / "short.csv")
        assert [r.label for r in data.records] == ["LUSC"]
        (folder / "empty.csv").write_text("\n".join([rows[0], f"{name},,{site}", *rows[2:]]) + "\n")
        data = load("tcga", folder / "features", table=folder / "empty.csv", sites="primary_site")
        assert "1 slide(s) have no project_id in the table: left out" in data.notes

    def test_the_manifest_checks_the_files_that_are_here(self, folder):
        good, bad, short = (
            NAME.format(centre="05", person=p, kind="DX", uuid="u") + ".svs" for p in ("A1", "A2", "A3")
        )
        slides = folder / "slides"
        (slides / "id-1").mkdir(parents=True)
        (slides / "id-1" / good).write_bytes(b"good")
        (slides / bad).write_bytes(b"evil")
        (slides / short).write_bytes(b"x")
        md5 = hashlib.md5(b"good").hexdigest()
        lines = ["id\tfilename\tmd5\tsize\tstate"]
        lines += [f"id-{i}\t{name}\t{md5}\t4\treleased" for i, name in enumerate((good, bad, short, "absent.svs"), 1)]
        (folder / "gdc.txt").write_text("\n".join(lines) + "\n")
        found = {p.subject: p.cause for p in check_files(read_gdc_manifest(folder / "gdc.txt"), slides)}
        assert found.keys() == {bad, short}
        assert "MD5" in found[bad]
        assert "1 bytes, the manifest says 4" in found[short]

    def test_a_line_cut_short_is_refused_by_number(self, tmp_path):
        (tmp_path / "m.txt").write_text("id\tfilename\tmd5\tsize\tstate\nid-1\tslide.svs\n")
        with pytest.raises(SlideseekError, match="line 2: no file name or no size"):
            read_gdc_manifest(tmp_path / "m.txt")

    def test_a_manifest_of_another_kind_is_refused(self, tmp_path):
        (tmp_path / "m.txt").write_text("slide,label\na,b\n")
        with pytest.raises(SlideseekError, match="not a GDC manifest: no column id"):
            read_gdc_manifest(tmp_path / "m.txt")

    def test_the_real_table_fits_the_rules(self, shared_data):
        with gzip.open(shared_data / "tables" / "tcga_diagnostic_slides.csv.gz", "rt") as stream:
            rows = list(csv.DictReader(stream))
        names = [parse_tcga_name(row["slide_name"]) for row in rows]
        assert all(name and not name.frozen for name in names)
        assert all(name and name.patient == row["patient"] for name, row in zip(names, rows))
        assert all(name and name.center == row["tss_code"].zfill(2) for name, row in zip(names, rows))

    def test_groups_are_those_of_the_paper(self):
        assert (len(SITE_GROUPS), sum(map(len, SITE_GROUPS.values()))) == (10, 29)
        assert (site_group("TCGA-KICH"), site_group("BRCA")) == ("Urinary tract", "")

    @pytest.mark.parametrize("name", ["slide-1.svs", "TCGA-05-4244.svs", "TCGA-054-4244-01Z-00-DX1.svs"])
    def test_other_names_say_nothing(self, name):
        assert parse_tcga_name(name) is None


class TestLks:
    @pytest.fixture
    def folder(self, tmp_path):
        for split, names in (("Train", ("a1", "a2")), ("Test", ("b1",))):
            (tmp_path / f"{split}_Labels.csv").write_text(
                "filename,label\n" + "".join(f"{name}.tif,{'AMA' if name == 'a1' else 'Neg'}\n" for name in names)
            )
            for name in names:
                write_h5(tmp_path / "features" / f"{name}.h5", features(ord(name[0]) + ord(name[1])))
        return tmp_path

    def test_labels_and_split(self, folder):
        assert guess(folder) == "lks"
        data = load("lks", folder)
        assert [(r.id, r.label, r.fields["split"], r.patient) for r in data.records] == [
            ("a1", "AMA", "train", "a1"),
            ("a2", "Neg", "train", "a2"),
            ("b1", "Neg", "test", "b1"),
        ]
        said = " ".join(data.notes)
        assert "fluorescence" in said
        assert "the published set has 479" in said

    def test_a_slide_on_both_sides_is_refused(self, folder):
        (folder / "Test_Labels.csv").write_text("a1.tif,AMA\n")
        with pytest.raises(SlideseekError, match="'a1' is in both label files"):
            load("lks", folder)

    def test_a_row_without_a_class_is_refused_by_line(self, folder):
        (folder / "Train_Labels.csv").write_text("filename,label\n\na1.tif,AMA\na2.tif\n")
        with pytest.raises(SlideseekError, match="line 4"):
            load("lks", folder)

    def test_missing_features_say_how_to_make_them(self, folder, tmp_path):
        with pytest.raises(UsageError, match="has no features"):
            load("lks", folder, features=tmp_path / "nowhere")


class TestGuess:
    @pytest.mark.parametrize(
        ("file", "kind"),
        [
            ("a.npz", "bags"),
            ("A.NPZ", "bags"),
            ("a.csv", "bag-csv"),
            ("folder/a.h5", "features"),
            ("folder/h5_files/a.h5", "features"),
            ("folder/20x_256px/features_uni/a.h5", "features"),
            ("folder/Test_Labels.csv", "lks"),
            ("folder/slideseek.toml", "archive"),
        ],
    )
    def test_from_what_is_there(self, tmp_path, file, kind):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
        assert guess(tmp_path / file.partition("/")[0]) == kind

    def test_a_path_that_does_not_exist(self, tmp_path):
        with pytest.raises(UsageError, match="does not exist"):
            guess(tmp_path / "nothing.npz")

    @pytest.mark.parametrize("name", ["x.bin", ""])
    def test_no_kind(self, tmp_path, name):
        (tmp_path / "x.bin").touch()
        with pytest.raises(UsageError, match="no kind of data recognises") as caught:
            guess(tmp_path / name)
        assert caught.value.fix == "pass --dataset, one of archive, bag-csv, bags, features, lks, tcga"

    def test_several_kinds(self, tmp_path):
        (tmp_path / "slideseek.toml").touch()
        (tmp_path / "Train_Labels.csv").touch()
        with pytest.raises(UsageError, match="can be read as archive or as lks") as caught:
            guess(tmp_path)
        assert caught.value.fix == "pass --dataset archive or --dataset lks"


def test_feature_files_are_recognised_by_the_endings_that_are_read():
    from slideseek_apps.bench.datasets.feature_files import SUFFIXES
    from slideseek_apps.interchange.feature_readers import READERS

    assert set(SUFFIXES) == set(READERS)
