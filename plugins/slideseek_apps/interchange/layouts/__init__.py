"""The layouts in which other tools write features: one module per tool or kind of file."""
