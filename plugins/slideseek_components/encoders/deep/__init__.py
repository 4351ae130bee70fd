"""Deep Fisher vectors: one conditioned variational autoencoder, its training and the codes read from its gradients."""
