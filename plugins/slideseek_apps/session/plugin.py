"""Register sessions with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "session",
        "slideseek_apps.session.session_command:command",
        "Search an archive interactively: filter, mark, explain, export.",
    )
