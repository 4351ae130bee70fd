"""Register the doctor, and its looks at one slide and at the featurizers, with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.doctor"
    register("doctor", f"{here}.doctor_command:command", "Check versions, device, plugins, weights and an archive.")
    register(
        "inspect", f"{here}.inspect_command:command", "Look at one slide: resolution, levels, tissue, patches, picture."
    )
    register(
        "acknowledge",
        f"{here}.acknowledge_command:command",
        "Accept known failures: builds then exit with 0 and do not try them again.",
    )
    register(
        "duplicates",
        f"{here}.duplicates_command:command",
        "Find copies and rescans: slides that show the same tissue, also of two patients.",
    )
    register("featurizers", f"{here}.featurizers_command:command", "List feature networks, their licences and weights.")
