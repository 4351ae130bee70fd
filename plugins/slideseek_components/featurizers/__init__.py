"""Turn patch images into feature vectors: one implementation a file, and the few modules they share."""
