"""A catalogue of one model, made from a model's folder that has a piece index.

usage: make_catalog.py FOLDER ID BASE-URL >models.json
"""
import hashlib
import json
import os
import sys

folder, name, base = sys.argv[1:]


def pinned(path, role):
    data = open(os.path.join(folder, path), 'rb').read()
    return {'path': path, 'role': role, 'sizeBytes': len(data), 'hashAlgorithm': 'sha256', 'hash': hashlib.sha256(data).hexdigest()}


files = [pinned('manifest.json', 'model-manifest'), pinned('tokenizer.json', 'tokenizer'), pinned('pieces.json', 'model-piece-index')]
print(json.dumps([{'id': name, 'name': 'A test', 'identity': 'sha256:' + files[0]['hash'], 'provider': 'doppler', 'contextLength': 512,
                   'quantization': 'q4k', 'size': 'small', 'adapters': [], 'source': {'baseUrl': base, 'files': files}}]))
