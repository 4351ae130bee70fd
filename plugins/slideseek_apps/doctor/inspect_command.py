"""`slideseek inspect`: look at one slide before it is built, or at how much of the tissue of many is represented."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli.options import json_option, mag_option, mpp_option, open_archive, stated_mpp
from slideseek.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from slideseek.archive.archive import Archive
    from slideseek.types import SlideRecord


@click.command()
@click.argument("slides", metavar="SLIDE...", type=click.Path(path_type=Path), nargs=-1)
@click.option(
    "-a",
    "--archive",
    "folder",
    type=click.Path(path_type=Path),
    help="Use the selector of this archive's engine; SLIDE may then be the id of one of its slides.",
)
@click.option("--engine", "name", help="The engine whose selector to use (default: the first one configured).")
@mpp_option
@mag_option
@click.option(
    "-o", "--picture", type=click.Path(path_type=Path), help="PNG to write [default: SLIDE.inspect.png here]."
)
@click.option("--contours", type=click.Path(path_type=Path), help="Also write the tissue's outline as GeoJSON.")
@click.option(
    "--coverage",
    is_flag=True,
    help="Only list the share of tissue in patches, of any number of slides or folders, or of the whole archive.",
)
@json_option
def command(
    slides: tuple[Path, ...],
    folder: Path | None,
    name: str | None,
    mpp: float | None,
    mag: float | None,
    picture: Path | None,
    contours: Path | None,
    coverage: bool,
    as_json: bool,
) -> None:
    """Show SLIDE's resolution and its source, its levels, tissue and patches, and draw the tissue and patches.

    Tissue in no patch that the selector chooses from is drawn in red, and so are patches out of focus. With -a, the
    resolution and the tissue outline from the archive's manifest are used.
    """
    import json

    from PIL import Image

    from slideseek.archive.files import replacing, safe_name, write_text
    from slideseek.boundary import Owner
    from slideseek.config import default_config, make_component, parse_config
    from slideseek.errors import UsageError
    from slideseek.plugins import load_registry
    from slideseek.slides.file_formats import PICTURE_SUFFIX
    from slideseek.slides.remote_path import located
    from slideseek_apps.doctor.inspection import inspect_slide
    from slideseek_apps.doctor.tissue_outline import geojson_from_mask

    slides = tuple(map(located, slides))
    if coverage:
        if picture is not None or contours is not None:
            raise UsageError("--coverage draws no picture and no outline", "omit -o and --contours")
        _coverage(slides, folder, name, stated_mpp(mpp, mag), as_json)
        return
    if len(slides) != 1:
        raise UsageError(f"{len(slides)} slides given, not one", "give one slide, or --coverage for several")
    (slide,) = slides
    record, path, outline = None, slide, None
    if folder is not None:
        with open_archive(folder) as archive:
            config = archive.config.engine(name)
            record = _known(archive, slide)
            if record is not None:
                path = archive.slide_path(record)
                outline = archive.root / record.contours if record.contours else None
    else:
        config = parse_config(default_config()).engine(name)
    registry = load_registry()
    selector = make_component(registry, config.selector, f"engine.{config.name}.selector")
    owner = Owner.of(registry, "selector", config.selector.use)
    stated = stated_mpp(mpp, mag)
    if record is not None and stated is None:
        stated = record.mpp
    found = inspect_slide(path, selector, owner, stated, record.id if record else "", outline)
    if contours is not None and found.mask is None:
        raise UsageError(
            f"selector {config.selector.use!r} does not report where it finds tissue, so no outline can be written",
            "omit --contours, or choose an --engine with another selector",
        )
    target = picture or Path(safe_name(found.facts["slide"]) + PICTURE_SUFFIX)
    with replacing(target) as temporary:
        Image.fromarray(found.picture).save(temporary, format="PNG")
    if contours is not None and found.mask is not None:
        height, width = found.mask.shape
        drawn = geojson_from_mask(found.mask, found.dimensions[0] / width, found.dimensions[1] / height)
        write_text(contours, json.dumps(drawn))
    if as_json:
        print_json({**found.facts, "picture": str(target)})
        return
    facts = found.facts
    x, y = facts["mpp"]
    at = " and ".join(f"{mpp:g}" for mpp in facts["patch_mpp"]) + " µm/px" if facts["patch_mpp"] else "any"
    rows = [
        ["format", facts["format"]],
        ["size", f"{facts['dimensions'][0]} x {facts['dimensions'][1]} px"],
        ["", f"{facts['millimetres'][0]} x {facts['millimetres'][1]} mm"],
        ["resolution", f"{x:.4g} µm/px" + ("" if x == y else f" across, {y:.4g} down")],
        ["  comes from", facts["mpp_source"]],
        ["objective", f"{facts['objective']:g}x" if facts["objective"] else "not stated"],
        ["levels", "; ".join(f"{w} x {h} (1:{d:g})" for w, h, d in facts["levels"])],
        ["tissue", _tissue(facts, config.selector.use)],
        ["  in no patch", _left_out(facts)],
        ["stain", _stain(facts, record)],
        ["artefacts", _artefacts(facts["measured"])],
        ["focus", _focus(facts["measured"])],
        ["patches", f"{facts['patches']} of {facts['patch_size']} px at {at} by selector {config.selector.use!r}"],
        ["picture", str(target)],
    ]
    print_table(("", facts["slide"]), rows)
    for note in facts["notes"]:
        say(f"note    {note}")


def _tissue(facts: dict[str, Any], selector: str) -> str:
    """Format the share of tissue, and note if it comes from an outline instead of the selector."""
    if facts["tissue_share"] is None:
        return f"not reported by selector {selector!r}"
    return f"{facts['tissue_share']:.1%} of the slide" + (", as outlined" if facts["contours"] else "")


def _stain(facts: dict[str, Any], record: SlideRecord | None) -> str:
    """Format the stain: as the manifest states it, else as the selector found it."""
    if record is not None and record.fields.get("stain"):
        return f"{record.fields['stain']}, as stated"
    return str(facts["measured"].get("stain", "unknown"))


def _artefacts(measured: dict[str, str]) -> str:
    """Format the shares of pen, folds and debris."""
    known = [f"{name} {float(measured[name]):.1%}" for name in ("pen", "folds", "debris") if name in measured]
    return ", ".join(known) or "not measured"


def _focus(measured: dict[str, str]) -> str:
    """Format how blurred the patches are."""
    if "blur_um" not in measured:
        return "not measured"
    return f"blurred by {measured['blur_um']} µm, {float(measured['blurred']):.0%} of the patches too much"


def _left_out(facts: dict[str, Any]) -> str:
    """Format the area of tissue that no patch to choose from shows."""
    if facts["represented"] is None:
        return "not measured" if facts["tissue_um2"] is None else "no tissue"
    return f"{facts['left_out_um2']:,} of {facts['tissue_um2']:,} µm² ({1 - facts['represented']:.1%})"


def _coverage(
    slides: tuple[Path, ...], folder: Path | None, name: str | None, mpp: float | None, as_json: bool
) -> None:
    """List the share of tissue represented, of files or of an archive's slides, and the least."""
    from dataclasses import asdict

    from slideseek.config import default_config, parse_config
    from slideseek.errors import UsageError
    from slideseek_apps.doctor.tissue_coverage import Coverage, coverage_of_archive, coverage_of_files

    found: list[Coverage] = []
    if folder is not None:
        with open_archive(folder) as archive:
            if unknown := [str(slide) for slide in slides if archive.catalog.slides.get(str(slide)) is None]:
                raise UsageError(f"{unknown[0]!r} is not in this archive", "give ids of its slides, or none for all")
            found = list(coverage_of_archive(archive, archive.config.engine(name), [str(slide) for slide in slides]))
    elif slides:
        found = list(coverage_of_files(slides, parse_config(default_config()).engine(name), mpp))
    else:
        raise UsageError("no slide given", "give slides or folders, or an archive with -a")
    shares = {one.slide: one.represented for one in found if one.represented is not None}
    least = min(shares, key=lambda slide: shares[slide]) if shares else None
    if as_json:
        print_json({"slides": [asdict(one) for one in found], "least": least and {least: shares[least]}})
        return
    rows = [
        [
            one.slide,
            one.problem if one.represented is None else f"{one.represented:.1%}",
            "" if one.tissue_um2 is None else f"{one.tissue_um2:,}",
            "" if one.left_out_um2 is None else f"{one.left_out_um2:,}",
            str(one.patches),
        ]
        for one in found
    ]
    print_table(("slide", "represented", "tissue, µm²", "in no patch, µm²", "patches chosen"), rows)
    if least is not None:
        click.echo(f"least: {shares[least]:.1%} ({least}), of {len(shares)} slides with tissue")


def _known(archive: Archive, slide: Path) -> SlideRecord | None:
    """Return the archive's record of a slide given by its id or its file, if there is one."""
    by_id = archive.catalog.slides.get(str(slide))
    if by_id is not None:
        return by_id.record
    wanted = slide.resolve()
    records = (row.record for row in archive.catalog.slides)
    return next((record for record in records if archive.slide_path(record).resolve() == wanted), None)
