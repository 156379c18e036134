#!/usr/bin/env python3
"""Write a tiny random Llama in GGUF and its broken relatives, one file a defect. Standard library only.

usage: make_models.py FOLDER
"""
import os
import random
import struct
import sys

U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9  # key types
T_F32 = 0                                     # tensor type
HIDDEN, FFN, HEADS, LAYERS, CTX = 32, 64, 2, 2, 256
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_alphabet():
    """The 256 characters byte-level BPE writes bytes as: printable ones as themselves, others from U+0100 on."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars, extra = {}, 0
    for b in range(256):
        if b in keep:
            chars[b] = chr(b)
        else:
            chars[b] = chr(256 + extra)
            extra += 1
    return [chars[b] for b in range(256)]


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(b)) + b


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: '<I', I32: '<i', F32: '<f'}[kind], v)


def array(kind, items):
    return struct.pack('<IQ', kind, len(items)) + b''.join(value(kind, i) for i in items)


class Gguf:
    def __init__(self):
        tokens = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] + byte_alphabet() + ['he']
        self.vocab = len(tokens)
        self.keys = [
            ('general.architecture', STRING, 'llama'), ('general.alignment', U32, 32),
            ('llama.block_count', U32, LAYERS), ('llama.context_length', U32, CTX), ('llama.embedding_length', U32, HIDDEN),
            ('llama.feed_forward_length', U32, FFN), ('llama.attention.head_count', U32, HEADS),
            ('llama.attention.head_count_kv', U32, HEADS), ('llama.attention.layer_norm_rms_epsilon', F32, 1e-5),
            ('llama.rope.freq_base', F32, 10000.0),
            ('tokenizer.ggml.model', STRING, 'gpt2'), ('tokenizer.ggml.pre', STRING, 'smollm'),
            ('tokenizer.ggml.tokens', ARRAY, array(STRING, tokens)),
            ('tokenizer.ggml.token_type', ARRAY, array(I32, [3, 3, 3] + [1] * (len(tokens) - 3))),
            ('tokenizer.ggml.merges', ARRAY, array(STRING, ['h e'])),
            ('tokenizer.ggml.bos_token_id', U32, 1), ('tokenizer.ggml.eos_token_id', U32, 2),
            ('tokenizer.chat_template', STRING, CHATML),
        ]
        rng = random.Random(7)
        self.tensors = []

        def tensor(name, *dims):  # dims as GGUF writes them: innermost first
            n = 1
            for d in dims:
                n *= d
            norm = len(dims) == 1
            data = struct.pack(f'<{n}f', *[1.0 if norm else rng.gauss(0, 0.3) for _ in range(n)])
            self.tensors.append([name, list(dims), T_F32, data, None])

        tensor('token_embd.weight', HIDDEN, self.vocab)
        for i in range(LAYERS):
            tensor(f'blk.{i}.attn_norm.weight', HIDDEN)
            for w in ('attn_q', 'attn_k', 'attn_v', 'attn_output'):
                tensor(f'blk.{i}.{w}.weight', HIDDEN, HIDDEN)
            tensor(f'blk.{i}.ffn_norm.weight', HIDDEN)
            tensor(f'blk.{i}.ffn_gate.weight', HIDDEN, FFN)
            tensor(f'blk.{i}.ffn_up.weight', HIDDEN, FFN)
            tensor(f'blk.{i}.ffn_down.weight', FFN, HIDDEN)
        tensor('output_norm.weight', HIDDEN)
        tensor('output.weight', HIDDEN, self.vocab)

    def set_key(self, name, kind, v):
        self.keys = [(n, kind, v) if n == name else (n, k, x) for n, k, x in self.keys]

    def drop_keys(self, prefix):
        self.keys = [k for k in self.keys if not k[0].startswith(prefix)]

    def find(self, name):
        return next(t for t in self.tensors if t[0] == name)

    def bytes(self):
        out = b'GGUF' + struct.pack('<IQQ', 3, len(self.tensors), len(self.keys))
        for name, kind, v in self.keys:
            out += text(name) + struct.pack('<I', kind) + (v if kind == ARRAY else value(kind, v))
        offset, data = 0, b''
        for name, dims, dtype, content, fixed in self.tensors:
            out += text(name) + struct.pack(f'<I{len(dims)}QIQ', len(dims), *dims, dtype, offset if fixed is None else fixed)
            content += b'\0' * (-len(content) % 32)
            data += content
            offset += len(content)
        return out + b'\0' * (-len(out) % 32) + data


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def write(name, change=lambda g: None, cut=None):
        g = Gguf()
        change(g)
        data = g.bytes()
        with open(os.path.join(folder, name + '.gguf'), 'wb') as f:
            f.write(data[:cut(len(data))] if cut else data)

    write('tiny')
    write('no-tokenizer', lambda g: g.drop_keys('tokenizer.'))
    write('odd-tokenizer', lambda g: g.set_key('tokenizer.ggml.model', STRING, 'runes'))
    write('no-template', lambda g: g.drop_keys('tokenizer.chat_template'))
    write('odd-template', lambda g: g.set_key('tokenizer.chat_template', STRING, '{{ messages }} of no known kind'))
    write('cut-header', cut=lambda n: 700)
    write('cut-data', cut=lambda n: n - 1000)
    write('huge-dim', lambda g: g.find('output.weight')[1].__setitem__(1, 2**42 + 1))
    write('huge-product', lambda g: g.find('output.weight').__setitem__(1, [2**32, 2**32, 2**32]))
    write('past-end', lambda g: g.find('output.weight').__setitem__(4, 2**40))
    write('overlap', lambda g: g.find('output_norm.weight').__setitem__(4, 0))
    write('bad-name', lambda g: g.find('output_norm.weight').__setitem__(0, b'output_\xff\xfe.weight'))
    write('bad-key', lambda g: g.keys.append((b'llama.\xc3\x28', U32, 1)))
    write('twice', lambda g: g.find('output_norm.weight').__setitem__(0, 'output.weight'))
    write('architecture', lambda g: g.set_key('general.architecture', STRING, 'unheard-of'))
    write('tensor-type', lambda g: g.find('output.weight').__setitem__(2, 199))
    write('key-type', lambda g: g.keys.append(('llama.odd', 77, b'')) or g.keys.__setitem__(-1, ('llama.odd', ARRAY, struct.pack('<IQ', 77, 1))))
    write('missing', lambda g: g.tensors.remove(g.find('blk.1.ffn_up.weight')))
    write('shape', lambda g: g.find('blk.1.ffn_up.weight').__setitem__(1, [FFN, HIDDEN]))
    write('heads', lambda g: g.set_key('llama.attention.head_count_kv', U32, 3))
    write('long-context', lambda g: g.set_key('llama.context_length', U32, 2**24))
    write('eos', lambda g: g.set_key('tokenizer.ggml.eos_token_id', U32, 100000))
    with open(os.path.join(folder, 'long-string.gguf'), 'wb') as f:
        f.write(b'GGUF' + struct.pack('<IQQ', 3, 0, 1) + struct.pack('<Q', 2**63 - 1) + b'x' * 200)
    with open(os.path.join(folder, 'many-keys.gguf'), 'wb') as f:
        f.write(b'GGUF' + struct.pack('<IQQ', 3, 2**60, 2**60))
    with open(os.path.join(folder, 'empty.gguf'), 'wb'):
        pass
    with open(os.path.join(folder, 'text.gguf'), 'w') as f:
        f.write('this is a text file, not a model\n' * 40)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
