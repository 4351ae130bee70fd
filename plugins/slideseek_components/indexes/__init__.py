"""Indexes: find the nearest codes, exactly or with a measured recall."""
