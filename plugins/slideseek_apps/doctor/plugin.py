"""Register the doctor, and its looks at one slide and at the featurizers, with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.doctor"
    register("doctor", f"{here}.doctor_command:command", "Check versions, device, plugins, weights and an archive.")
    register(
        "inspect", f"{here}.inspect_command:command", "Look at one slide: resolution, levels, tissue, patches, picture."
    )
    register("featurizers", f"{here}.featurizers_command:command", "List feature networks, their licences and weights.")
