"""Is everything in order? Versions, device, plugins, weights, and an archive."""
