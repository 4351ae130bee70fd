"""What follows a float code: fold it, project it, turn it into bits. Shared by `projected` and the deep encoders.

projector: the whole of it, learnt, applied and stored; start here. `options`: its options. `sketch` folds very wide
codes, `span` finds the directions in which training slides differ, `discriminant` weighs these by what separates the
classes, `validation` chooses how much, `binariser` turns coordinates into bits. `float_codes` reads codes of other
encoders and splits their inner products over patches.
"""
