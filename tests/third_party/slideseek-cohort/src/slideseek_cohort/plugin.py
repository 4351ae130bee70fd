"""Register a command and a kind of data with slideseek; nothing heavy is imported here, so that help stays fast."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register("cohort", "slideseek_cohort.command:command", "Count slides and patients by site and label.")


@hookimpl
def register_datasets(register: Register) -> None:
    register("bag-jsonl", "slideseek_cohort.bag_lines:BagLines", "bags in one JSON-lines file: one slide per line")
