"""Servers and stores that want something written elsewhere. Nothing outside of the target or the store may change."""
import os
import stat

from http_cases import partial
from lab import AUTH, DISK_FULL, FORMAT, NETWORK, OK, READ, UNSUPPORTED, USAGE, WRITE, check, same, test


def outside(lab):
    """Everything in the test's folder but the store, the target's folder and what runs printed."""
    found = {}
    for folder, folders, files in os.walk(lab.dir):
        folders[:] = [d for d in folders if os.path.join(folder, d) not in (lab.store, lab.out)]
        for name in folders + files:
            path = os.path.join(folder, name)
            if not name.endswith(('.stdout', '.stderr')):
                st = os.lstat(path)
                found[os.path.relpath(path, lab.dir)] = (st.st_mode, st.st_ino, st.st_size, st.st_mtime_ns if not stat.S_ISDIR(st.st_mode) else 0)
    return found


class Guard:
    """Nothing outside changes meanwhile."""

    def __init__(self, lab):
        self.lab, self.before = lab, outside(lab)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            same(outside(self.lab), self.before, 'files outside of the store')


@test
def names_of_urls(lab):
    names = ['..', '%2e%2e', '..%2f..%2f..%2fescaped', '%2fetc%2fescaped', 'a%00b', 'a%0ab', 'a%1b[31mb', '.hidden', '%ff%fe', 'x' * 300, 'dir/', '']
    for name in names:
        lab.server.share('/' + name, lab.data.small)
        with Guard(lab):
            r = lab.fetch(f'{lab.server.url}/{name}', '--retries', 0)
        check(r.status in (USAGE, 3), f'{name!r} ended with {r.status}: {r.out} {r.err}')
        check('\033' not in r.err, 'an escape sequence is in the messages')
    check(not os.path.isdir(os.path.join(lab.store, 'models')) or not os.listdir(os.path.join(lab.store, 'models')), 'something is in the store')


@test
def links_in_the_store(lab):
    """Folders of the store that are links lead out of it."""
    url = lab.server.share('/Model.gguf', lab.data.small)
    os.mkdir(lab.path('victim'))
    for place in ('models', 'models/Model'):
        os.makedirs(os.path.dirname(os.path.join(lab.store, place)), exist_ok=True)
        os.symlink(lab.path('victim'), os.path.join(lab.store, place))
        with Guard(lab):
            lab.fetch(url).ends(READ, 'link')
        os.unlink(os.path.join(lab.store, place))
    os.symlink(lab.path('victim'), os.path.join(lab.store, 'trees'))
    with Guard(lab):
        lab.get(url)


@test
def links_beside_the_target(lab):
    """The partial file and the journal have names that can be known in advance."""
    url = lab.server.share('/f', lab.data.medium)
    partial(lab, lab.server.shares['/f'], 1)
    with open(lab.path('victim'), 'w') as f:
        f.write('precious')
    for end in ('.part', '.journal'):
        path = os.path.join(lab.out, next(n for n in os.listdir(lab.out) if n.endswith(end)))
        os.rename(path, lab.path('kept'))
        os.symlink(lab.path('victim'), path)
        with Guard(lab):
            lab.get(url).ends(WRITE)
        lab.absent()
        os.replace(lab.path('kept'), path)
    lab.get(url, file=lab.data.medium)


@test
def link_at_the_target(lab):
    """The name is given to the new file; what the link led to stays."""
    with open(lab.path('victim'), 'w') as f:
        f.write('precious')
    os.symlink(lab.path('victim'), lab.target())
    with Guard(lab):
        lab.get(lab.server.share('/f', lab.data.small), file=lab.data.small)
    check(not os.path.islink(lab.target()), 'the link is still there')


@test
def folder_at_the_target(lab):
    """The file gets its own name in it."""
    os.mkdir(lab.target())
    r = lab.get(lab.server.share('/dir/name', lab.data.small)).ends(OK)
    same(r.out, lab.target() + '/name\n', 'standard output')
    lab.right(lab.data.small, lab.target() + '/name')


@test
def sizes_beyond_all_bounds(lab):
    """Of 2^53 and more, past 63 bits, past 64: refused, and no file of that size stays behind."""
    for total in (2 ** 53, 2 ** 53 + 1, 2 ** 62, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1, 2 ** 64 + 5, 10 ** 30):
        for rule in ({'total': total}, {'ranges': 'ignore', 'length': total}):
            lab.server.share('/f', lab.data.small, [rule])
            r = lab.get(lab.server.url + '/f', '--retries', 0)
            check(r.status in (DISK_FULL, FORMAT, UNSUPPORTED, NETWORK, WRITE), f'{rule} ended with {r.status}: {r.err}')
            lab.absent()
            same(os.listdir(lab.out), [], f'files after {rule}')


@test
def escapes_in_what_servers_say(lab):
    """Nothing of a server's reaches the terminal as a control sequence."""
    for rule in ({'location': 'http://127.0.0.1:1/\033[31m'}, {'location': '\033]0;x\007'}, {'etag': '"\033[31m"', 'status': 404},
        {'status': 401, 'headers': {'WWW-Authenticate': 'Basic realm="\033[31m"'}}):
        r = lab.get(lab.server.share('/f', lab.data.small, [rule]), '--retries', 0)
        check(r.status in (NETWORK, AUTH, USAGE, 3), f'{rule} ended with {r.status}')
        check('\033' not in r.err and '\007' not in r.err, f'{r.err!r}')
@test
def pipe_at_the_target(lab):
    """A device or a pipe is no file to be replaced."""
    os.mkfifo(lab.target())
    r = lab.get(lab.server.share('/f', lab.data.small))
    check(r.status in (USAGE, WRITE), f'ended with {r.status}: {r.err}')
    check(stat.S_ISFIFO(os.lstat(lab.target()).st_mode), 'the pipe was replaced')
    same(os.listdir(lab.out), ['file'], 'files')


