"""Register the viewer with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "serve",
        "slideseek_apps.viewer.serve_command:command",
        "Browse and search an archive in the browser, on this machine only.",
    )
