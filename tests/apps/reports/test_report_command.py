"""Reports of logged and new queries: hits as they were, evidence while it holds, one file without references."""

import re


def test_reports_of_the_log_and_of_a_query(tiny_archive, tiny_slides, tmp_path, slideseek):
    page = tmp_path / "page.html"
    nothing = slideseek("report", "-a", tiny_archive, "-o", page)
    assert nothing.code == 2 and "--query" in nothing.err and not page.exists()
    hits = slideseek("search", "s0", "-a", tiny_archive, "-k", "3", "--where", "age<57", "--json").json["hits"]
    slideseek("search", "s1", "-a", tiny_archive, "-k", "2", "--engine", "mean")
    slideseek(
        "search", tiny_slides / "s3.png", "--region", "60,60,200,200", "-a", tiny_archive, "-k", "1", "--mpp", "1"
    )
    done = slideseek("report", 1, 2, 3, "-a", tiny_archive, "-o", page, "--title", "Three <queries>", "--identified")
    assert done.code == 0, done.err
    text = page.read_text()
    assert "wrote 3 queries" in done.out and "Three &lt;queries&gt;" in text
    assert all(hit["slide"]["id"] in text for hit in hits) and "k = 3, age&lt;57" in text
    assert text.count("Nearest pairs: query patch, hit patch") == 4 and text.count("largest contributions") == 4
    assert "confidence 1.00" in text and text.count('class="heat"') > 10
    assert not re.search(r'(src|href)="(?!data:|#)', text) and "<script" not in text

    slideseek(
        "report",
        "--identified",
        "-a",
        tiny_archive,
        "--query",
        "s5",
        "-k",
        "2",
        "--vertical",
        "--without-evidence",
        "-o",
        page,
    )
    fresh = page.read_text()
    assert "Slides like s5" in fresh and "Nearest pairs" not in fresh and "within the site" in fresh
    both = slideseek("report", 1, "--query", "s1", "-a", tiny_archive)
    assert both.code == 2 and "exclude each other" in both.err


def test_what_has_changed_since_is_said_and_the_old_hits_are_shown(tiny_archive, tmp_path, slideseek):
    hits = slideseek("search", "s0", "-a", tiny_archive, "-k", "2", "--json").json["hits"]
    gone = hits[0]["slide"]["id"]
    slideseek("remove", gone, "-a", tiny_archive)
    done = slideseek("report", "--identified", "-a", tiny_archive, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert done.code == 0 and "the query now has other hits" in done.err
    assert gone in text and "No picture" in text and "Nearest pairs" not in text
