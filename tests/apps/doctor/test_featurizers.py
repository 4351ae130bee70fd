"""`slideseek featurizers`: what each needs, and whether its weights are there."""

import sys

import click

from slideseek_apps.doctor.wrapped_text import echo_wrapped


def test_featurizers_of_an_archive_show_their_weights(tiny_archive, slideseek):
    listed = {row["name"]: row for row in slideseek("featurizers", "--json").json}
    assert listed["efficientnet-lite2"]["present"] and listed["densenet121"]["present"] is False
    assert "set" in listed["imported"]["problem"]
    config = tiny_archive / "slideseek.toml"
    config.write_text(config.read_text().replace('"colour-texture"', '"efficientnet-lite0"', 1))
    first, second = slideseek("featurizers", "-a", tiny_archive, "--json").json
    assert first["name"] == "bars: efficientnet-lite0" and "579344248a93e23026e6b78f" in first["fingerprint"]
    assert second["name"] == "mean: colour-texture"
    assert "579344248a93" in slideseek("featurizers", "-a", tiny_archive).out


def test_a_card_that_fails_is_named_and_the_rest_is_listed(tiny_archive, slideseek, monkeypatch):
    from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0

    def card(self):
        raise RuntimeError("out of cards")

    monkeypatch.setattr(EfficientNetLite0, "card", card)
    listed = {row["name"]: row for row in slideseek("featurizers", "--json").json}
    assert "failed in card() (RuntimeError: out of cards)" in listed["efficientnet-lite2"]["problem"]
    assert listed["densenet121"]["present"] is False
    found = {row["name"]: row for row in slideseek("doctor", "--json").json["findings"]}
    assert found["efficientnet-lite2"]["state"] == "fail" and "of slideseek" in found["efficientnet-lite2"]["detail"]


def test_presets_are_listed_with_licence_and_terms(slideseek):
    listed = {row["name"]: row for row in slideseek("featurizers", "--json").json}
    virchow = listed["timm virchow2"]
    assert virchow["options"] == {"preset": "virchow2"} and virchow["present"] is False
    assert (virchow["width"], virchow["patch_size"], virchow["licence"]) == (2560, 224, "CC-BY-NC-ND-4.0")
    assert virchow["weights"] == "huggingface.co/paige-ai/Virchow2, terms to accept"
    assert "not loadable" in listed["timm hibou-l"]["weights"]
    assert not any(name.startswith("densenet121 ") for name in listed)


def test_the_table_fits_80_columns(slideseek, monkeypatch):
    for name, value in (("COLUMNS", "80"), ("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    lines = [click.unstyle(line).rstrip() for line in slideseek("featurizers").out.splitlines()]
    table = lines[: next(at for at, line in enumerate(lines) if line.startswith("densenet121: "))]
    assert max(map(len, table)) <= 80
    assert any(line.startswith(" timm prov-gigapath ") and line.endswith(" no") for line in table), "names stay whole"
    assert any(line.startswith(" imported ") and line.endswith(" see below") for line in table)
    assert any(line.startswith("imported: ") and "needs this option" in line for line in lines)


def test_sentences_are_wrapped_on_a_terminal_only(monkeypatch, capsys):
    said, path = "the file " + "is not there " * 8, "/a/path/" + "x" * 90
    echo_wrapped(said + path, lead=click.style("fail", fg="red") + "  ")
    assert click.unstyle(capsys.readouterr().out) == f"fail  {said}{path}\n"
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    echo_wrapped(said + path, indent=" " * 6, lead=click.style("fail", fg="red") + "  ")
    first, *rest = click.unstyle(capsys.readouterr().out).splitlines()
    assert first.startswith("fail  the file is") and len(first) <= 60
    assert all(line.startswith("      ") for line in rest)
    assert rest[-1].strip() == path, "a path can be copied"
