"""A replay: the same hits, or what has changed."""


def test_a_replay_says_what_has_changed(tiny_archive, slideseek):
    slideseek("search", "s0", "-a", tiny_archive, "-k", "2")
    first = slideseek("history", "-a", tiny_archive, "--json").json[0]["answer"]["hits"][0][0]
    assert slideseek("remove", first, "-a", tiny_archive).code == 0
    done = slideseek("replay", 1, "-a", tiny_archive)
    assert done.code == 3
    assert "NOT the same hits" in done.out and f"- {first} " in done.out
    assert f"slide '{first}', a hit at that time, is no longer in the archive" in done.out
    assert "slides: 7 in the index, were 8" in done.out and "changed: index: the codes are of generation" in done.out
    config = tiny_archive / "slideseek.toml"
    config.write_text(config.read_text().replace('{ use = "hamming" }', '{ use = "hamming", direction = "target" }'))
    done = slideseek("replay", 1, "-a", tiny_archive)
    assert 'changed: option index.direction: "target", was "query"' in done.out
