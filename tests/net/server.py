#!/usr/bin/env python3
"""An HTTP/1.1 file server that can be told to misbehave, and a proxy. Only Python's own library; on 127.0.0.1 unless told otherwise.

In a test:   server = Server(); server.share('/f', '/path/to/file', rules=[{'status': 503, 'retry_after': 1}, {}])
By itself:   server.py [--tls KEY CERT] [--address ADDRESS] [--congestion NAME] NAME=FILE...
             prints its URL, serves FILE as /NAME until its standard input ends.
             POST /control with {"path": "/NAME", "rules": [...]} sets rules; GET /control tells requests and bytes of each path.

Rules of a path are a list: each request takes the next one and the last one stays. In a test it may also be a function that
gets the Hit and returns a rule. A rule is a dict of any of these:
  status N             answer with this status and no file        retry_after V    Retry-After of it: seconds or a date
  location URL         redirect (302, or status)                  headers {N: V}   more headers
  ranges 'ignore'      200 and the whole file, no Accept-Ranges   etag V, modified V   other ones; None: none
  shift N              a 206 that starts N bytes later than asked  bare True        a 206 without Content-Range
  short N              a 206 of at most N bytes, rightly described total N          size of the whole that the head tells
  length N             Content-Length is N more than the body     framing 'chunked' | 'close'   no Content-Length
  gzip 'always' | 'asked'   Content-Encoding: gzip                file PATH        another file's bytes
  cut N, reset N, stall N   after N bytes of the body: end the connection cleanly, reset it, fall silent
  hold (N, EVENT)      after N bytes of the body: wait until the event is set (in a test)
  rate N               bytes a second                             flip True        every byte is wrong
  pad N                bytes of useless headers (None: endless)   drip S           seconds between the bytes of the head
  login 'user:password'     401 unless asked with it              hook F           F(hit) is called first (in a test)
"""
import argparse
import base64
import gzip
import json
import os
import re
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass, field

BLOCK = 256 << 10


@dataclass
class Hit:
    """One request, and what was sent for it."""
    path: str
    method: str
    headers: dict  # names in lower case
    n: int  # of this path, from 0
    time: float
    first: int = None  # of the range asked for; None: no range
    last: int = None
    status: int = 0
    start: int = 0  # of what was sent: offset in the file
    sent: int = 0
    client: tuple = None
    query: str = ''

    @property
    def is_probe(self):
        return self.first == 0 and self.last == 0

    @property
    def asked(self):
        return self.last - self.first + 1 if self.first is not None and self.last is not None else None


@dataclass
class Share:
    file: str
    rules: object = None
    etag: str = '"v1"'
    modified: str = 'Tue, 01 Jul 2025 00:00:00 GMT'
    hits: list = field(default_factory=list)

    def rule(self, hit):
        if callable(self.rules):
            return self.rules(hit) or {}
        if not self.rules:
            return {}
        return self.rules[min(hit.n, len(self.rules) - 1)]


class Gone(Exception):
    """The connection is over."""


class Connection:
    def __init__(self, sock, client, server):
        self.sock, self.client, self.server = sock, client, server
        self.input = sock.makefile('rb')

    def head(self):
        line = self.input.readline(65537)
        if not line.strip():
            raise Gone
        method, target, _ = line.decode('latin-1').split()
        headers = {}
        while (line := self.input.readline(65537)).strip():
            name, _, value = line.decode('latin-1').partition(':')
            headers[name.strip().lower()] = value.strip()
        return method, target, headers

    def run(self):
        try:
            while True:
                method, target, headers = self.head()
                body = self.input.read(int(headers.get('content-length', 0)))
                self.server.answer(self, method, target, headers, body)
                if headers.get('connection', '').lower() == 'close':
                    break
        except (Gone, OSError, ValueError, ssl.SSLError):
            pass

    def send(self, data):
        self.sock.sendall(data)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()
        raise Gone

    def reply(self, status, headers=(), body=b'', head_only=False):
        lines = [f'HTTP/1.1 {status} -'] + [f'{n}: {v}' for n, v in headers] + [f'Content-Length: {len(body)}', '', '']
        self.send('\r\n'.join(lines).encode('latin-1') + (b'' if head_only else body))

    def wait_for_end(self, stopped):
        """Silence until the client leaves."""
        self.sock.settimeout(0.2)
        while not stopped.is_set():
            try:
                if not self.input.read(1):
                    break
            except TimeoutError:
                self.input = self.sock.makefile('rb')
        raise Gone


class Listener:
    """Threads for connections to a port of 127.0.0.1, or of another address when one is named."""

    def __init__(self, tls=None, address='127.0.0.1'):
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def setup(self):
                self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if outer.congestion:
                    self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, outer.congestion.encode())
                if outer.context:
                    self.request.settimeout(20)
                    self.request = outer.context.wrap_socket(self.request, server_side=True)
                    self.request.settimeout(None)

            def handle(self):
                outer.connections += 1
                Connection(self.request, self.client_address, outer).run()

        class Threads(socketserver.ThreadingTCPServer):
            daemon_threads = allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass  # a client that leaves, or that does not like the certificate

        self.context = self.congestion = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(tls[1], tls[0])
        self.stopped = threading.Event()
        self.connections = 0
        self.lock = threading.Lock()
        self.threads = Threads((address, 0), Handler)
        self.port = self.threads.server_address[1]
        self.url = f'{"https" if tls else "http"}://{address}:{self.port}'
        threading.Thread(target=self.threads.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.stopped.set()
        self.threads.shutdown()
        self.threads.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server(Listener):
    def __init__(self, tls=None, address='127.0.0.1'):
        super().__init__(tls, address)
        self.shares = {}
        self.pages = {}  # path: function(hit) that gives status, headers, body
        self.log = []  # of all requests

    def share(self, path, file, rules=None, **more):
        self.shares[path] = Share(file, rules, **more)
        return self.url + path

    def page(self, path, answer):
        self.pages[path] = answer
        return self.url + path

    def hits(self, path=None):
        with self.lock:
            return [h for h in self.log if path is None or h.path == path]

    def forget(self):
        with self.lock:
            self.log.clear()

    def sent(self, path=None):
        return sum(h.sent for h in self.hits(path))

    # ---- one request ----

    def answer(self, conn, method, target, headers, body):
        path = urllib.parse.unquote(target.partition('?')[0])
        with self.lock:
            hit = Hit(target if target in self.shares or target in self.pages else path, method, headers,
                sum(h.path in (path, target) for h in self.log), time.monotonic(), client=conn.client, query=target.partition('?')[2])
            self.log.append(hit)
        if m := re.fullmatch(r'bytes=(\d+)-(\d*)', headers.get('range', '')):
            hit.first, hit.last = int(m[1]), int(m[2]) if m[2] else None
        if path == '/control':
            return self.control(conn, method, body)
        page, share = self.pages.get(target, self.pages.get(path)), self.shares.get(target, self.shares.get(path))
        if page:
            hit.status, more, text = page(hit)
            return conn.reply(hit.status, more.items(), text, method == 'HEAD')
        if not share or method not in ('GET', 'HEAD'):
            hit.status = 405 if share else 404
            return conn.reply(hit.status, body=b'no\n', head_only=method == 'HEAD')
        share.hits.append(hit)
        self.serve(conn, hit, share, share.rule(hit))

    def control(self, conn, method, body):
        if method == 'POST':
            order = json.loads(body)
            self.shares[order['path']].rules = order['rules']
            return conn.reply(200)
        with self.lock:
            told = {p: {'requests': sum(h.path == p for h in self.log), 'bytes': sum(h.sent for h in self.log if h.path == p)}
                for p in self.shares}
        conn.reply(200, [('Content-Type', 'application/json')], json.dumps(told).encode())

    def serve(self, conn, hit, share, rule):
        if 'hook' in rule:
            rule['hook'](hit)
        if 'login' in rule:
            wanted = 'Basic ' + base64.b64encode(rule['login'].encode()).decode()
            if hit.headers.get('authorization') != wanted:
                rule = dict(rule, status=401, headers={'WWW-Authenticate': 'Basic realm="x"'})
        if 'location' in rule or 'status' in rule:
            hit.status = rule.get('status', 302)
            more = dict(rule.get('headers', {}))
            if 'location' in rule:
                more['Location'] = rule['location']
            if 'retry_after' in rule:
                more['Retry-After'] = rule['retry_after']
            return conn.reply(hit.status, more.items(), b'' if 'location' in rule else b'not now\n', hit.method == 'HEAD')
        with open(rule.get('file', share.file), 'rb') as f:
            self.serve_file(conn, hit, share, rule, f)

    def serve_file(self, conn, hit, share, rule, f):
        size = os.fstat(f.fileno()).st_size
        total = rule.get('total', size)
        lines = []
        first, end = 0, size
        hit.status = 200
        if rule.get('ranges') != 'ignore':
            lines.append('Accept-Ranges: bytes')
            if hit.first is not None:
                first, end = hit.first + rule.get('shift', 0), min(size, hit.last + 1 if hit.last is not None else size)
                end = min(size, max(end, first + 1), first + rule.get('short', size))
                if hit.first >= size:
                    hit.status = 416
                    return conn.reply(416, [('Content-Range', f'bytes */{total}')])
                hit.status = 206
                if not rule.get('bare'):
                    lines.append(f'Content-Range: bytes {first}-{end - 1}/{total}')
        body = None
        if rule.get('gzip') == 'always' or (rule.get('gzip') == 'asked' and 'gzip' in hit.headers.get('accept-encoding', '')):
            f.seek(first)
            body = gzip.compress(f.read(end - first))
            lines.append('Content-Encoding: gzip')
        length = len(body) if body is not None else end - first
        for name, value in (('ETag', rule.get('etag', share.etag)), ('Last-Modified', rule.get('modified', share.modified))):
            if value is not None:
                lines.append(f'{name}: {value}')
        lines += [f'{n}: {v}' for n, v in rule.get('headers', {}).items()]
        framing = rule.get('framing')
        if framing == 'chunked':
            lines.append('Transfer-Encoding: chunked')
        elif framing == 'close':
            lines.append('Connection: close')
        else:
            lines.append(f'Content-Length: {length + rule.get("length", 0)}')
        self.send_head(conn, f'HTTP/1.1 {hit.status} -', lines, rule)
        hit.start = first
        if hit.method != 'HEAD':
            self.send_body(conn, hit, rule, f, first, length, body)
        if framing == 'close' or 'length' in rule:
            raise Gone

    def send_head(self, conn, status, lines, rule):
        if 'pad' in rule:
            conn.send((status + '\r\n').encode())
            left = rule['pad']
            while left is None or left > 0:
                conn.send(b'X-Pad: ' + b'x' * 1000 + b'\r\n')
                left = None if left is None else left - 1000
                if self.stopped.is_set():
                    raise Gone
            return conn.send('\r\n'.join(lines + ['', '']).encode('latin-1'))
        data = '\r\n'.join([status] + lines + ['', '']).encode('latin-1')
        if 'drip' not in rule:
            return conn.send(data)
        for byte in data:
            conn.send(bytes([byte]))
            if self.stopped.wait(rule['drip']):
                raise Gone

    def send_body(self, conn, hit, rule, f, first, length, body):
        limits = [rule[k] for k in ('cut', 'reset', 'stall') if k in rule]
        most = min(limits + [length])
        chunked = rule.get('framing') == 'chunked'
        plain = body is None and not chunked and not rule.get('flip') and not self.context and not rule.get('rate') and not rule.get('hold')
        if plain:
            while hit.sent < most:
                n = os.sendfile(conn.sock.fileno(), f.fileno(), first + hit.sent, min(most - hit.sent, 4 << 20))
                if n == 0:
                    raise Gone
                hit.sent += n
        block = max(1, min(BLOCK, rule['rate'] // 20)) if rule.get('rate') else BLOCK
        hold, gate = rule.get('hold') or (length, None)
        while hit.sent < most:
            while gate and hit.sent >= hold and not gate.wait(0.05):
                if self.stopped.is_set():
                    raise Gone
            n = min(block, most - hit.sent if hit.sent >= hold else hold - hit.sent)
            if body is not None:
                data = body[hit.sent:hit.sent + n]
            else:
                data = os.pread(f.fileno(), n, first + hit.sent)
            if rule.get('flip'):
                data = bytes(b ^ 0xFF for b in data)
            conn.send(b'%x\r\n%s\r\n' % (n, data) if chunked else data)
            hit.sent += n
            if rule.get('rate') and self.stopped.wait(n / rule['rate']):
                raise Gone
        if most < length or limits:
            if 'reset' in rule:
                conn.reset()
            if 'stall' in rule:
                conn.wait_for_end(self.stopped)
            raise Gone
        if chunked:
            conn.send(b'0\r\n\r\n')


class Proxy(Listener):
    """Carries requests for http://127.0.0.1 and tunnels to it; login: 'user:password' that it wants."""

    def __init__(self, login=None):
        super().__init__()
        self.login = login
        self.log = []  # (method, target, headers)

    def answer(self, conn, method, target, headers, body):
        with self.lock:
            self.log.append((method, target, headers))
        if self.login and headers.get('proxy-authorization') != 'Basic ' + base64.b64encode(self.login.encode()).decode():
            return conn.reply(407, [('Proxy-Authenticate', 'Basic realm="p"')])
        host, port = self.where(method, target)
        if host != '127.0.0.1':
            return conn.reply(502)
        with socket.create_connection((host, port), 20) as far:
            if method == 'CONNECT':
                conn.send(b'HTTP/1.1 200 -\r\n\r\n')
            else:
                url = urllib.parse.urlsplit(target)
                lines = [f'{method} {url.path}{"?" + url.query if url.query else ""} HTTP/1.1']
                lines += [f'{n}: {v}' for n, v in headers.items() if not n.startswith('proxy-')] + ['Connection: close', '', '']
                far.sendall('\r\n'.join(lines).encode('latin-1') + body)
            self.carry(conn.sock, far, method == 'CONNECT')
        raise Gone

    @staticmethod
    def where(method, target):
        if method == 'CONNECT':
            host, _, port = target.rpartition(':')
            return host, int(port)
        url = urllib.parse.urlsplit(target)
        return url.hostname, url.port or 80

    @staticmethod
    def carry(near, far, both_ways):
        def back():
            try:
                while data := near.recv(65536):
                    far.sendall(data)
                far.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        if both_ways:
            threading.Thread(target=back, daemon=True).start()
        while data := far.recv(65536):
            near.sendall(data)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument('--tls', nargs=2, metavar=('KEY', 'CERT'))
    args.add_argument('--address', default='127.0.0.1')
    args.add_argument('--congestion', help="TCP's reaction to losses: cubic, bbr")
    args.add_argument('files', nargs='*', metavar='NAME=FILE')
    o = args.parse_args()
    with Server(o.tls, o.address) as server:
        server.congestion = o.congestion
        for item in o.files:
            name, _, file = item.partition('=')
            server.share('/' + name, file)
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == '__main__':
    main()
