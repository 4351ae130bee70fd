"""Register the benchmark with slideseek."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_commands(register: Register) -> None:
    register(
        "bench",
        "slideseek_apps.bench.commands:command",
        "Compare engines: run a grid, score ranked lists, write the report.",
    )


@hookimpl
def register_datasets(register: Register) -> None:
    here = "slideseek_apps.bench.datasets"
    register("archive", f"{here}.from_archive:ArchiveData", "an archive of slideseek with features already built")
    register("features", f"{here}.feature_folder:FeatureFolder", "a manifest CSV and a TRIDENT or CLAM feature folder")
    register("tcga", f"{here}.tcga:Tcga", "TCGA slides from the GDC, by their file names, with a table of diagnoses")
    register("lks", f"{here}.lks:Lks", "the Liver-Kidney-Stomach immunofluorescence set, in its own folder layout")
    register("bags", f"{here}.bag_arrays:BagArrays", "bags in one .npz file: x, bag and labels")
    register("bag-csv", f"{here}.bag_csv:BagCsv", "multiple-instance bags in one CSV: bag, label, features")
