"""Ranked lists on disk: what is read back, and what is refused with the number of its line."""

import pytest

from slideseek.errors import SlideseekError
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit, read_hits, write_hits

HEAD = "query_id,query_label,rank,hit_id,hit_label,distance\n"


def read(tmp_path, text):
    path = tmp_path / "hits.csv"
    path.write_text(text)
    return read_hits(path)


def test_what_is_written_is_read_back_exactly(tmp_path):
    queries = [
        QueryHits(
            "a",
            "x",
            (RankedHit("b", "x", "p2", "c1", 0.1 + 0.2), RankedHit("c", "", "p3", "", 1e300)),
            "p1",
            "c1",
            "colon",
            4,
        ),
        QueryHits("empty, with comma", "y", (), "p4"),
        QueryHits("c", "y", (RankedHit("a", "x", "p1"),)),
    ]
    write_hits(tmp_path / "hits.csv", queries)
    again = read_hits(tmp_path / "hits.csv")
    assert again[:2] == queries[:2]
    assert again[2].patient == "p3", "what one row leaves unknown is known from another"


def test_the_public_columns_are_enough(tmp_path):
    queries = read(tmp_path, "\ufeffrank,query_id,QUERY_LABEL,hit_id,hit_label\n1,a,x,b,y\n2,a,x,c,x\n,d,y,,\n")
    assert [(q.query_id, q.label, [h.slide_id for h in q.hits]) for q in queries] == [
        ("a", "x", ["b", "c"]),
        ("d", "y", []),
    ]
    assert queries[0].hits[0].distance is None
    assert queries[0].relevant is None


def test_rows_of_several_queries_may_be_mixed(tmp_path):
    queries = read(tmp_path, HEAD + "a,x,1,b,x,1\nc,x,1,b,x,5\na,x,2,d,x,1\n")
    assert [[h.slide_id for h in q.hits] for q in queries] == [["b", "d"], ["b"]]


def test_ranks_tell_the_order_whatever_that_of_the_rows(tmp_path):
    queries = read(tmp_path, HEAD + "a,x,3,b,x,3\na,x,1,c,x,1\nd,y,1,b,x,5\na,x,2,e,x,2\n")
    assert [[h.slide_id for h in q.hits] for q in queries] == [["c", "e", "b"], ["b"]]


def test_whole_numbers_may_be_written_as_decimals(tmp_path):
    """A column with empty cells is written so by common tools."""
    text = "query_id,query_label,rank,hit_id,hit_label,relevant\na,x,1.0,b,x,4.0\na,x,2.0,c,y,4.0\nd,x,,,,\n"
    first, second = read(tmp_path, text)
    assert ([h.slide_id for h in first.hits], first.relevant) == (["b", "c"], 4)
    assert second.hits == ()


def test_hits_may_be_missing_at_the_end(tmp_path):
    queries = read(tmp_path, HEAD + "a,x,1,b,x,1\na,x,2,,,\na,x,3,,,\nc,x,1,,,\n")
    assert [[h.slide_id for h in q.hits] for q in queries] == [["b"], []]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_delimiters_and_line_ends(tmp_path, delimiter, end):
    rows = [["query_id", "query_label", "rank", "hit_id", "hit_label"], ['"a, 1; 2"', '"the ""x"""', "1", "b", "y"]]
    (tmp_path / "hits.csv").write_bytes(end.join(delimiter.join(row) for row in rows).encode("utf-8-sig"))
    (query,) = read_hits(tmp_path / "hits.csv")
    assert (query.query_id, query.label, query.hits[0].slide_id) == ("a, 1; 2", 'the "x"', "b")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,x,1,b,x,1\na,x,2,,,\na,x,3,c,x,2\n", "line 3: rank 2 of query 'a' has no hit_id, later ranks have"),
        ("a,x,1,b,x,1\na,x,1,c,x,2\n", "line 3: rank 1 of query 'a' where 2 is next"),
        ("a,x,1.5,b,x,1\n", "line 2: rank 1.5 of query 'a' is not a whole number"),
        ("a,x,inf,b,x,1\n", "line 2: rank inf of query 'a' is not a whole number"),
        ("a,x,2,b,x,1\na,x,1,c,x,2\n", "line 2: distance 1 of query 'a' is below 2"),
        ("a,x,1,b,x,1\na,x,2,b,x,2\n", "line 3: query 'a' finds 'b' twice"),
        ("a,x,0,b,x,1\n", "line 2: rank 0 of query 'a' where 1 is next"),
        ("a,x,1,b,x,1\na,x,3,c,x,2\n", "line 3: rank 3 of query 'a' where 2 is next"),
        ("a,x,,b,x,1\n", "line 2: rank .empty. of query 'a'"),
        ("a,x,1,,x,1\n", "line 2: rank 1 of query 'a' has no hit_id"),
        ("a,x,1,b,x,2\na,x,2,c,x,1.5\n", "line 3: distance 1.5 of query 'a' is below 2"),
        ("a,x,1,b,x,near\n", "line 2: distance 'near' is not a finite number"),
        ("a,x,1,b,x,nan\n", "line 2: distance 'nan' is not a finite number"),
        ("a,x,1,b,x,1\nc,x,1,b,y,1\n", "line 3: hit_label of 'b' is 'y', in line 2 it is 'x'"),
        ("a,x,1,b,x,1\nb,y,1,a,x,1\n", "line 3: query_label of 'b' is 'y', in line 2 it is 'x'"),
        ("a,x,1,a,x,0\n", "line 2: query 'a' is among its own hits"),
        ("a,,1,b,x,1\n", "line 2: query 'a' has no label"),
        (",x,1,b,x,1\n", "line 2: the query has no id"),
        ("a,x,1,b,x,1\na,x,,,,\n", "line 3: query 'a' has a row without a hit"),
        ("a,x,,,,\na,x,1,b,x,1\n", "line 3: query 'a' has a row without a hit"),
        ("a,x,1,b,x\n", "line 2: 5 fields, the heading has 6"),
        ("", "no rows under the heading"),
    ],
)
def test_a_wrong_file_is_refused_by_line(tmp_path, rows, message):
    with pytest.raises(SlideseekError, match=message) as caught:
        read(tmp_path, HEAD + rows)
    assert caught.value.fix


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(
        SlideseekError, match="no column hit_label; the heading has query_id, query_label, rank, hit_id"
    ):
        read(tmp_path, "query_id,query_label,rank,hit_id\n")


@pytest.mark.parametrize(("relevant", "message"), [("some", "is not a count"), ("1", "found 2 slides with its label")])
def test_a_wrong_number_of_relevant_slides_is_refused(tmp_path, relevant, message):
    head = "query_id,query_label,rank,hit_id,hit_label,relevant\n"
    with pytest.raises(SlideseekError, match=f"line 2.*{message}"):
        read(tmp_path, head + f"a,x,1,b,x,{relevant}\na,x,2,c,x,{relevant}\n")


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "hits.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SlideseekError, match="is not a CSV file"):
        read_hits(tmp_path / "hits.csv")
