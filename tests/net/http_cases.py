"""What servers do to ranges, lengths, encodings, redirects and statuses, and what must come of it."""
import email.utils
import os
import time

from lab import AUTH, CHANGED, HASH, MIB, NETWORK, NOT_FOUND, OK, PIECE, RANGE, check, same, sha256, test


def but_the_first(rule, times=None):
    """The probe is answered well, the next requests (so many) are not."""
    return lambda hit: rule if hit.n > 0 and (times is None or hit.n <= times) else {}


def known(file):
    return '--sha256', sha256(file)


def partial(lab, share, pieces, *args):
    """Fetch some pieces, then kill the program: deterministic, since the server falls silent there."""
    kept, share.rules = share.rules, lambda hit: {} if hit.is_probe else {'stall': max(0, pieces * PIECE - hit.first)}
    p = lab.start(lab.server.url + '/f', '-o', lab.target(), '-j', 1, *args)
    check(lab.kill_when(p, lambda: len(lab.verified()) >= pieces), 'the run was over although the server fell silent')
    lab.end(p)
    share.rules = kept
    have = lab.verified()
    same(have, set(range(pieces)), 'verified pieces')
    lab.server.forget()
    return have


# ---- ranges ----

@test
def plain_fetch(lab):
    lab.get(lab.server.share('/f', lab.data.big), file=lab.data.big)
    same({h.method for h in lab.server.hits()}, {'GET'}, 'methods (HEAD is refused by many servers)')


@test
def range_ignored_from_the_start(lab):
    r = lab.get(lab.server.share('/f', lab.data.medium, [{'ranges': 'ignore'}]), file=lab.data.medium)
    check('whole files only' in r.err, 'it is not said that nothing can be resumed')


@test
def range_ignored_in_a_resume(lab):
    url = lab.server.share('/f', lab.data.medium)
    have = partial(lab, lab.server.shares['/f'], 2)
    lab.server.shares['/f'].rules = but_the_first({'ranges': 'ignore'})
    r = lab.get(url, file=lab.data.medium)
    check('whole file instead of a range' in r.err, 'the restart is silent')
    check(f'{len(have)} of 3 pieces are here already' in r.err, 'what is there is not told')


@test
def ranges_ignored_and_connection_cut(lab):
    rules = [{}, {'ranges': 'ignore', 'cut': 5 * MIB}, {'ranges': 'ignore'}]
    lab.get(lab.server.share('/f', lab.data.medium, rules), '-j', 1, file=lab.data.medium)


@test
def range_starts_elsewhere_at_first(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'shift': 1000}, 2)), file=lab.data.medium)


@test
def range_starts_elsewhere_for_ever(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'shift': 1000})), '--retries', 1).ends(NETWORK, 'another range')
    lab.absent()


@test
def range_without_content_range(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'bare': True})), '--retries', 1).ends(NETWORK)
    lab.absent()


@test
def range_of_other_bytes(lab):
    """The head is right, the bytes are not: only a hash can tell, and the next run can repair it."""
    url = lab.server.share('/f', lab.data.medium, but_the_first({'file': lab.data.other}))
    digest = sha256(lab.data.medium)
    lab.get(url, '--sha256', digest).ends(HASH, digest)
    lab.absent()
    lab.server.shares['/f'].rules = None
    lab.get(url, '--sha256', digest, file=lab.data.medium)


@test
def shorter_range_than_asked(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'short': 1500000})), file=lab.data.medium)


@test
def answer_cut_cleanly(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'cut': 700000}, 4)), file=lab.data.medium)


@test
def answer_cut_for_ever(lab):
    """Each connection brings something, so it comes to its end in spite of all."""
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'cut': 1500000})), '--retries', 1, file=lab.data.medium)


@test
def connection_reset_in_the_body(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'reset': 700000}, 4)), file=lab.data.medium)


@test
def connection_reset_at_once_for_ever(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'reset': 0})), '-j', 1, '--retries', 1).ends(NETWORK)
    lab.absent()
    same(len(lab.server.hits('/f')), 3, 'requests (the first, a try, its retry)')


@test
def range_not_satisfiable_in_a_resume(lab):
    """416 for a range inside the file must not be asked for again and again."""
    url = lab.server.share('/f', lab.data.medium)
    partial(lab, lab.server.shares['/f'], 1)
    lab.server.shares['/f'].rules = but_the_first({'status': 416})
    lab.get(url).ends(RANGE, '416')
    lab.absent()
    check(len(lab.server.hits('/f')) < 20, 'it asks without end')


@test
def all_pieces_there_already(lab):
    """Killed when only the name was missing: nothing is asked for but the probe."""
    url = lab.server.share('/f', lab.data.medium)
    share = lab.server.shares['/f']
    partial(lab, share, 2)
    have = lab.verified()
    share.rules = lambda hit: {'status': 500} if any(i in have for i in lab.fetched([hit])) and hit.first != 0 else {}
    lab.get(url, '--retries', 0, file=lab.data.medium)


@test
def no_verified_piece_is_fetched_again(lab):
    url = lab.server.share('/f', lab.data.big)
    have = partial(lab, lab.server.shares['/f'], 6)
    lab.get(url, file=lab.data.big)
    same(lab.fetched(lab.server.hits('/f')) & have, set(), 'verified pieces that were fetched again')


@test
def empty_file(lab):
    empty = lab.path('empty')
    open(empty, 'w').close()
    for rules in (None, [{'ranges': 'ignore'}]):
        lab.get(lab.server.share('/f', empty, rules), file=empty)
        os.unlink(lab.target())


@test
def one_byte(lab):
    with open(lab.path('one'), 'w') as f:
        f.write('x')
    for rules in (None, [{'ranges': 'ignore'}]):
        lab.get(lab.server.share('/f', lab.path('one'), rules), file=lab.path('one'))
        os.unlink(lab.target())


# ---- lengths and framing ----

@test
def length_larger_than_the_body(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'length': 1000, 'cut': 300000}, 3)), file=lab.data.medium)


@test
def length_larger_than_the_file(lab):
    lab.get(lab.server.share('/f', lab.data.medium, [{'length': 1000, 'ranges': 'ignore'}]), '--retries', 1).ends(NETWORK)
    lab.absent()


@test
def length_smaller_than_the_body(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'length': -1000}, 3)), file=lab.data.medium)


@test
def length_smaller_than_the_file(lab):
    url = lab.server.share('/f', lab.data.medium, [{'length': -1000, 'ranges': 'ignore'}])
    lab.get(url, *known(lab.data.medium), '--retries', 1).ends(HASH)
    lab.absent()


@test
def chunked_without_length(lab):
    lab.get(lab.server.share('/f', lab.data.medium, [{'ranges': 'ignore', 'framing': 'chunked'}]), file=lab.data.medium)


@test
def chunked_and_cut(lab):
    cut = {'ranges': 'ignore', 'framing': 'chunked', 'cut': 3000000}
    lab.get(lab.server.share('/f', lab.data.medium, [cut]), '--retries', 1).ends(NETWORK)
    lab.absent()
    lab.server.forget()
    lab.server.shares['/f'].rules = [cut, cut, {'ranges': 'ignore', 'framing': 'chunked'}]
    lab.get(lab.server.url + '/f', file=lab.data.medium)


@test
def end_that_cannot_be_told(lab):
    """Neither length nor chunks: a cut connection looks like the end, so only a hash makes it safe."""
    url = lab.server.share('/f', lab.data.medium, [{'ranges': 'ignore', 'framing': 'close'}])
    digest = sha256(lab.data.medium)
    lab.get(url).ends(NETWORK, '--sha256')
    lab.absent()
    lab.get(url, '--sha256', digest, file=lab.data.medium)
    os.unlink(lab.target())
    lab.server.shares['/f'].rules = [{'ranges': 'ignore', 'framing': 'close', 'cut': 3000000}]
    lab.get(url, '--sha256', digest, '--retries', 1).ends(HASH)
    lab.absent()


# ---- encodings ----

@test
def identity_is_asked_for(lab):
    rule = lambda hit: {'gzip': 'asked', 'etag': '"v1-gzip"' if 'gzip' in hit.headers.get('accept-encoding', '') else '"v1"'}
    lab.get(lab.server.share('/f', lab.data.medium, rule), file=lab.data.medium)
    same({h.headers.get('accept-encoding') for h in lab.server.hits()}, {'identity'}, 'Accept-Encoding')


@test
def compressed_unasked(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'gzip': 'always'}]), '--retries', 1).ends(NETWORK, 'compresses')
    lab.absent()
    lab.server.shares['/f'].rules = [{'gzip': 'always', 'ranges': 'ignore', 'framing': 'chunked'}]
    lab.get(lab.server.url + '/f', '--retries', 1).ends(NETWORK, 'compresses')
    lab.absent()


# ---- redirects ----

@test
def signed_url_expires(lab):
    """The address that the origin redirects to is good for two requests; then it says 403."""
    uses = {}

    def cdn(hit):
        uses[hit.query] = uses.get(hit.query, 0) + 1
        return {'status': 403} if uses[hit.query] > 2 else {}

    url = lab.server.share('/f', lab.data.big, lambda hit: {'location': f'/cdn?signature={hit.n}'})
    lab.server.share('/cdn', lab.data.big, cdn)
    lab.get(url, '-j', 1, file=lab.data.big)
    check(len(lab.server.hits('/f')) > 2, 'the origin was not asked again')
    check(lab.server.sent('/cdn') <= os.path.getsize(lab.data.big) + 100, 'bytes were fetched twice')


@test
def signed_url_never_works(lab):
    url = lab.server.share('/f', lab.data.big, lambda hit: {'location': f'/cdn?signature={hit.n}'})
    lab.server.share('/cdn', lab.data.big, but_the_first({'status': 403}))
    lab.get(url, '-j', 1).ends(AUTH, '403')
    check(len(lab.server.hits()) < 40, 'it asks without end')


@test
def secrets_stay_at_home(lab):
    """Headers, a password in the URL and ~/.netrc are for the host they were given for; a redirect leads to another."""
    far = lab.new_server()
    far.share('/g', lab.data.medium)
    port = lab.server.port
    lab.server.share('/f', lab.data.medium, [{'location': far.url + '/g'}])
    with open(lab.path('home', '.netrc'), 'w') as f:
        f.write('machine 127.0.0.1 login neta password netpass\nmachine localhost login neta password netpass\n')
    for source, more in ((f'http://127.0.0.1:{port}/f', ('-H', 'Authorization: Bearer secret', '-H', 'X-Key: secret', '-H', 'Cookie: s=secret')),
        (f'http://user:secret@127.0.0.1:{port}/f', ('-H', 'X-Key: secret')), (f'http://127.0.0.1:{port}/f', ('--netrc', '-H', 'X-Key: secret'))):
        r = lab.get(source, *more, file=lab.data.medium)
        os.unlink(lab.target())
        check('secret' not in r.err, 'a secret is in the messages')
    check(all(h.headers.get('x-key') == 'secret' and 'authorization' in h.headers for h in lab.server.hits()), 'home did not get the secrets')
    leaked = [n for h in far.hits() for n in ('authorization', 'x-key', 'cookie', 'proxy-authorization', 'referer') if n in h.headers]
    same(leaked, [], 'headers that reached another host')


@test
def secrets_stay_with_the_name(lab):
    """The same machine and port under another name is another host."""
    lab.server.share('/f', lab.data.medium, [{'location': f'http://localhost:{lab.server.port}/g'}])
    lab.server.share('/g', lab.data.medium)
    with open(lab.path('home', '.netrc'), 'w') as f:
        f.write('default login neta password netpass\n')
    for more in (('-H', 'Authorization: Bearer secret', '-H', 'X-Key: secret'), ('--netrc',)):
        lab.get(lab.server.url + '/f', *more, file=lab.data.medium)
        os.unlink(lab.target())
    check(all('authorization' in h.headers for h in lab.server.hits('/f')), 'home did not get the secrets')
    same([n for h in lab.server.hits('/g') for n in ('authorization', 'x-key') if n in h.headers], [], 'headers that reached another name')


@test
def secrets_survive_a_redirect_at_home(lab):
    lab.server.share('/f', lab.data.medium, [{'location': '/dir/../g?x=1'}])
    lab.server.share('/g', lab.data.medium)
    lab.get(lab.server.url + '/f', '-H', 'X-Key: secret', file=lab.data.medium)
    same({h.headers.get('x-key') for h in lab.server.hits('/g')}, {'secret'}, 'the header after the redirect')


@test
def mirrors_get_no_secrets(lab):
    far = lab.new_server()
    lab.server.share('/f', lab.data.medium)
    lab.get(lab.server.url + '/f', '--mirror', far.share('/g', lab.data.medium), '-H', 'X-Key: secret', *known(lab.data.medium), file=lab.data.medium)
    check(far.hits(), 'the mirror was not asked')
    same([h for h in far.hits() if 'x-key' in h.headers], [], 'requests of the mirror with the header')


@test
def secrets_in_the_clear(lab):
    """Refused before a connection is made: 192.0.2.1 answers nobody."""
    lab.get('http://192.0.2.1/f', '-H', 'X-Key: secret').ends(AUTH, 'use https')
    r = lab.get('http://user:secret@192.0.2.1/f').ends(AUTH, 'use https')
    check('secret' not in r.err, 'the password is in the message')


@test
def redirects_without_end(lab):
    lab.server.share('/f', lab.data.small, [{'location': '/g'}])
    lab.server.share('/g', lab.data.small, [{'location': '/f'}])
    lab.get(lab.server.url + '/f').ends(NETWORK, 'redirects')
    check(len(lab.server.hits()) < 40, 'it asks without end')


@test
def redirects_that_lead_astray(lab):
    for rule in ({'location': 'file:///etc/passwd'}, {'location': 'ftp://127.0.0.1/f'}, {'status': 302}, {'location': 'http://[::1'}):
        lab.get(lab.server.share('/f', lab.data.small, [rule])).ends(NETWORK, 'redirects')
        lab.absent()


# ---- statuses ----

@test
def refusals(lab):
    for status, code in ((404, NOT_FOUND), (410, NOT_FOUND), (401, AUTH), (403, AUTH), (500, NETWORK), (204, NETWORK), (304, NETWORK)):
        lab.get(lab.server.share('/f', lab.data.small, [{'status': status}]), '--retries', 0).ends(code)
        lab.absent()
        same(os.listdir(lab.out), [], f'files after {status}')


@test
def not_found_is_not_asked_again(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'status': 404}])).ends(NOT_FOUND)
    same(len(lab.server.hits()), 1, 'requests')


@test
def busy_with_seconds(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'status': 429, 'retry_after': 2}, {}]), file=lab.data.small)
    first, second = lab.server.hits()[:2]
    check(second.time - first.time >= 1.9, 'Retry-After was not heeded')


@test
def busy_with_a_date(lab):
    rule = lambda hit: {} if hit.n else {'status': 503, 'retry_after': email.utils.formatdate(time.time() + 4, usegmt=True)}
    lab.get(lab.server.share('/f', lab.data.small, rule), file=lab.data.small)
    first, second = lab.server.hits()[:2]
    check(second.time - first.time >= 2.5, 'Retry-After was not heeded')


@test
def busy_in_the_middle(lab):
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'status': 429, 'retry_after': 2}, 1)), '-j', 1, file=lab.data.medium)
    _, refused, again = lab.server.hits()[:3]
    check(again.time - refused.time >= 1.9, 'Retry-After was not heeded')


@test
def busy_for_ever(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'status': 503}]), '--retries', 2).ends(NETWORK, '503')
    same(len(lab.server.hits()), 3, 'requests')


# ---- versions ----

@test
def replaced_by_another_version(lab):
    """The ETag changes in the middle: pieces of two versions are never mixed, and the next run fetches the new one."""
    url = lab.server.share('/f', lab.data.medium, lambda hit: {} if hit.n < 2 else {'etag': '"v2"', 'file': lab.data.other})
    lab.get(url, '-j', 1).ends(CHANGED, 'changed')
    lab.absent()
    lab.get(url)
    lab.right(lab.data.other)


@test
def replaced_by_another_date(lab):
    rule = lambda hit: {'etag': None} if hit.n < 2 else {'etag': None, 'modified': 'Wed, 02 Jul 2025 00:00:00 GMT', 'file': lab.data.other}
    lab.get(lab.server.share('/f', lab.data.medium, rule), '-j', 1).ends(CHANGED, 'changed')
    lab.absent()


@test
def replaced_by_another_size(lab):
    rule = lambda hit: {} if hit.n < 2 else {'file': lab.data.big}
    lab.get(lab.server.share('/f', lab.data.medium, rule), '-j', 1).ends(CHANGED, 'changed')
    lab.absent()


@test
def replaced_between_two_runs(lab):
    url = lab.server.share('/f', lab.data.medium)
    partial(lab, lab.server.shares['/f'], 2)
    lab.server.share('/f', lab.data.other, etag='"v2"')
    lab.get(url)
    lab.right(lab.data.other)


@test
def replaced_and_the_hash_is_known(lab):
    rule = lambda hit: {} if hit.n < 2 else {'etag': '"v2"', 'file': lab.data.other}
    r = lab.get(lab.server.share('/f', lab.data.medium, rule), '-j', 1, *known(lab.data.medium))
    check(r.status in (HASH, CHANGED), f'ended with {r.status}: {r.err}')
    lab.absent()


@test
def weak_tag_becomes_strong(lab):
    """As Apache calls a file that is a second old: the same version."""
    lab.get(lab.server.share('/f', lab.data.medium, lambda hit: {'etag': 'W/"v1"' if hit.n < 2 else '"v1"'}), '-j', 1, file=lab.data.medium)
    check(len(lab.server.hits()) > 2, 'only one version was seen')


# ---- several sources ----

@test
def mirror_of_another_size_is_left_out(lab):
    far = lab.new_server()
    r = lab.get(lab.server.share('/f', lab.data.medium), '--mirror', far.share('/g', lab.data.small), *known(lab.data.medium), file=lab.data.medium)
    check('left out' in r.err and 'has 1000003 bytes' in r.err, 'it is not said')


@test
def mirror_without_a_hash(lab):
    """Bytes of two hosts are put together only where a hash can tell whether they fit."""
    far = lab.new_server()
    r = lab.get(lab.server.share('/f', lab.data.medium), '--mirror', far.share('/g', lab.data.other), file=lab.data.medium)
    check('left out' in r.err, 'it is not said')
    same(far.sent(), 0, 'bytes of the mirror')


@test
def mirror_that_dies_is_done_without(lab):
    far = lab.new_server()
    far.share('/g', lab.data.big, but_the_first({'reset': 100000}))
    lab.get(lab.server.share('/f', lab.data.big), '--mirror', far.url + '/g', *known(lab.data.big), file=lab.data.big)


@test
def origin_that_dies_is_done_without(lab):
    far = lab.new_server()
    lab.server.share('/f', lab.data.big, but_the_first({'status': 500}))
    lab.get(lab.server.url + '/f', '--retries', 1, '--mirror', far.share('/g', lab.data.big), *known(lab.data.big), file=lab.data.big)


@test
def mirror_that_lies_is_dropped(lab):
    """The file was here once, so the hashes of its pieces are known: who sends wrong ones is named."""
    digest, far = sha256(lab.data.big), lab.new_server()
    url, mirror = lab.server.share('/f', lab.data.big, [{'rate': 20 * MIB}]), far.share('/g', lab.data.big, but_the_first({'flip': True}))
    lab.get(url, '--sha256', digest, file=lab.data.big)
    os.unlink(lab.target())
    r = lab.get(url, '--sha256', digest, '--mirror', mirror, file=lab.data.big)
    check(f'{far.url} is dropped' in r.err and 'wrong' in r.err, f'the liar is not named: {r.err}')


@test
def only_liars(lab):
    digest = sha256(lab.data.small)
    lab.get(lab.server.share('/f', lab.data.small, but_the_first({'flip': True})), '--sha256', digest).ends(HASH, digest)
    lab.absent()
    same(OK, lab.fetch(lab.server.share('/g', lab.data.small), '-o', lab.target(), '--sha256', digest).status, 'a later run')


@test
def crawling_mirror_is_relieved(lab):
    far = lab.new_server()
    far.share('/g', lab.data.big, lambda hit: {} if hit.is_probe else {'rate': 3000})
    lab.get(lab.server.share('/f', lab.data.big, [{'rate': 8 * MIB}]), '--mirror', far.url + '/g', *known(lab.data.big), file=lab.data.big)


# ---- a piece of several connections ----

@test
def piece_of_several_connections(lab):
    """Where connections are slow, all of them bring parts of the one piece, and no part is asked for twice."""
    server = lab.server
    lab.get(server.share('/f', lab.data.small, [{'rate': 100000}]), '-j', 8, *known(lab.data.small), file=lab.data.small)
    parts = sorted((h.first, h.last) for h in server.hits('/f') if not h.is_probe)
    check(len(parts) >= 4, f'requests for parts: {parts}')
    check(len({a for a, _ in parts}) == len(parts), f'a part was asked for twice: {parts}')


@test
def piece_of_several_connections_unverified(lab):
    """The same without a hash: the parts are of one source and one version."""
    lab.get(lab.server.share('/f', lab.data.small, [{'rate': 100000}]), '-j', 8, file=lab.data.small)
    check(len(lab.server.hits('/f')) >= 5, 'requests for parts')


@test
def parts_of_a_piece_are_lost(lab):
    """Every other connection is reset in the middle of its part; what came of it is not asked for again."""
    rule = lambda hit: {} if hit.is_probe else {'rate': 400000, **({'reset': 100000} if hit.n % 2 else {})}
    lab.get(lab.server.share('/f', lab.data.medium, rule), '-j', 8, '--retries', 30, *known(lab.data.medium), file=lab.data.medium)
    size = os.path.getsize(lab.data.medium)
    check(lab.server.sent('/f') < 2 * size, f'{lab.server.sent("/f")} bytes were sent for a file of {size}')


@test
def silent_connection_is_replaced(lab):
    """One connection falls silent while others go on: its part is brought by another, long before it counts as broken."""
    rule = lambda hit: {} if hit.is_probe else {'rate': 2 * MIB, **({'stall': 100000} if hit.n == 4 else {})}
    r = lab.get(lab.server.share('/f', lab.data.big, rule), '-j', 4, *known(lab.data.big), file=lab.data.big)
    check('silent' not in r.err, f'it was waited for: {r.err}')


@test
def liar_among_two_sources_of_a_piece(lab):
    """Half of a piece comes from each of two sources, and one lies: the piece comes again from one of them, so the liar is named."""
    far = lab.new_server()
    url = lab.server.share('/f', lab.data.small, lambda hit: {} if hit.is_probe else {'reset': 500000} if hit.n == 1 else
        {'status': 503, 'retry_after': 2} if hit.n == 2 else {})
    mirror = far.share('/g', lab.data.small, but_the_first({'flip': True}))
    r = lab.get(url, '--mirror', mirror, '-j', 1, *known(lab.data.small), file=lab.data.small)
    check('two sources' in r.err, f'the piece was not mixed: {r.err}')
    check(f'{far.url} sent wrong bytes' in r.err or f'{far.url} is dropped' in r.err, f'the liar is not named: {r.err}')
