"""Weights of EfficientNet-Lite0 and -Lite2 as safetensors; `weights.json` says what they were converted from."""
