"""Register reports and explanations with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    here = "slideseek_apps.reports"
    register("explain", f"{here}.explain_command:command", "Show which patches made two slides match.")
    register("report", f"{here}.report_command:command", "Write queries and their hits as one HTML page.")
