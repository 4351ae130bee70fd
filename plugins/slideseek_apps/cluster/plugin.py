"""Register the executors of clusters with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_executors(register: Register) -> None:
    here = "slideseek_apps.cluster.dask_executor:Dask"
    register("dask", here, "the workers of a Dask scheduler, or of jobs on Slurm, PBS or LSF")
