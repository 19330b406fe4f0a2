#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens every page of the manual's site in headless Chromium, as wide as a phone.

usage: check.py SITE      fails if a link leads nowhere, a script has an error, a page is wider than the phone or its letters are
                          small, or the search does not find a function

A page of this program's own loads the others into a frame, one after the other, and sends what it saw to the server that it came
from. Each page gets a script in its head that keeps the errors of the others.
"""
import html.parser
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

site = pathlib.Path(sys.argv[1]).resolve()
swift = "swift/documentation/runloopkit/"
WIDTH = 390
SECONDS = 240
KEEPER = b"<script>window.seen = []; addEventListener('error', e => seen.push(e.message || 'not loaded: ' + e.target.src), true);" \
    b"addEventListener('unhandledrejection', e => seen.push(String(e.reason)));</script>"
HARNESS = """<!doctype html><title>check</title><iframe id=frame width=%(width)d height=844 style="border:0"></iframe><script>
const frame = document.getElementById('frame'), found = [];
const load = url => new Promise(done => { frame.onload = done; frame.src = url; });
const until = async (what, seconds) => { for (let i = 0; i < seconds * 20; i++) { const it = what(); if (it) return it;
    await new Promise(done => setTimeout(done, 50)); } return null; };
const look = async (url, part) => {
    await load(url);
    const view = frame.contentWindow, article = await until(() => view.document.querySelector(part), 10);
    if (!article) { found.push(url + ': has no ' + part); return; }
    for (const error of view.seen) found.push(url + ': ' + error);
    const width = view.document.documentElement.scrollWidth;
    if (width > %(width)d) found.push(url + ': is ' + width + ' pixels wide');
    const letters = parseFloat(view.getComputedStyle(article).fontSize);
    if (letters < 14) found.push(url + ': has letters of ' + letters + ' pixels');
};
(async () => {
    for (const url of %(pages)s) await look(url, 'article');
    if (%(swift)s) await look('/%(swiftpage)s', 'main');
    await load('/index.html?q=RLTimerSetTolerance');
    const hit = await until(() => frame.contentWindow.document.querySelector('a.md-search-result__link[href*="c/timer.html"]'), 20);
    if (!hit) found.push('the search does not find RLTimerSetTolerance');
})().catch(error => found.push(String(error))).then(() => fetch('/result', {method: 'POST', body: JSON.stringify(found)}));
</script>"""


class Links(html.parser.HTMLParser):
    """The places of a page, and what it links to."""

    def __init__(self):
        super().__init__()
        self.places, self.links = set(), []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places.update(filter(None, (values.get("id"), values.get("name"))))
        self.links += [values[name] for name in ("href", "src") if values.get(name)]


def links():
    """Says which links within the site lead nowhere. The pages of the Swift modules are made by a program that checks them itself."""
    read, broken = {}, []
    for path in pages:
        read[path] = Links()
        read[path].feed(path.read_text())
    for path, page in read.items():
        for link in page.links:
            target, _, place = urllib.parse.unquote(link).partition("#")
            if link.startswith(("data:", "mailto:")) or urllib.parse.urlsplit(link).scheme:
                continue
            target = target.partition("?")[0]
            file = path if not target else (path.parent / target).resolve()
            if file.is_dir():
                file = file / "index.html"
            if not file.exists() or place and file in read and place not in read[file].places:
                broken.append(f"{path.relative_to(site)}: leads nowhere: {link}")
    return broken


class Server(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(site))

    def do_GET(self):
        path = site / urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        if path.is_dir():
            path = path / "index.html"
        if self.path == "/check":
            self.answer(HARNESS % {"width": WIDTH, "pages": json.dumps(["/" + str(page.relative_to(site)) for page in pages]),
                                   "swift": json.dumps((site / swift).exists()), "swiftpage": swift}, "text/html")
        elif path.suffix == ".html" and path.is_file():
            self.answer(path.read_bytes().replace(b"<head>", b"<head>" + KEEPER, 1), "text/html")
        elif self.path == "/favicon.ico":
            self.answer("", "image/x-icon")
        else:
            super().do_GET()

    def do_POST(self):
        results.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("", "text/plain")
        done.set()

    def answer(self, text, kind):
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

    def log_error(self, text, *values):
        # The pages of the Swift modules ask for settings that nobody has to give.
        if self.path != "/swift/theme-settings.json":
            missing.append(f"{self.path}: {text % values}")


pages = sorted(path for path in site.rglob("*.html") if site / "swift" not in path.parents and path.name != "404.html")
results, missing, done = [], [], threading.Event()
problems = links()
chromium = shutil.which("chromium") or sys.exit("chromium is missing")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
    flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}", "--window-size=500,900"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    browser = subprocess.Popen([chromium, *flags, f"http://127.0.0.1:{server.server_port}/check"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    finished = done.wait(SECONDS)
    browser.terminate()
    browser.wait()
problems += results[0] if finished else [f"Chromium has not ended in {SECONDS} seconds"]
problems += missing
for problem in problems:
    print(problem)
print(f"{len(pages)} pages{' and those of the Swift modules' if (site / swift).exists() else ''}, {len(problems)} problems")
sys.exit(bool(problems))
