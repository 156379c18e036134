"""Local sources, lists of pieces and of ranges."""
import json
import os
import shutil
import subprocess

from hostile import Guard
from http_cases import known
from lab import BIN, FORMAT, HASH, NOT_FOUND, OK, PIECE, READ, USAGE, Skip, check, same, sha256, test
from resume import flip

VERIFY = os.path.join(BIN, 'reploid-verify')


@test
def local_files(lab):
    for source in (lab.data.medium, 'file://' + lab.data.medium, 'file://localhost' + lab.data.medium):
        lab.get(source, file=lab.data.medium)
        os.unlink(lab.target())
        lab.get(source, *known(lab.data.medium), file=lab.data.medium)
        os.unlink(lab.target())
    lab.get(lab.data.medium, *known(lab.data.other)).ends(HASH)
    lab.absent()
    for source in (lab.path('absent'), 'file://' + lab.path('absent'), 'file://other-host/etc/passwd'):
        r = lab.get(source)
        check(r.status in (NOT_FOUND, READ, USAGE), f'{source} ended with {r.status}: {r.err}')
    os.mkfifo(lab.path('pipe'))
    lab.get(lab.path('pipe')).ends(READ)


@test
def local_folder(lab):
    source = lab.path('source')
    os.mkdir(source)
    for name in ('a.bin', 'b.bin'):
        shutil.copyfile(lab.data.small, os.path.join(source, name))
    os.symlink('/etc/passwd', os.path.join(source, '.hidden'))
    with Guard(lab):
        r = lab.fetch(source, '-o', lab.target('copy')).ends(OK)
    same(r.out, lab.target('copy') + '\n', 'standard output')
    same(sorted(os.listdir(lab.target('copy'))), ['a.bin', 'b.bin'], 'files')


@test
def local_folder_with_folders(lab):
    """All files at their places, those behind links too, and one plan for all; a link to a folder is not followed."""
    source, total = lab.path('source'), 0
    os.makedirs(os.path.join(source, 'one', 'two'))
    os.mkdir(lab.path('elsewhere'))
    shutil.copyfile(lab.data.small, lab.path('elsewhere', 'x'))
    for name in ('a.bin', 'one/b.bin', 'one/two/c.bin'):
        shutil.copyfile(lab.data.small, os.path.join(source, name))
        total += os.path.getsize(lab.data.small)
    os.symlink(lab.data.medium, os.path.join(source, 'one', 'link.bin'))
    total += os.path.getsize(lab.data.medium)
    os.symlink(lab.path('elsewhere'), os.path.join(source, 'outside'))
    events = [json.loads(line) for line in lab.fetch(source, '--dry-run', '--json').ends(OK).out.splitlines()]
    same([(e['needed'], e['present'], e['fetch']) for e in events if e['type'] == 'plan'], [(total, 0, total)], 'plans')
    for args, out in ((('-o', lab.target('copy')), lab.target('copy')), ((), os.path.join(lab.store, 'models', 'source'))):
        with Guard(lab):
            r = lab.fetch(source, '--json', *args).ends(OK)
        events = [json.loads(line) for line in r.out.splitlines()]
        same(sorted(os.path.join(at, n) for at, _, names in os.walk(out) for n in names),
            [os.path.join(out, n) for n in ('a.bin', 'one/b.bin', 'one/link.bin', 'one/two/c.bin')], 'files')
        same(sha256(os.path.join(out, 'one/link.bin')), sha256(lab.data.medium), 'what a link leads to')
        same({e['total'] for e in events if e['type'] == 'progress'}, {total}, 'totals of progress')
    shutil.rmtree(os.path.join(lab.store, 'models', 'source'))
    os.symlink(lab.path('elsewhere'), os.path.join(lab.store, 'models', 'source'))
    with Guard(lab):
        lab.fetch(source).ends(READ, 'link')


def bad_pieces(lab, path, *args):
    if not os.access(VERIFY, os.X_OK):
        raise Skip('reploid-verify is not built')
    return subprocess.run([VERIFY, '--bad-pieces', path, *args], env=lab.env, capture_output=True, cwd=lab.dir).stdout


@test
def repaired_in_place(lab):
    """Only the piece with a wrong byte is fetched, from where the file came from."""
    lab.get(lab.server.share('/f', lab.data.big), file=lab.data.big)
    lab.server.forget()
    flip(lab.target(), 5 * PIECE + 1)
    flip(lab.target(), 10 * PIECE + 1)
    with open(lab.path('list'), 'wb') as f:
        f.write(bad_pieces(lab, lab.target()))
    with open(lab.path('list')) as stdin:
        lab.end(lab.start('--only', '-', stdin=stdin)).ends(OK)
    lab.right(lab.data.big)
    same(lab.fetched(lab.server.hits()), {5, 10}, 'pieces fetched')


@test
def repaired_from_a_liar(lab):
    """The list's hashes decide: wrong bytes are never written into the file."""
    lab.get(lab.server.share('/f', lab.data.medium), file=lab.data.medium)
    flip(lab.target(), 1)
    damaged = sha256(lab.target())
    with open(lab.path('list'), 'wb') as f:
        f.write(bad_pieces(lab, lab.target()))
    lab.server.shares['/f'].rules = [{'flip': True}]
    lab.fetch('--only', 'list', '--retries', 1).ends(HASH)
    same(sha256(lab.target()), damaged, 'the file after a lie')


@test
def hostile_lists_of_pieces(lab):
    shutil.copyfile(lab.data.small, lab.target())
    size, digest = os.path.getsize(lab.data.small), 'sha256:' + sha256(lab.data.small)
    head, file, piece = 'reploid-pieces/1\n', f'file {size} {digest} {lab.target()}\n', f'piece 0 {size} {digest}\n'
    source = f'source {lab.server.share("/f", lab.data.small)}\n'
    bad = {'nothing': '', 'no head': file + source + piece, 'another head': 'reploid-pieces/2\n' + file, 'a piece before a file': head + piece,
        'a piece beyond the file': head + file + source + f'piece 0 {size + 1} {digest}\n', 'an offset beyond 64 bits': head + file + f'piece {2 ** 64} 1 {digest}\n',
        'an offset of 2^53': head + file + f'piece {2 ** 53} 1 {digest}\n', 'a negative offset': head + file + f'piece -1 5 {digest}\n',
        'no hash': head + file + f'piece 0 {size}\n', 'a hash of another kind': head + file + 'piece 0 5 md5:aa\n',
        'pieces that overlap': head + file + source + f'piece 0 10 {digest}\npiece 5 10 {digest}\n',
        'a size of nothing': head + file + f'piece 0 0 {digest}\n', 'a word that is none': head + file + 'peace 0 1\n', 'a NUL': head + '\0' + file}
    for what, text in bad.items():
        with open(lab.path('list'), 'w') as f:
            f.write(text)
        with Guard(lab):
            lab.fetch('--only', 'list', '--retries', 0).ends(FORMAT)
        lab.right(lab.data.small)
    for path in ('/dev/null', lab.dir, lab.path('absent', 'f')):
        with open(lab.path('list'), 'w') as f:
            f.write(head + f'file {size} {digest} {path}\n' + source + piece)
        with Guard(lab):
            r = lab.fetch('--only', 'list', '--retries', 0)
        check(r.status != OK, f'{path} was taken')


@test
def ranges_of_a_file(lab):
    """Whole pieces that hold them; a later run of the whole keeps them."""
    url = lab.server.share('/f', lab.data.big)
    with open(lab.path('ranges'), 'w') as f:
        f.write(f'# two ranges\n100 50\n{7 * PIECE - 5} 10\n')
    lab.fetch(url, '-o', lab.target(), '--ranges', 'ranges').ends(OK)
    same(lab.fetched(lab.server.hits()), {0, 6, 7}, 'pieces fetched')
    lab.server.forget()
    lab.get(url, file=lab.data.big)
    same(lab.fetched(lab.server.hits()), {1, 2, 3, 4, 5, 8, 9, 10}, 'pieces fetched later')


@test
def hostile_ranges(lab):
    url = lab.server.share('/f', lab.data.small)
    for text in ('', 'x', '1', '-1 5', '0 0', f'{2 ** 53} 1', f'0 {2 ** 64}', '0 1 2', '1.5 2', '0 1000004', f'{2 ** 53 - 1} {2 ** 53 - 1}'):
        with open(lab.path('ranges'), 'w') as f:
            f.write(text + '\n')
        r = lab.fetch(url, '-o', lab.target(), '--ranges', 'ranges', '--retries', 0)
        check(r.status in (FORMAT, USAGE, 33), f'{text!r} ended with {r.status}: {r.err}')
        lab.absent()
