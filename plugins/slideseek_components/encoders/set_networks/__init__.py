"""Small networks over sets of patches, trained to classify slides; the code of a slide is their last hidden layer.

encoder: what the four encoders share; `fit` and `encode` start here. The four themselves are next to this package:
`deep_sets`, `attention_mil`, `memory_set`, `focal_attention`. network: what such a network is. pooling: weighted means
over patches, of a batch of slides in training and of one slide of any size in encoding. classes: what is classified.
trainer: the loop over epochs.
"""
