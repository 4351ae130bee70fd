"""Register the doctor with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "doctor",
        "slideseek_apps.doctor.doctor_command:command",
        "Check versions, device, plugins, weights and an archive.",
    )
