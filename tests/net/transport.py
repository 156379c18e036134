"""Names, TLS, slow servers, proxies, logins, rates; disks that are full or read-only; clocks that jump."""
import os
import shutil
import socket
import subprocess
import sys
import threading

from http_cases import known
from lab import AUTH, DISK_FULL, FETCH, NETWORK, NOT_FOUND, OK, READ, USAGE, WRITE, Skip, certificate, check, own_mounts, same, test
from link import Link, NoLink
from server import Proxy
from server import __file__ as SERVER


# ---- reaching a server ----

@test
def name_that_does_not_resolve(lab):
    lab.get('http://no-such-host.invalid/f', '--retries', 1).ends(NETWORK, 'no-such-host.invalid')
    lab.absent()


@test
def name_of_a_mirror_that_does_not_resolve(lab):
    r = lab.get(lab.server.share('/f', lab.data.medium), '--mirror', 'http://no-such-host.invalid/f', '--retries', 1, *known(lab.data.medium),
        file=lab.data.medium)
    check('mirror left out: http://no-such-host.invalid/f' in r.err, 'it is not said')


@test
def nobody_listens(lab):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        lab.get(f'http://127.0.0.1:{s.getsockname()[1]}/f', '--retries', 1).ends(NETWORK)


@test
def not_a_web_server(lab):
    with socket.create_server(('127.0.0.1', 0)) as s:
        def talk():
            for _ in range(2):
                s.accept()[0].sendall(b'SSH-2.0-OpenSSH_9.2\r\n' * 100)
        threading.Thread(target=talk, daemon=True).start()
        r = lab.get(f'http://127.0.0.1:{s.getsockname()[1]}/f', '--retries', 1)
        check(r.status != OK, 'it succeeded')
        lab.absent()


@test
def addresses_that_are_none(lab):
    for url in ('http://', 'http:///f', 'http://[::1', 'https://127.0.0.1:99999/f', 'http://127.0.0.1:1/%zz\n'):
        r = lab.get(url, '--retries', 0)
        check(r.status in (USAGE, NETWORK), f'{url!r} ended with {r.status}: {r.err}')
        lab.absent()


# ---- TLS ----

@test
def tls_with_a_certificate_of_nobody(lab):
    server = lab.new_server(certificate(lab.dir))
    lab.get(server.share('/f', lab.data.medium)).ends(NETWORK, 'certificate')
    lab.absent()
    same(server.hits(), [], 'requests that reached the server')


@test
def tls_with_a_known_authority(lab):
    key, cert = certificate(lab.dir)
    server = lab.new_server((key, cert))
    for name in ('CURL_CA_BUNDLE', 'SSL_CERT_FILE'):
        lab.get(server.share('/f', lab.data.medium), env={name: cert}, file=lab.data.medium)
        os.unlink(lab.target())


@test
def tls_for_another_name(lab):
    key, cert = certificate(lab.dir)
    server = lab.new_server((key, cert))
    server.share('/f', lab.data.small)
    lab.get(f'https://ip6-localhost.localhost:{server.port}/f', '--retries', 1, env={'CURL_CA_BUNDLE': cert}).ends(NETWORK)
    same(server.hits(), [], 'requests that reached the server')


@test
def tls_with_no_authorities(lab):
    server = lab.new_server(certificate(lab.dir))
    lab.get(server.share('/f', lab.data.small), env={'CURL_CA_BUNDLE': lab.path('absent.pem')}).ends(NETWORK)


@test
def tls_to_clear_text(lab):
    """192.0.2.1 answers nobody: the redirect is refused before a connection is made."""
    key, cert = certificate(lab.dir)
    server = lab.new_server((key, cert))
    url = server.share('/f', lab.data.small, [{'location': 'http://192.0.2.1/g'}])
    lab.get(url, env={'CURL_CA_BUNDLE': cert}).ends(NETWORK, 'from https to http')


# ---- slow ones ----

@test
def silence_in_the_body(lab):
    lab.get(lab.server.share('/f', lab.data.medium, lambda hit: {'stall': 1000} if hit.n == 1 else {}), '-j', 1, file=lab.data.medium)


@test
def slow_loris_in_the_head(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'drip': 0.5}]), '--retries', 0).ends(NETWORK, 'slow')


@test
def slow_loris_in_the_body(lab):
    lab.get(lab.server.share('/f', lab.data.medium, lambda hit: {'rate': 100} if hit.n == 1 else {}), '-j', 1, file=lab.data.medium)


@test
def large_head(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'pad': 60000}]), file=lab.data.small)


@test
def head_without_end(lab):
    lab.get(lab.server.share('/f', lab.data.small, [{'pad': None}]), '--retries', 0).ends(NETWORK)
    lab.absent()


@test
def link_with_delay_and_loss(lab):
    """50 ms round trip, 2 % of all packets lost: slower, and right."""
    try:
        link = lab.stack.enter_context(Link(lab.dir, loss_percent=2))
    except NoLink as why:
        raise Skip(str(why)) from why
    server = subprocess.Popen([*link.far, sys.executable, SERVER, '--address', link.far_address, f'f={lab.data.medium}'], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True)
    try:
        lab.get(server.stdout.readline().strip() + '/f', command=link.near, file=lab.data.medium)
    finally:
        server.stdin.close()
        server.wait()


# ---- proxies and logins ----

@test
def proxy_by_option(lab):
    proxy = lab.stack.enter_context(Proxy())
    lab.get(lab.server.share('/f', lab.data.medium), '--proxy', proxy.url, file=lab.data.medium)
    check(proxy.log and len(proxy.log) >= len(lab.server.hits()), 'the proxy was passed by')


@test
def proxy_by_environment(lab):
    proxy = lab.stack.enter_context(Proxy())
    url = lab.server.share('/f', lab.data.medium)
    lab.get(url, env={'http_proxy': proxy.url}, file=lab.data.medium)
    check(len(proxy.log) >= len(lab.server.hits()), 'the proxy was passed by')
    os.unlink(lab.target())
    proxy.log.clear()
    lab.get(url, env={'http_proxy': proxy.url, 'no_proxy': '127.0.0.1'}, file=lab.data.medium)
    same(proxy.log, [], 'requests at the proxy in spite of no_proxy')


@test
def proxy_for_tls(lab):
    """A tunnel, which sees no header of ours."""
    key, cert = certificate(lab.dir)
    server, proxy = lab.new_server((key, cert)), lab.stack.enter_context(Proxy())
    url = server.share('/f', lab.data.medium)
    lab.get(url, '-H', 'X-Key: secret', env={'https_proxy': proxy.url, 'CURL_CA_BUNDLE': cert}, file=lab.data.medium)
    same({(m, t) for m, t, _ in proxy.log}, {('CONNECT', f'127.0.0.1:{server.port}')}, 'requests at the proxy')
    check(not any('x-key' in h for _, _, h in proxy.log), 'the proxy saw the secret')
    check(all(h.headers.get('x-key') == 'secret' for h in server.hits()), 'the server did not get the header')


@test
def proxy_with_a_login(lab):
    proxy = lab.stack.enter_context(Proxy('me:secret'))
    url = lab.server.share('/f', lab.data.small)
    lab.get(url, '--proxy', proxy.url).ends(AUTH, '407')
    same(lab.server.hits(), [], 'requests that came through')
    lab.get(url, '--proxy', proxy.url.replace('//', '//me:secret@'), file=lab.data.small)
    check(not any('proxy-authorization' in h.headers for h in lab.server.hits()), "the server saw the proxy's password")


@test
def proxy_for_tls_with_a_login(lab):
    """The tunnel is refused without the password; with it the server sees nothing of it, and the proxy nothing of ours."""
    key, cert = certificate(lab.dir)
    server, proxy = lab.new_server((key, cert)), lab.stack.enter_context(Proxy('me:secret'))
    url, env = server.share('/f', lab.data.medium), {'CURL_CA_BUNDLE': cert}
    for wrong in (proxy.url, proxy.url.replace('//', '//me:wrong@')):
        lab.get(url, '--proxy', wrong, '--retries', 1, env=env).ends(AUTH, '407')
    same(server.hits(), [], 'requests that came through')
    right = proxy.url.replace('//', '//me:secret@')
    for args, more in ((('--proxy', right), {}), ((), {'https_proxy': right})):
        r = lab.get(url, *args, '-H', 'X-Key: key', env={**env, **more}, file=lab.data.medium)
        check('secret' not in r.err, "the proxy's password is in the messages")
        os.unlink(lab.target())
    check(not any('proxy-authorization' in h.headers for h in server.hits()), "the server saw the proxy's password")
    check(not any('x-key' in h for _, _, h in proxy.log), 'the proxy saw the header')


@test
def netrc_only_when_asked(lab):
    with open(lab.path('home', '.netrc'), 'w') as f:
        f.write('machine 127.0.0.1 login me password secret\n')
    url = lab.server.share('/f', lab.data.small, [{'login': 'me:secret'}])
    lab.get(url).ends(AUTH, '401')
    lab.get(url, '--netrc', file=lab.data.small)


@test
def login_in_the_url(lab):
    lab.server.share('/f', lab.data.small, [{'login': 'me:secret'}])
    r = lab.get(lab.server.url.replace('//', '//me:secret@') + '/f', file=lab.data.small)
    check('secret' not in r.err, 'the password is in the messages')


@test
def rate_is_limited(lab):
    """No faster than asked: 9 MiB at 3 MiB a second take 3 s, less what sockets hold."""
    r = lab.get(lab.server.share('/f', lab.data.medium), '--limit-rate', '3M', file=lab.data.medium)
    check(r.seconds > 1.5, f'it took {r.seconds:.1f} s only')


# ---- disks ----

def on_a_disk(lab, options, script, file, rules=None):
    """Run the shell script with DISK, a file system of its own; `fetch` in it is the fetch of the file to $DISK/f."""
    url = lab.server.share('/f', file, rules)
    mount = lab.path('disk')
    os.mkdir(mount)
    shell = f'set -u; DISK={mount}; mount -t tmpfs -o {options} none $DISK\nfetch() {{ "$PROGRAM" {url} -o $DISK/f; }}\n{script}'
    env = dict(lab.env, PROGRAM=FETCH)
    p = subprocess.run([*own_mounts(), 'sh', '-c', shell], env=env, capture_output=True, text=True, timeout=100)
    return p.stdout.split('\n'), p.stderr


@test
def disk_is_too_small(lab):
    """Said before bytes come; once there is room it works."""
    out, err = on_a_disk(lab, 'size=6m', 'fetch >&2; echo $?; mount -o remount,size=40m none $DISK; fetch >&2; echo $?; ls -A $DISK; '
        f'cmp $DISK/f {lab.data.medium}; echo $?', lab.data.medium)
    same(out, [str(DISK_FULL), '0', 'f', '0', ''], f'codes and files; {err}')
    same([h.is_probe for h in lab.server.hits()][:2], [True, True], 'the first request of each run was its only one before the disk was looked at')


@test
def disk_fills_meanwhile(lab):
    """No size is told, so that the end of the room comes as a surprise."""
    out, err = on_a_disk(lab, 'size=6m', 'fetch >&2; echo $?; ls -A $DISK', lab.data.medium, [{'ranges': 'ignore', 'framing': 'chunked'}])
    same(out, [str(DISK_FULL), ''], f'code and files; {err}')


@test
def disk_without_inodes(lab):
    out, err = on_a_disk(lab, 'size=30m,nr_inodes=1', 'fetch >&2; echo $?; ls -A $DISK', lab.data.medium)
    same(out, [str(DISK_FULL), ''], f'code and files; {err}')


@test
def disk_is_read_only(lab):
    out, err = on_a_disk(lab, 'size=30m,ro', 'fetch >&2; echo $?; ls -A $DISK', lab.data.medium)
    same(out, [str(WRITE), ''], f'code and files; {err}')


@test
def target_in_no_folder(lab):
    with open(lab.path('plain'), 'w'):
        pass
    r = lab.fetch(lab.server.share('/f', lab.data.small), '-o', lab.path('plain', 'f'))
    check(r.status in (NOT_FOUND, READ, WRITE), f'ended with {r.status}: {r.err}')


# ---- clocks ----

@test
def clock_jumps(lab):
    """Ten years ahead, then back behind the start, in the middle of a fetch that is also told to wait."""
    if not shutil.which('faketime'):
        raise Skip('faketime is not installed')
    now = lab.path('now')
    turns = {2: '+3650d', 3: '-3650d', 4: '+0'}

    def tell(offset):
        with open(now + '.new', 'w') as f:
            f.write(offset + '\n')
        os.replace(now + '.new', now)

    def rule(hit):
        if hit.n in turns:
            tell(turns[hit.n])
        return {'status': 503, 'retry_after': 1} if hit.n in (1, 3) else {}

    tell('+0')
    library = subprocess.run(['faketime', 'now', 'printenv', 'LD_PRELOAD'], capture_output=True, text=True).stdout.strip()
    env = {'LD_PRELOAD': library, 'FAKETIME_TIMESTAMP_FILE': now, 'FAKETIME_NO_CACHE': '1', 'FAKETIME_DONT_FAKE_MONOTONIC': '1',
        'DONT_FAKE_MONOTONIC': '1', 'ASAN_OPTIONS': lab.env['ASAN_OPTIONS'] + ':verify_asan_link_order=0'}
    lab.get(lab.server.share('/f', lab.data.big, rule), '-j', 1, env=env, file=lab.data.big)
    check(len(lab.server.hits()) > 4, 'the clock never jumped')
