"""Register the doctor, and its looks at one slide and at the featurizers, with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.doctor"
    register("doctor", f"{here}.doctor_command:command", "Check versions, device, plugins, weights and an archive.")
    register("verify", f"{here}.verify_command:command", "Check that everything stored in an archive is undamaged.")
    register("repair", f"{here}.repair_command:command", "Repair what is damaged in an archive, or compute it again.")
    register("backup", f"{here}.backup_command:command", "Copy an archive, also while it is written to.")
    register("compact", f"{here}.compact_command:command", "Give back space; leave no trace of removed slides.")
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
    register(
        "audit", f"{here}.audit_command:command", "Check the log of searches and exports: nothing changed or removed?"
    )
    register("featurizers", f"{here}.featurizers_command:command", "List feature networks, their licences and weights.")
