"""Register sessions and the log of queries with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.session"
    register(
        "session",
        f"{here}.session_command:command",
        "Search an archive interactively: filter, mark, explain, export.",
    )
    register("history", f"{here}.history_command:command", "List the past queries of an archive.")
    register(
        "completion", f"{here}.shell_completion_command:command", "Print the script that completes commands in a shell."
    )
    register("queries", f"{here}.queries_command:command", "Run many searches of a file, one line of JSON each.")
    register("replay", f"{here}.replay_command:command", "Run a past query again and compare the hits.")
