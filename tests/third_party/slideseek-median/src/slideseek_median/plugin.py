"""Register the encoder with slideseek; nothing heavy is imported here, so listing plugins stays fast."""

from slideseek.hookspecs import Register, hookimpl

slideseek_api = 1


@hookimpl
def register_encoders(register: Register) -> None:
    register("median-sign", "slideseek_median.encoder:MedianSign", "one bit per feature: above the median slide or not")
