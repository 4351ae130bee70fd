"""Register import and export with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.interchange"
    register("import", f"{here}.import_command:command", "Import features that another tool computed.")
    register(
        "export",
        f"{here}.export_command:command",
        "Write features, patches, codes, hits or the table of slides, under pseudonyms.",
    )
    register("collections", f"{here}.collections_command:command", "List what a catalogue of slides elsewhere has.")
