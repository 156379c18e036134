"""The Hugging Face Hub's ways: lists, commits, redirects to a CDN that carry a hash, tokens."""
import hashlib
import json
import os
import random
import subprocess

from hostile import Guard
from http_cases import known
from lab import AUTH, FORMAT, HASH, MIB, NETWORK, NOT_FOUND, OFFLINE, OK, PIECE, USAGE, check, same, sha256, test

COMMIT = '0123456789abcdef0123456789abcdef01234567'


def blob_id(data):
    """What git calls a file of these bytes."""
    return hashlib.sha1(b'blob %d\0' % len(data) + data).hexdigest()


class Hub:
    """A server that answers as the Hub does, for one repository: its list of files, and large files at another host."""

    def __init__(self, lab, repo, files, token=None):
        self.lab, self.repo, self.token, self.files = lab, repo, token, files
        self.cdn = lab.new_server()
        self.damage = {}  # other bytes than those of a small file
        self.siblings = [self.entry(name, path) for name, path in files.items()]
        self.env = {'HF_ENDPOINT': lab.server.url}
        lab.server.page(f'/api/models/{repo}/revision/main', self.list)
        lab.server.page(f'/api/models/{repo}/revision/v1.0', self.list)
        for name, path in files.items():
            self.cdn.share('/' + name, path)
            for revision in ('main', 'v1.0', COMMIT):
                lab.server.page(f'/{repo}/resolve/{revision}/{name}', lambda hit, name=name, path=path: self.resolve(hit, name, path))

    @staticmethod
    def entry(name, path):
        size = os.path.getsize(path)
        large = {'lfs': {'sha256': sha256(path), 'size': size, 'pointerSize': 134}} if size > 100000 else {}
        with open(path, 'rb') as f:
            return {'rfilename': name, 'size': size, 'blobId': 'a' * 40 if large else blob_id(f.read()), **large}

    def refusal(self, hit):
        if self.token and hit.headers.get('authorization') != f'Bearer {self.token}':
            return 401, {'X-Error-Code': 'GatedRepo', 'X-Error-Message': 'Access to this model is restricted.'}, b''

    def list(self, hit):
        return self.refusal(hit) or (200, {'Content-Type': 'application/json'},
            json.dumps({'id': self.repo, 'sha': COMMIT, 'siblings': self.siblings}).encode())

    def resolve(self, hit, name, path):
        if refusal := self.refusal(hit):
            return refusal
        if os.path.getsize(path) > 100000:
            return 302, {'Location': f'{self.cdn.url}/{name}?signature={hit.n}', 'X-Repo-Commit': COMMIT, 'X-Linked-Size': os.path.getsize(path),
                'X-Linked-Etag': f'"{sha256(path)}"', 'ETag': f'"{sha256(path)}"', 'Accept-Ranges': 'bytes'}, b''
        with open(path, 'rb') as f:
            data = f.read()
        return 200, {'X-Repo-Commit': COMMIT, 'ETag': '"' + blob_id(data) + '"'}, self.damage.get(name, data)

    def fetch(self, source, *args, **more):
        return self.lab.fetch(source, *args, env={**self.env, **more})


def repository(lab, token=None):
    for name, data in (('config.json', b'{}\n'), ('readme', b'# Tiny\n')):
        with open(lab.path(name), 'wb') as f:
            f.write(data)
    return Hub(lab, 'org/Tiny-GGUF', {'tiny.Q4_K.gguf': lab.data.medium, 'tiny.Q8_0.gguf': lab.data.small, 'config.json': lab.path('config.json'),
        'sub/dir/readme.md': lab.path('readme'), '.gitattributes': lab.path('readme')}, token)


def files_of(folder):
    return sorted(os.path.relpath(os.path.join(at, n), folder) for at, _, names in os.walk(folder) for n in names)


@test
def hub_one_file(lab):
    hub = repository(lab)
    r = hub.fetch('hf:org/Tiny-GGUF/tiny.Q4_K.gguf').ends(OK)
    check(r.out.endswith('/tiny.Q4_K.gguf\n') and r.out.startswith(lab.store), f'path: {r.out}')
    lab.right(lab.data.medium, r.out.rstrip('\n'))
    hub.fetch('hf:org/Tiny-GGUF@v1.0/config.json', '-o', lab.target()).ends(OK)
    lab.right(lab.path('config.json'))


@test
def hub_whole_repository(lab):
    hub = repository(lab)
    r = hub.fetch('hf:org/Tiny-GGUF').ends(OK)
    folder = r.out.rstrip('\n')
    same(files_of(folder), sorted(hub.files), 'files')
    for name, path in hub.files.items():
        same(sha256(os.path.join(folder, name)), sha256(path), name)
    resolved = {h.path.split('/')[4] for h in lab.server.hits() if '/resolve/' in h.path}
    same(resolved, {COMMIT}, 'revisions (the list pins a commit)')
    sent = hub.cdn.sent()
    hub.fetch('hf:org/Tiny-GGUF').ends(OK)
    check(hub.cdn.sent() - sent < 1000, 'large files were fetched again')


@test
def hub_some_of_a_repository(lab):
    hub = repository(lab)
    hub.fetch('hf:org/Tiny-GGUF/*.Q8_0.gguf', '-o', lab.target('some')).ends(OK)
    same(files_of(lab.target('some')), ['tiny.Q8_0.gguf'], 'files')
    hub.fetch('hf:org/Tiny-GGUF/*.none', '-o', lab.target('none')).ends(NOT_FOUND)


@test
def hub_token_stays_there(lab):
    hub = repository(lab, 'hf_secret')
    hub.fetch('hf:org/Tiny-GGUF/tiny.Q4_K.gguf', '-o', lab.target()).ends(AUTH)
    hub.fetch('hf:org/Tiny-GGUF').ends(AUTH)
    same(hub.cdn.hits(), [], 'requests of the CDN')
    r = hub.fetch('hf:org/Tiny-GGUF/tiny.Q4_K.gguf', '-o', lab.target(), HF_TOKEN='hf_secret').ends(OK)
    lab.right(lab.data.medium)
    same([h for h in hub.cdn.hits() if 'authorization' in h.headers], [], 'requests of the CDN with the token')
    check('hf_secret' not in r.err + r.out, 'the token is in the messages')
    lab.fetch(lab.server.url + '/x', '-o', lab.target('x'), env={**hub.env, 'HF_TOKEN': 'hf_secret'})
    check('authorization' not in lab.server.hits('/x')[0].headers, 'the token went along with an address that is not hf:')


@test
def hub_says_the_hash(lab):
    """The CDN has other bytes than the Hub says."""
    hub = repository(lab)
    hub.cdn.shares['/tiny.Q4_K.gguf'].rules = [{'flip': True}]
    hub.fetch('hf:org/Tiny-GGUF/tiny.Q4_K.gguf', '-o', lab.target()).ends(HASH)
    lab.absent()
    hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('all')).ends(HASH)
    check(not os.path.exists(lab.target('all/tiny.Q4_K.gguf')), 'a wrong file has its name')


@test
def hub_cdn_says_another_hash(lab):
    """What the Hub says counts, not what the host it leads to says of its own bytes."""
    hub = repository(lab)
    hub.cdn.shares['/tiny.Q4_K.gguf'].rules = [{'file': lab.data.other, 'headers': {'X-Linked-Etag': f'"{sha256(lab.data.other)}"'}}]
    hub.fetch('hf:org/Tiny-GGUF/tiny.Q4_K.gguf', '-o', lab.target()).ends(HASH)
    lab.absent()


def checks(r, folder):
    """Of --json: which hash was looked at for each file."""
    return {os.path.relpath(e['path'], folder): e['check'] for e in map(json.loads, r.out.splitlines()) if e['type'] == 'file'}


@test
def hub_says_which_check(lab):
    """SHA-256 of large files, the git blob's id of small ones, and nothing where the list has none."""
    hub = repository(lab)
    same(subprocess.run(['git', 'hash-object', lab.path('readme')], capture_output=True, text=True).stdout.strip() or blob_id(b'# Tiny\n'),
        hub.siblings[3]['blobId'], "git's own name for the file")
    r = hub.fetch('hf:org/Tiny-GGUF', '--json', '-o', lab.target('all')).ends(OK)
    same(checks(r, lab.target('all')), {'tiny.Q4_K.gguf': 'sha256', 'tiny.Q8_0.gguf': 'sha256', 'config.json': 'git-sha1', 'sub/dir/readme.md': 'git-sha1',
        '.gitattributes': 'git-sha1'}, 'checks')
    r = hub.fetch('hf:org/Tiny-GGUF/config.json', '--json', '-o', lab.target()).ends(OK)
    same(checks(r, lab.out), {'file': 'git-sha1'}, 'the check of one file')
    for sibling in hub.siblings:
        del sibling['blobId']
    r = hub.fetch('hf:org/Tiny-GGUF/*.json', '--json', '-o', lab.target('some')).ends(OK)
    same(checks(r, lab.target('some')), {'config.json': 'none'}, 'the check without an id')


@test
def hub_small_file_with_other_bytes(lab):
    """As long as the right one, and the id of the git blob tells."""
    hub = repository(lab)
    hub.damage['config.json'] = b'{]\n'
    for source in ('hf:org/Tiny-GGUF/config.json', 'hf:org/Tiny-GGUF/*.json', 'hf:org/Tiny-GGUF'):
        hub.fetch(source, '-o', lab.target('f')).ends(HASH, 'git-sha1')
        check(not os.path.exists(lab.target('f/config.json')) and not os.path.isfile(lab.target('f')), 'the wrong file has its name')
    hub.damage.clear()
    hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('f')).ends(OK)
    same(files_of(lab.target('f')), sorted(hub.files), 'files')
    before = len(lab.server.hits())
    hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('f')).ends(OK)
    same(len(lab.server.hits()) - before, 1, 'requests when all is there')


@test
def hub_files_side_by_side(lab):
    """Twelve slow files, -j 6: six at a time, one plan, one sum of progress."""
    files = {}
    for i in range(12):
        files[f'shard-{i:02}.bin'] = lab.path(f'shard-{i:02}.bin')
        with open(files[f'shard-{i:02}.bin'], 'wb') as f:
            f.write(random.Random(i).randbytes(MIB // 2 + i))
    hub = Hub(lab, 'org/Many', files)
    total = sum(map(os.path.getsize, files.values()))
    plans = [e for e in map(json.loads, hub.fetch('hf:org/Many', '--dry-run', '--json', '-o', lab.target('all')).ends(OK).out.splitlines())
        if e['type'] == 'plan']
    same([(p['needed'], p['present'], p['fetch']) for p in plans], [(total, 0, total)], 'plans')
    same(hub.cdn.hits(), [], 'requests of a dry run')
    running, most = [], [0]

    def rule(hit):
        running.append(hit)
        most[0] = max(most[0], len({h.path for h in running if h.sent < os.path.getsize(files[h.path[1:]])}))
        return {'rate': MIB}

    for share in hub.cdn.shares.values():
        share.rules = rule
    r = hub.fetch('hf:org/Many', '-j', 6, '--json', '-o', lab.target('all')).ends(OK)
    check(2 <= most[0] <= 6, f'{most[0]} files at once with -j 6')
    for name, path in files.items():
        same(sha256(lab.target('all/' + name)), sha256(path), name)
    progress = [e for e in map(json.loads, r.out.splitlines()) if e['type'] == 'progress']
    same({e['total'] for e in progress}, {total}, 'totals of progress')
    same(progress[-1]['verified'], total, 'bytes verified at the end')


@test
def hub_files_beyond_the_limit_of_open_ones(lab):
    """150 files where a process may have 128 open: in groups, and told of as one."""
    files = {}
    with open(lab.path('same'), 'wb') as f:
        f.write(b'same\n')
    for i in range(150):
        files[f'd{i % 3}/f{i}'] = lab.path('same')
    hub = Hub(lab, 'org/Small', files)
    r = lab.fetch('hf:org/Small', '--json', '-o', lab.target('all'), env=hub.env, command=('sh', '-c', 'ulimit -n 160; exec "$@"', 'sh')).ends(OK)
    same(files_of(lab.target('all')), sorted(files), 'files')
    progress = [e for e in map(json.loads, r.out.splitlines()) if e['type'] == 'progress']
    same((progress[-1]['total'], progress[-1]['verified'], progress[-1]['received']), (750, 750, 750), 'progress at the end')


@test
def hub_mirror_of_several_files(lab):
    """The CDN lies; a mirror that has the repository's files helps."""
    hub, far = repository(lab), lab.new_server()
    for name, path in hub.files.items():
        far.share('/m/' + name, path)
    hub.cdn.shares['/tiny.Q8_0.gguf'].rules = [{'flip': True}]
    hub.fetch('hf:org/Tiny-GGUF/*', '-o', lab.target('all'), '--mirror', far.url + '/m').ends(OK)
    same(sha256(lab.target('all/tiny.Q8_0.gguf')), sha256(lab.data.small), 'the file')


@test
def hub_hostile_lists(lab):
    hub = repository(lab)
    good = hub.siblings
    for name in ('../x', '/etc/x', 'a/../../x', 'a//b', './x', 'a/./b', '..', '', 'a\nb', '\x1b[31m', 'x' * 300, '/'.join('d' * 20), '.git/config', 5, None):
        hub.siblings = good[2:3] + [dict(good[0], rfilename=name)]
        with Guard(lab):
            r = hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('all'))
        check(r.status == FORMAT, f'{name!r} ended with {r.status}: {r.err}')
        check('\x1b' not in r.err, f'{r.err!r}')
        same([n for n in files_of(lab.out) if n not in ('all/config.json',)], [], f'files after {name!r}')


@test
def hub_lists_that_are_none(lab):
    hub = repository(lab)
    for what, data in (('nothing', b''), ('no object', b'[]'), ('half', b'{"sha": "'), ('no commit', b'{"siblings": []}'),
        ('a commit that is a path', b'{"sha": "../../x", "siblings": []}'), ('no list', b'{"sha": "aa", "siblings": {}}'), ('depth', b'{"a":' * 100000)):
        lab.server.page('/api/models/org/Tiny-GGUF/revision/main', lambda hit, data=data: (200, {}, data))
        r = hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('all'))
        check(r.status in (FORMAT, NOT_FOUND), f'{what} ended with {r.status}: {r.err}')
    del lab.server.pages['/api/models/org/Tiny-GGUF/revision/main']
    with open(lab.path('blank'), 'wb') as f:
        f.truncate(20 << 20)
    lab.server.share('/api/models/org/Tiny-GGUF/revision/main', lab.path('blank'))
    hub.fetch('hf:org/Tiny-GGUF', '-o', lab.target('all')).ends(FORMAT, 'larger')
    lab.server.page('/api/models/org/Tiny-GGUF/revision/main', lambda hit: (500, {}, b''))
    hub.fetch('hf:org/Tiny-GGUF', '--retries', 0).ends(NETWORK)


@test
def hub_names_that_are_none(lab):
    hub = repository(lab)
    for source in ('hf:', 'hf:org', 'hf:org/', 'hf:/repo', 'hf:../x', 'hf:org/..', 'hf:org/repo@', 'hf:org/re po', 'hf:org/repo@../x', 'hf:org/repo@a?b'):
        hub.fetch(source).ends(USAGE)
    with Guard(lab):
        for path in ('../x', '..', 'a/../../x', '/etc/passwd'):
            r = hub.fetch('hf:org/Tiny-GGUF/' + path, '-o', lab.target('f'))
            check(r.status in (USAGE, FORMAT), f'{path} ended with {r.status}')
    hub.fetch('hf:org/Tiny-GGUF/tiny.Q8_0.gguf', '--offline').ends(OFFLINE)


@test
def file_from_its_blob_in_a_cache(lab):
    """ollama's and the Hub's blobs are named by their hash: with --sha256 nothing but the probe is fetched."""
    digest = sha256(lab.data.medium)
    for place in ('.ollama/models/blobs/sha256-' + digest, '.cache/huggingface/hub/models--o--r/blobs/' + digest):
        path = lab.path('home', place)
        os.makedirs(os.path.dirname(path))
        with open(lab.data.medium, 'rb') as f, open(path, 'wb') as to:
            to.write(f.read())
        with Guard(lab):
            lab.get(lab.server.share('/f', lab.data.medium), *known(lab.data.medium), file=lab.data.medium)
        check(lab.server.sent() < 100, f'{lab.server.sent()} bytes were fetched although {place} has them')
        os.unlink(lab.target())
        os.unlink(path)
