"""Is everything in order? Findings about the machine, the plugins and an archive, each with its fix."""

from slideseek_apps.doctor.examine import examine
from slideseek_apps.doctor.finding import Finding

__all__ = ["Finding", "examine"]
