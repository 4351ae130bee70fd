"""`slideseek search --queries`: many searches, one line of JSON per query."""

import json

import pytest


def lines(done):
    return [json.loads(line) for line in done.out.splitlines()]


def test_each_line_is_a_query_and_gets_one_line(tiny_archive, tiny_slides, slideseek, tmp_path):
    file = tmp_path / "queries.txt"
    region = {"text": "s1", "region": "0,0,256,256", "k": 2}
    file.write_text(f"# a comment\ns0\n\n{json.dumps(region)}\n{tiny_slides / 's2.png'}\n", encoding="utf-8")
    done = slideseek("search", "--queries", file, "-k", "3", "-a", tiny_archive)
    assert done.code == 0, done.err
    first, second, third = lines(done)
    alone = slideseek("search", "s0", "-k", "3", "-a", tiny_archive, "--json").json
    first.pop("milliseconds"), alone.pop("milliseconds")
    assert first == alone
    assert second["query"]["id"] == "s1" and len(second["hits"]) == 2
    assert third["query"]["id"] == "s2" and len(third["hits"]) == 3


def test_a_query_that_fails_does_not_stop_the_others(tiny_archive, slideseek, tmp_path):
    file = tmp_path / "queries.txt"
    file.write_text("s99\ns1\n", encoding="utf-8")
    done = slideseek("search", "--queries", file, "-a", tiny_archive)
    assert done.code == 3
    wrong, right = lines(done)
    assert wrong["query"] == {"text": "s99"} and "neither a slide of this archive" in wrong["error"]["cause"]
    assert "s9" not in wrong["error"]["fix"] and wrong["error"]["fix"] and right["hits"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no queries"),
        ("# only a comment\n", "has no queries"),
        ("s0\n{", "line 2: not valid JSON"),
        ('{"k": 3}', "line 1: the query has no 'text'"),
        ('{"text": "s0", "kk": 3}', "line 1: a query has no field 'kk'"),
        ('{"text": "s0", "k": "3"}', 'line 1: k is "3"'),
        ('{"text": "s0", "k": 0}', "line 1: k must be a whole number of at least 1"),
        ('{"text": "s0", "where": "site=lung"}', 'line 1: where is "site=lung"'),
        ('{"text": "s0", "mpp": -1}', "line 1: mpp is -1"),
        ('{"text": 5}', "line 1: text is 5"),
    ],
)
def test_a_wrong_line_is_named_before_any_search(tiny_archive, slideseek, tmp_path, text, said):
    file = tmp_path / "queries.txt"
    file.write_text(text, encoding="utf-8")
    done = slideseek("search", "--queries", file, "-a", tiny_archive)
    assert done.code == 2 and said in done.err and not done.out


def test_options_that_do_not_go_together(tiny_archive, slideseek, tmp_path):
    assert "nothing to search for" in slideseek("search", "-a", tiny_archive).err
    file = tmp_path / "queries.txt"
    file.write_text("s0\n")
    both = slideseek("search", "s0", "--queries", file, "-a", tiny_archive)
    assert both.code == 2 and "cannot be used together" in both.err
    for option in ("--csv", "--evidence=2", "--calibrate"):
        done = slideseek("search", "--queries", file, option, "-a", tiny_archive)
        assert done.code == 2 and "one JSON object per line" in done.err
    assert "cannot read the queries" in slideseek("search", "--queries", tmp_path / "no", "-a", tiny_archive).err
