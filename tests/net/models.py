"""Models of a catalogue: files in pieces with known hashes, and catalogues, manifests and indexes that lie."""
import copy
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time

from hostile import Guard
from lab import BIN, FORMAT, HASH, MIB, MODEL, NOT_FOUND, OFFLINE, OK, READ, UNSUPPORTED, USAGE, WRITE, KILLS, Skip, check, same, test

ID = 'tiny-model'
PIECE = MIB


def digest(data):
    return hashlib.sha256(data).hexdigest()


def text(value):
    return (json.dumps(value, indent=2) + '\n').encode()


class Model:
    """A model at a server, and the catalogue that names it. Change its parts, then publish."""

    def __init__(self, lab):
        self.lab = lab
        self.folder = lab.path('model')
        os.mkdir(self.folder)
        rng = random.Random(7)
        self.files = {'shard_00000.bin': rng.randbytes(3 * PIECE), 'shard_00001.bin': rng.randbytes(2 * PIECE + 77),
            'tokenizer.json': b'{"model": {}}' + b' ' * 70000}
        self.manifest = {'modelId': ID, 'shards': [{'index': i, 'filename': n, 'size': len(self.files[n]), 'offset': 0}
            for i, n in enumerate(sorted(self.files)[:2])], 'tokenizer': {'file': 'tokenizer.json'}}
        self.index = {'schema': 'doppler.verified-pieces/v1', 'manifestIdentity': '', 'maxPieceBytes': PIECE, 'files': [
            {'path': n, 'size': len(data), 'pieces': [{'offset': at, 'size': len(data[at:at + PIECE]), 'identity': 'sha256:' + digest(data[at:at + PIECE])}
                for at in range(0, len(data), PIECE)]} for n, data in self.files.items()]}
        self.url = lab.server.url + '/m/'
        self.out = os.path.join(lab.store, 'models', ID)
        self.publish()

    def pin(self, name, role, data):
        return {'path': name, 'role': role, 'sizeBytes': len(data), 'hashAlgorithm': 'sha256', 'hash': digest(data)}

    def publish(self, manifest_text=None, index_text=None, identity=None, pin_index=True):
        """Write the files and the catalogue; texts given replace what the parts make."""
        self.manifest_text = manifest_text if manifest_text is not None else text(self.manifest)
        if identity is not False:
            self.index['manifestIdentity'] = identity or 'sha256:' + digest(self.manifest_text)
        self.index_text = index_text if index_text is not None else text(self.index)
        self.catalog = [{'id': ID, 'name': 'Tiny', 'identity': 'sha256:' + digest(self.manifest_text), 'provider': 'doppler', 'contextLength': 4096,
            'source': {'baseUrl': self.url, 'files': [self.pin('manifest.json', 'model-manifest', self.manifest_text),
                self.pin('tokenizer.json', 'tokenizer', self.files['tokenizer.json']), self.pin('pieces.json', 'model-piece-index', self.index_text)]}}]
        self.described = {'manifest.json': self.manifest_text, **({'pieces.json': self.index_text} if pin_index else {})}
        if not pin_index:
            self.catalog[0]['source']['files'].pop()
        for name, data in {**self.files, **self.described}.items():
            with open(os.path.join(self.folder, name), 'wb') as f:
                f.write(data)
            self.lab.server.share('/m/' + name, os.path.join(self.folder, name))
        self.write_catalog()

    def write_catalog(self, data=None):
        with open(self.lab.path('catalog.json'), 'wb') as f:
            f.write(text(self.catalog) if data is None else data)

    def fetch(self, *args, **more):
        return self.lab.fetch(ID, '--catalog', self.lab.path('catalog.json'), '--retries', 1, *args, **more)

    def start(self, *args):
        return self.lab.start(ID, '--catalog', self.lab.path('catalog.json'), *args)

    def right(self, out=None):
        out = out or self.out
        wanted = {**self.files, **self.described}
        same(sorted(os.listdir(out)), sorted(wanted), 'files')
        for name, data in wanted.items():
            with open(os.path.join(out, name), 'rb') as f:
                check(f.read() == data, f'{name} has the wrong bytes')

    def verified(self, out=None):
        """(file, piece) that are there: of complete files all, of others what the journal says."""
        found, out = set(), out or self.out
        for name in os.listdir(out) if os.path.isdir(out) else ():
            if name in self.files:
                found |= {(name, i) for i in range(-(-len(self.files[name]) // PIECE))}
            elif name.endswith('.journal') and name.split('.journal')[0].rsplit('.', 1)[0] in self.files:
                with open(os.path.join(out, name), 'rb') as f:
                    records = f.read()[64:]
                found |= {(name.split('.journal')[0].rsplit('.', 1)[0], i) for i in range(len(records) // 40) if any(records[40 * i:40 * i + 32])}
        return found

    def fetched(self):
        return {(h.path[3:], i) for h in self.lab.server.hits() if h.path[3:] in self.files and h.first is not None and not h.is_probe
            for i in range(h.first // PIECE, h.last // PIECE + 1)}


# ---- good ones ----

@test
def model_by_its_id(lab):
    m = Model(lab)
    same(m.fetch().ends(OK).out, m.out + '\n', 'standard output')
    m.right()
    lab.server.forget()
    same(m.fetch().ends(OK).out, m.out + '\n', 'standard output of a second run')
    same(m.fetch('--offline').ends(OK).out, m.out + '\n', 'standard output offline')
    same(lab.server.hits(), [], 'requests although all is there')


@test
def model_of_a_catalogue_at_an_address(lab):
    m = Model(lab)
    m.catalog[0]['source']['baseUrl'] = '/m/'
    url = lab.server.page('/catalog.json', lambda hit: (200, {}, text(m.catalog)))
    lab.fetch(ID, '--catalog', url, '-o', lab.target('model')).ends(OK)
    m.right(lab.target('model'))
    lab.fetch('absent-model', '--catalog', url).ends(NOT_FOUND, 'absent-model')


@test
def model_that_is_not_there_offline(lab):
    m = Model(lab)
    m.fetch('--offline').ends(OFFLINE)
    same(lab.server.hits(), [], 'requests')


@test
def model_killed_at_random_moments(lab):
    """Pieces of 1 MiB in several files: what is verified stays and is never fetched again."""
    m, seed = Model(lab), int(os.environ.get('SEED', time.time_ns() % 1000000))
    rng, killed = random.Random(seed), 0
    while killed < KILLS:
        for share in lab.server.shares.values():
            share.rules = [{'rate': rng.choice([1, 4, 30]) * MIB}]
        have = m.verified()
        lab.server.forget()
        p = m.start('-j', rng.choice([1, 4]))
        time.sleep(rng.random() ** 2)
        os.kill(p.pid, signal.SIGKILL)
        status = lab.end(p).status
        same(m.fetched() & have, set(), f'verified pieces that were fetched again (SEED={seed})')
        same(have - m.verified(), set(), f'verified pieces that were lost (SEED={seed})')
        killed += status == -signal.SIGKILL
        if status == OK:
            m.fetch().ends(OK)  # removes the journal that a kill after the last piece left
            m.right()
            for name in os.listdir(m.out):
                os.unlink(os.path.join(m.out, name))
    m.fetch().ends(OK)
    m.right()


@test
def model_fetched_by_three_at_once(lab):
    m = Model(lab)
    for share in lab.server.shares.values():
        share.rules = [{'rate': 4 * MIB}]
    for p in [m.start('-j', 2) for _ in range(3)]:
        lab.end(p).ends(OK)
    m.right()


@test
def model_from_a_mirror_when_the_origin_lies(lab):
    m, far = Model(lab), lab.new_server()
    for name in os.listdir(m.folder):
        far.share('/x/' + name, os.path.join(m.folder, name))
    lab.server.shares['/m/shard_00000.bin'].rules = [{'flip': True}]
    r = m.fetch('--mirror', far.url + '/x/').ends(OK)
    m.right()
    check('wrong bytes' in r.err and lab.server.url in r.err, f'the liar is not named: {r.err}')


@test
def model_with_no_honest_source(lab):
    """What is wrong is not written; what is right stays."""
    m = Model(lab)
    lab.server.shares['/m/shard_00001.bin'].rules = [{'flip': True}]
    m.fetch().ends(HASH, 'shard_00001.bin')
    check(not os.path.exists(os.path.join(m.out, 'shard_00001.bin')), 'a wrong file has its name')
    lab.server.shares['/m/shard_00001.bin'].rules = None
    m.fetch().ends(OK)
    m.right()


@test
def model_whose_pinned_files_were_changed(lab):
    for name in ('manifest.json', 'pieces.json'):
        m = Model(lab)
        lab.server.shares['/m/' + name].rules = [{'flip': True}]
        m.fetch().ends(HASH, name)
        check(not os.path.exists(os.path.join(m.out, name)), f'a wrong {name} has its name')
        os.rename(m.folder, m.folder + '-' + name)


@test
def model_from_a_folder(lab):
    """A local copy is a mirror, and nothing is asked of the network."""
    m = Model(lab)
    m.fetch('--mirror', m.folder).ends(OK)
    m.right()
    same([h.path for h in lab.server.hits() if 'shard' in h.path], [], 'shards fetched although they are here')


@test
def model_from_what_is_on_disk(lab):
    """Files of LM Studio's folder and of the Hub's cache are read, never written; a piece that differs is fetched."""
    m = Model(lab)
    seeds = {lab.path('home/.lmstudio/models/org/tiny/anything.bin'): 'shard_00000.bin',
        lab.path('home/.cache/huggingface/hub/models--org--tiny/blobs/' + digest(m.files['shard_00001.bin'])): 'shard_00001.bin'}
    for path, name in seeds.items():
        os.makedirs(os.path.dirname(path))
        data = bytearray(m.files[name])
        if name == 'shard_00000.bin':
            data[PIECE + 5] ^= 1
        with open(path, 'wb') as f:
            f.write(data)
        os.chmod(path, 0o444)
    with Guard(lab):
        m.fetch().ends(OK)
    m.right()
    same({f for f in m.fetched() if 'shard' in f[0]}, {('shard_00000.bin', 1)}, 'pieces fetched')


@test
def model_that_does_not_fit(lab):
    """--dry-run tells the figures and fetches only what describes the model."""
    m = Model(lab)
    r = m.fetch('--dry-run', '--json').ends(OK)
    plan = [e for e in map(json.loads, r.out.splitlines()) if e['type'] == 'plan'][-1]
    total = sum(map(len, m.files.values()))
    same((plan['needed'], plan['present'], plan['fetch']), (total, 0, total), 'the plan')
    check(plan['free'] > 0, 'no free space')
    same(m.fetched(), set(), 'pieces fetched')


@test
def list_and_gc(lab):
    m = Model(lab)
    args = '--list', '--json', '--catalog', lab.path('catalog.json')
    state = lambda: [e['state'] for e in map(json.loads, lab.fetch(*args).ends(OK).out.splitlines()) if e.get('id') == ID]
    same(state(), ['absent'], 'state before')
    for share in lab.server.shares.values():
        share.rules = [{'rate': 2 * MIB}]
    p = m.start('-j', 1)
    check(lab.kill_when(p, lambda: len(m.verified()) >= 1), 'the run was over first')
    lab.end(p)
    same(state(), ['partial'], 'state in between')
    lab.fetch('--gc').ends(USAGE, '-y')
    lab.fetch('--gc', '-y').ends(OK)
    same([n for n in os.listdir(m.out) if n.endswith(('.part', '.journal'))], [], 'partial files after --gc')
    m.fetch().ends(OK)
    lab.fetch('--gc', '-y').ends(OK)
    m.right()
    same(state(), ['present'], 'state after')


# ---- without an index, and with pieces that are too long for memory ----

VERIFY = os.path.join(BIN, 'reploid-verify')
LONG = 20 * MIB + 5


def blake3(path):
    if not os.access(VERIFY, os.X_OK):
        raise Skip('reploid-verify is not built')
    return subprocess.run([VERIFY, '--print', '--blake3', path], capture_output=True, text=True, check=True).stdout.split()[0]


def without_index(m, algorithm):
    """The shards by the hashes of the manifest."""
    m.manifest['hashAlgorithm'] = algorithm
    for shard in m.manifest['shards']:
        path = os.path.join(m.folder, shard['filename'])
        with open(path, 'wb') as f:
            f.write(m.files[shard['filename']])
        shard['hash'] = digest(m.files[shard['filename']]) if algorithm == 'sha256' else blake3(path)
        shard['size'] = len(m.files[shard['filename']])
    m.publish(pin_index=False)


def checks(r):
    return {os.path.basename(e['path']): e['check'] for e in map(json.loads, r.out.splitlines()) if e['type'] == 'file'}


@test
def model_without_an_index(lab):
    for algorithm in ('sha256', 'blake3'):
        m = Model(lab)
        m.files['shard_00000.bin'] = random.Random(3).randbytes(9 * MIB + 1)
        without_index(m, algorithm)
        out = lab.target(algorithm)
        listed = lambda: [e['state'] for e in map(json.loads, lab.fetch('--list', '--json', '--catalog', lab.path('catalog.json')).ends(OK).out.splitlines())]
        same(listed(), ['absent'], 'state before')
        same(checks(m.fetch('--json').ends(OK)), {'manifest.json': 'sha256', 'tokenizer.json': 'sha256', 'shard_00000.bin': algorithm,
            'shard_00001.bin': algorithm}, 'checks')
        m.right()
        same(listed(), ['present'], 'state after')
        lab.server.forget()
        same(m.fetch('--offline').ends(OK).out, m.out + '\n', 'standard output offline')
        same(lab.server.hits(), [], 'requests although all is there')
        m.fetch('--offline', '--mirror', m.folder, '-o', out).ends(OK)
        m.right(out)
        shutil.rmtree(m.folder)
        shutil.rmtree(lab.store)


@test
def model_without_an_index_and_a_liar(lab):
    """Wrong bytes never get the name; from an honest mirror the file comes right in the same run."""
    m, far = Model(lab), lab.new_server()
    m.files['shard_00000.bin'] = random.Random(3).randbytes(9 * MIB + 1)
    without_index(m, 'blake3')
    lab.server.shares['/m/shard_00000.bin'].rules = [{'flip': True}]
    m.fetch().ends(HASH, 'shard_00000.bin')
    check(not os.path.exists(os.path.join(m.out, 'shard_00000.bin')), 'a wrong file has its name')
    for name in os.listdir(m.folder):
        far.share('/x/' + name, os.path.join(m.folder, name))
    m.fetch('--mirror', far.url + '/x/').ends(OK)
    m.right()


@test
def model_without_an_index_from_damaged_files(lab):
    """A local copy under the same name is taken where its hash is right, and fetched where not."""
    m = Model(lab)
    without_index(m, 'blake3')
    copy = lab.path('copy')
    shutil.copytree(m.folder, copy)
    with open(os.path.join(copy, 'shard_00001.bin'), 'r+b') as f:
        f.write(b'XXXX')
    m.fetch('--mirror', copy).ends(OK)
    m.right()
    same({h.path for h in lab.server.hits() if 'shard' in h.path}, {'/m/shard_00001.bin'}, 'shards fetched')


def with_long_pieces(m):
    data = random.Random(5).randbytes(2 * LONG + 77)
    m.files['shard_00000.bin'] = data
    m.manifest['shards'][0]['size'] = len(data)
    m.index['maxPieceBytes'] = LONG
    m.index['files'][0] = {'path': 'shard_00000.bin', 'size': len(data), 'pieces': [{'offset': at, 'size': len(data[at:at + LONG]),
        'identity': 'sha256:' + digest(data[at:at + LONG])} for at in range(0, len(data), LONG)]}
    m.publish()


@test
def model_with_long_pieces(lab):
    """They come in pieces of 4 MiB; a kill loses no more than those on their way."""
    m = Model(lab)
    with_long_pieces(m)
    share = lab.server.shares['/m/shard_00000.bin']
    share.rules = [{'rate': 12 * MIB}]
    p = m.start('-j', 2)

    def recorded():
        return {i for n in (os.listdir(m.out) if os.path.isdir(m.out) else ()) if n.startswith('shard_00000') and n.endswith('.journal')
            for records in [open(os.path.join(m.out, n), 'rb').read()[64:]] for i in range(len(records) // 40) if any(records[40 * i:40 * i + 32])}

    check(lab.kill_when(p, lambda: len(recorded()) >= 3), 'the run was over first')
    lab.end(p)
    have = recorded()
    share.rules = None
    lab.server.forget()
    same(checks(m.fetch('--json').ends(OK))['shard_00000.bin'], 'sha256', 'check')
    m.right()
    same(lab.fetched(lab.server.hits('/m/shard_00000.bin')) & have, set(), 'pieces that were there and were fetched again')
    m.fetch('--offline', '--mirror', m.folder, '-o', lab.target('copy')).ends(OK)
    m.right(lab.target('copy'))


@test
def model_with_a_wrong_long_piece(lab):
    """Only the piece that is wrong comes again."""
    m, first = Model(lab), [True]
    with_long_pieces(m)

    def rule(hit):
        wrong = first[0] and hit.first <= LONG + 5 * MIB <= (hit.last or 0)
        first[0] &= not wrong
        return {'flip': True} if wrong else {}

    lab.server.shares['/m/shard_00000.bin'].rules = rule
    r = m.fetch('-j', 1).ends(OK)
    m.right()
    check('fetched again' in r.err, f'it is not said: {r.err}')
    sent = lab.server.sent('/m/shard_00000.bin')
    size = len(m.files['shard_00000.bin'])
    check(size + LONG - 8 * MIB <= sent <= size + LONG + 9 * MIB, f'{sent} bytes were sent for a file of {size} with one wrong piece of {LONG}')


@test
def hostile_manifests_without_an_index(lab):
    m = Model(lab)
    without_index(m, 'sha256')
    good = m.manifest
    cases = [(['shards', 0, 'filename'], 'filename', NAMES + ['shard_00001.bin', 'manifest.json', 'tokenizer.json']), (['shards', 0, 'size'], 'size', SIZES),
        (['shards', 0, 'hash'], 'hash', HASHES + [...]), (['hashAlgorithm'], 'hashAlgorithm', ['md5', ..., 5]), (['shards'], 'shards', [..., {}, 5])]
    for path, field, values in cases:
        for value in values:
            m.publish(manifest_text=text(put(good, path, value)), pin_index=False)
            refused(lab, m, field, f'{path} = {value!r}', (FORMAT, MODEL, UNSUPPORTED))


# ---- bad catalogues ----

def put(value, path, new):
    """A copy in which the member at the path (names and numbers) is another, or (Ellipsis) gone."""
    value = copy.deepcopy(value)
    at = value
    for step in path[:-1]:
        at = at[step]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


NAMES = ['', '.', '..', '../x', '/etc/x', 'a/b', 'a\\b', '.hidden', 'a\0b', 'a\nb', 'x' * 300, '%2e%2e', 'a b', 'ä', '\x1b[31m', 5, None, ['x']]
SIZES = [0, -1, 2 ** 53, 2 ** 63, 2 ** 64, 1e300, 1.5, '12', None, True, [1]]
HASHES = ['', 'x', 'g' * 64, 'A' * 63, 'sha256:' + 'a' * 64, 5, None]
URLS = ['http://192.0.2.1/x/', 'file:///etc/', 'ftp://127.0.0.1/', 'https://user:secret@127.0.0.1/', 'javascript:alert(1)', 'https://', '\0', 5]


def refused(lab, m, field, what, codes=(FORMAT,)):
    """The fetch fails with one of the codes, names the field (or the place of a NUL), and writes nothing outside of the store."""
    field = 'NUL' if '\\x00' in what else field
    with Guard(lab):
        r = m.fetch()
    check(r.status in codes and field in r.err, f'{what} ended with {r.status}, and {field!r} is not in: {r.err[-600:]}' if r.status else f'{what} was taken')
    check('\x1b' not in r.err, f'{what}: {r.err!r}')
    check('Sanitizer' not in r.err, r.err)
    same([n for n in os.listdir(m.out) if n not in ('manifest.json', 'pieces.json')] if os.path.isdir(m.out) else [], [], f'files after {what}')


@test
def hostile_catalogues(lab):
    m = Model(lab)
    good = m.catalog
    pinned = [0, 'source', 'files', 0]
    cases = [(pinned + ['path'], 'path', NAMES), (pinned + ['sizeBytes'], 'sizeBytes', SIZES), (pinned + ['hash'], 'hash', HASHES),
        (pinned + ['url'], 'url', URLS), ([0, 'source', 'baseUrl'], 'baseUrl', URLS + ['https://127.0.0.1/no-slash']),
        ([0, 'identity'], 'identity', HASHES), ([0, 'contextLength'], 'contextLength', SIZES), ([0, 'provider'], 'provider', ['x', ..., 5]),
        ([0, 'name'], 'name', [..., 5]), ([0, 'source', 'files'], 'files', [..., {}, 'x', []][:3]), (pinned + ['hashAlgorithm'], 'hashAlgorithm', ['md5', ...]),
        ([0, 'source', 'files', 1, 'path'], 'path', ['manifest.json'])]
    for path, field, values in cases:
        for value in values:
            m.catalog = put(good, path, value)
            m.write_catalog()
            refused(lab, m, field, f'{path} = {value!r}')
    same(lab.server.hits(), [], 'requests made for a bad catalogue')


@test
def hostile_ids(lab):
    """An id that the catalogue gives never becomes a path by itself, and none given here does."""
    m = Model(lab)
    good = m.catalog
    for name in NAMES:
        m.catalog = good + [dict(good[0], id=name)]
        m.write_catalog()
        refused(lab, m, 'id', f'an id {name!r}')
        if isinstance(name, str) and '\0' not in name and name not in ('.', '..'):  # these are folders here
            with Guard(lab):
                r = lab.fetch(name, '--catalog', lab.path('catalog.json'))
            check(r.status != OK, f'{name!r} was taken')
    m.catalog = good + good
    m.write_catalog()
    refused(lab, m, 'twice', 'an id that is there twice')


@test
def catalogues_that_are_no_json(lab):
    m = Model(lab)
    good = text(m.catalog)
    for what, data in (('nothing', b''), ('no array', b'{}'), ('a number', b'1'), ('half', good[:len(good) // 2]), ('a tail', good + b'x'),
        ('a NUL', good[:50] + b'\0' + good[50:]), ('Latin-1', good.replace(b'Tiny', b'T\xfcny')), ('depth', b'[' * 100000), ('a BOM', b'\xef\xbb\xbf' + good),
        ('a lone surrogate', good.replace(b'Tiny', b'\\ud800')), ('a member twice', good.replace(b'"name":', b'"name": "x", "name":', 1)),
        ('a pin twice', good.replace(b'"hash":', b'"hash": "' + b'a' * 64 + b'", "hash":', 1))):
        m.write_catalog(data)
        with Guard(lab):
            r = m.fetch()
        if what == 'a BOM' and r.status == OK:
            continue
        check(r.status == FORMAT and 'catalog.json' in r.err, f'{what} ended with {r.status}: {r.err[-600:]}')
        check(not os.path.isdir(m.out), f'files after {what}')


# ---- bad manifests and indexes: pinned, so that only their reader stands between them and the disk ----

@test
def hostile_indexes(lab):
    m = Model(lab)
    good = m.index
    piece = ['files', 0, 'pieces', 1]
    cases = [(['files', 0, 'path'], 'path', NAMES + ['shard_00001.bin']), (['files', 0, 'size'], 'size', SIZES + [5]),
        (piece + ['offset'], 'offset', [0, PIECE - 1, PIECE + 1, *SIZES[1:]]), (piece + ['size'], 'size', SIZES + [PIECE + 1]),
        (piece + ['identity'], 'identity', HASHES[:4] + HASHES[5:] + ['sha256:' + 'A' * 64, 'md5:' + 'a' * 64]), (['maxPieceBytes'], '', SIZES + [PIECE - 1]),
        (['schema'], 'schema', ['x', ..., 5]), (['files'], 'files', [..., {}, 5]), (['files', 0, 'pieces'], 'pieces', [..., {}, 5]),
        (['files', 0, 'pieces'], 'size', [[]]), (['manifestIdentity'], 'manifestIdentity', HASHES)]
    for path, field, values in cases:
        for value in values:
            bad = put(good, path, value)
            m.publish(index_text=text(bad))
            refused(lab, m, field, f'{path} = {value!r}', (FORMAT, MODEL, HASH, UNSUPPORTED))
    m.index = good
    m.publish(identity='sha256:' + 'a' * 64)
    refused(lab, m, 'manifestIdentity', "another manifest's index", (HASH,))
    m.index['files'] = m.index['files'][1:]
    m.publish()
    refused(lab, m, 'filename', 'a shard without pieces', (FORMAT, MODEL))


@test
def index_with_a_member_twice(lab):
    m = Model(lab)
    bad = m.index_text.replace(b'"size":', b'"size": 1, "size":', 1)
    m.publish(index_text=bad)
    refused(lab, m, 'size', 'a member twice')


@test
def hostile_manifests(lab):
    m = Model(lab)
    good = m.manifest
    cases = [(['modelId'], 'modelId', ['other', ..., 5, '../x']), (['shards', 0, 'filename'], 'filename', NAMES), (['shards', 0, 'size'], 'size', SIZES + [5]),
        (['shards'], 'shards', [..., {}, 5]), (['tokenizer', 'file'], 'tokenizer', ['../x', '/etc/passwd', 'absent.json'])]
    for path, field, values in cases:
        for value in values:
            m.publish(manifest_text=text(put(good, path, value)))
            refused(lab, m, field, f'{path} = {value!r}', (FORMAT, MODEL, UNSUPPORTED))
    m.publish(manifest_text=text(good).replace(b'"modelId":', b'"modelId": "x", "modelId":', 1))
    refused(lab, m, 'modelId', 'a member twice')


@test
def links_in_a_model(lab):
    """A shard's name, partial file or journal that is a link leads nowhere."""
    m = Model(lab)
    with open(lab.path('victim'), 'w') as f:
        f.write('precious')
    for share in lab.server.shares.values():
        share.rules = [{'rate': MIB}]
    p = m.start('-j', 1)
    check(lab.kill_when(p, lambda: len(m.verified()) >= 1), 'the run was over first')
    lab.end(p)
    names = [n for n in os.listdir(m.out) if n.endswith(('.part', '.journal'))]
    for name in names:
        path = os.path.join(m.out, name)
        os.rename(path, lab.path('kept'))
        os.symlink(lab.path('victim'), path)
        with Guard(lab):
            m.fetch().ends(WRITE)
        os.replace(lab.path('kept'), path)
    for share in lab.server.shares.values():
        share.rules = None
    os.symlink(lab.path('victim'), os.path.join(m.out, 'shard_00001.bin'))
    with Guard(lab):
        r = m.fetch()
    check(r.status in (OK, READ, WRITE), f'ended with {r.status}')
    if r.status == OK:
        m.right()
