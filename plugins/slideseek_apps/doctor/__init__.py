"""Is everything in order? Versions, device, plugins, featurizers and their weights, an archive, and one slide."""
