"""Deep Fisher vectors: one conditioned variational autoencoder, its training and the codes read from its gradients.

encoder: what the four encoders share; `fit` and `encode` start here. The four themselves are next to this package:
`deep_fv` (float codes), `deep_bfv` (the sign of the gradient, so the binary codes), `deep_sfv` and `deep_sbfv`.
settings: options, resolved from presets.

Coding: `network` (the autoencoder and its inputs), `patch_gradients` (Eq. 15 in closed form, whole or some entries),
`entry_sums` (its compiled loop), `slide_gradients` (means over slides, many slides per pass, on several threads),
`kept_entries` (which entries, or bits, a code keeps), `coder` (a trained model on its device: slides to the values of
codes), `contribution` (a similarity split over patches), `device` (where the network runs, with reproducible bits).

Training: `training_set` (one pass over the slides), `stream` (batches of patches), `loss` (Eq. 7, 8 and 14), `trainer`
(the loop over epochs), `checkpoint` (a killed run continues), `model` (what was learnt, in memory and on disk).
"""
