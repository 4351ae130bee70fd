"""The JSON API of the viewer: slides and their pictures, searches and explanations."""
