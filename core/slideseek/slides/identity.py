import hashlib
def fingerprint(path):
    return "sha256:"+hashlib.sha256(path.read_bytes()).hexdigest()
