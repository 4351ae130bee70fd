"""An archive on disk: the catalogue (SQLite), features (HDF5), models (safetensors), derived indexes."""
