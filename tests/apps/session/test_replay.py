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


def test_a_replay_uses_the_options_of_the_query(tiny_archive, slideseek):
    how = ("-a", tiny_archive, "-k", "3")
    slideseek("search", "s0", *how)
    slideseek("search", "s0", *how, "--set", "direction=target")
    plain, given = slideseek("history", "-a", tiny_archive, "--json").json
    assert plain["answer"]["hits"] != given["answer"]["hits"] and given["request"]["options"] == ["direction=target"]
    for number in (1, 2):
        done = slideseek("replay", number, "-a", tiny_archive)
        assert done.code == 0, done.out


def test_a_replay_says_that_a_reranker_came_or_went(tiny_archive, slideseek):
    config = tiny_archive / "slideseek.toml"
    without, line = config.read_text(), 'index      = { use = "hamming" }\n'
    config.write_text(without.replace(line, line + 'rerank     = { use = "set-cosine", depth = 3 }\n'))
    slideseek("search", "s0", "-a", tiny_archive, "-k", "2", "--set", "depth=2")
    assert slideseek("replay", 1, "-a", tiny_archive).code == 0
    config.write_text(without)
    gone = slideseek("replay", 1, "-a", tiny_archive)
    assert gone.code == 2 and "no option 'depth'" in gone.err
    slideseek("search", "s0", "-a", tiny_archive, "-k", "2")
    config.write_text(without.replace(line, line + 'rerank     = { use = "set-cosine" }\n'))
    came = slideseek("replay", 2, "-a", tiny_archive)
    assert came.code == 3 and 'changed: option reranker.use: "set-cosine", was null' in came.out
    slideseek("search", "s0", "-a", tiny_archive, "-k", "2")
    config.write_text(without)
    went = slideseek("replay", 3, "-a", tiny_archive)
    assert went.code == 3 and 'changed: option reranker.use: null, was "set-cosine"' in went.out
