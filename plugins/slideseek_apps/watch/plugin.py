"""Register the watch of a folder with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "watch", "slideseek_apps.watch.watch_command:command", "Take in the slides of a folder as they come, and build."
    )
