"""Register the command for authors of plugins with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    target = "slideseek_apps.testing.plugins_command:command"
    register("plugins", target, "List, show, check and create plugins.")
