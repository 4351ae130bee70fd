"""The command counts what an archive holds."""

from slideseek_cohort.command import Group, command, count_slides

from slideseek.types import SlideRecord


def test_slides_and_patients_by_site_and_label() -> None:
    records = [
        SlideRecord("a", "a.svs", patient="p1", site="lung", label="LUAD"),
        SlideRecord("b", "b.svs", patient="p1", site="lung", label="LUAD"),
        SlideRecord("c", "c.svs", patient="p2", site="lung", label="LUAD"),
        SlideRecord("d", "d.svs", patient="p3", site="colon", label="COAD"),
        SlideRecord("e", "e.svs"),
        SlideRecord("f", "f.svs"),
    ]
    assert count_slides(records) == [
        Group("", "", slides=2, patients=2),
        Group("colon", "COAD", slides=1, patients=1),
        Group("lung", "LUAD", slides=3, patients=2),
    ]


def test_it_takes_the_options_of_other_commands() -> None:
    assert {option for parameter in command.params for option in parameter.opts} >= {"-a", "--archive", "--json"}
