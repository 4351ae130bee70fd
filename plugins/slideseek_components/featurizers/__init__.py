"""Turn patch images into feature vectors: one implementation per file, and the few modules they share."""
