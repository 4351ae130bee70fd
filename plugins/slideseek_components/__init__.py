"""The components bundled with slideseek, registered like any third-party plugin."""
