"""Register the demo with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "demo", "slideseek_apps.demo.demo_command:command", "Generate slides, build an archive of them and search it."
    )
