"""Show evidence: as a table, as pictures, and as GeoJSON for QuPath."""
