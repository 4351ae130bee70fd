"""A slideseek plugin: the encoder `median-sign`."""
