#!/usr/bin/env python3
"""Opens a report in headless Chromium from its file, and fails on what no report may do:
a request, a message on the console, a page wider than the window, a picture or a region without a name,
keyboard focus that goes nowhere, text of too little contrast. Chromium and Python suffice.

    python3 scripts/check_report.py runs/first/report.html [--shots DIR]
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (360, 768, 1440)

# What the page is asked: overflow, names, headers, and the contrast of every text with what is behind it.
LOOK = r"""
(() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} px wide, the window ${root.clientWidth}`);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll, svg')) continue;
    const right = e.getBoundingClientRect().right;
    if (right > root.clientWidth + 1) faults.push(`${e.tagName} ends at ${Math.round(right)} px`);
  }
  for (const e of document.querySelectorAll('.scroll'))
    if (e.tabIndex !== 0 || !document.getElementById(e.getAttribute('aria-labelledby'))) faults.push('a region that scrolls has no name, or no focus');
  for (const e of document.querySelectorAll('svg'))
    if (e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label') || !e.querySelector('title') || !e.querySelector('desc')) faults.push('a picture has no name');
  for (const e of document.querySelectorAll('th'))
    if (!e.scope) faults.push(`the header ${e.textContent} has no scope`);
  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
    if (+e.tagName[1] > level + 1) faults.push(`the heading ${e.textContent} skips a level`);
    level = +e.tagName[1];
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) faults.push('an id is there twice');
  for (const e of document.querySelectorAll('script, link, img, iframe, [src], [style], [onclick]')) faults.push(`${e.tagName} does not belong here`);
  const parse = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = e => e ? over(parse(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255, 1];
  const luminance = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
    const x = c[i] / 255;
    return sum + w * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  }, 0);
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('title, desc')) continue;
    const style = getComputedStyle(e), ground = behind(e.closest('svg') ? e.closest('svg').parentElement : e);
    const ink = over(parse(e.closest('svg') ? style.fill : style.color), ground);
    const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faults.push(`"${e.textContent.trim().slice(0, 30)}" has a contrast of ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return faults;
})()
"""


class Browser:
    """Chromium, spoken to through pipes."""

    def __init__(self, profile):
        name = next((n for n in ("chromium", "chromium-browser", "google-chrome") if shutil.which(n)), None)
        if not name:
            sys.exit("Chromium is missing: install the package chromium")
        to_read, self.out = os.pipe()
        self.inn, to_write = os.pipe()

        def place():  # descriptors 3 and 4 are where Chromium looks
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            preexec_fn=place, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None

    def receive(self):
        while b"\0" not in self.buffer:
            got = os.read(self.inn, 1 << 16)
            if not got:
                sys.exit("Chromium ended")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self.receive()
            if got.get("id") == self.number:
                if "error" in got:
                    sys.exit(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def wait(self, method):
        while True:
            for e in self.events:
                if e.get("method") == method:
                    self.events.remove(e)
                    return e
            self.events.append(self.receive())

    def evaluate(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in got:
            sys.exit(f"the look at the page failed: {got['exceptionDetails']}")
        return got["result"].get("value")


def check(browser, report, shots):
    faults, url, name = [], report.resolve().as_uri(), f"{report.parent.name}-{report.stem}"
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable")
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for width in WIDTHS:
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            browser.events.clear()
            browser.call("Page.navigate", url=url)
            browser.wait("Page.loadEventFired")
            browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            where = f"{scheme}, {width} px: "
            faults += [where + f for f in browser.evaluate(LOOK)]
            focused = 0
            for _ in range(200):  # until the focus leaves the page
                for kind in ("keyDown", "keyUp"):
                    browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
                if browser.evaluate("document.activeElement === document.body"):
                    break
                focused += 1
            want = browser.evaluate("document.querySelectorAll('a, summary, [tabindex=\"0\"]').length")
            if focused < want:
                faults.append(where + f"the keyboard reaches {focused} of {want} places")
            for e in browser.events:
                request = e.get("params", {}).get("request", {}).get("url")
                if e.get("method") == "Network.requestWillBeSent" and request != url:
                    faults.append(where + f"a request of {request}")
                if e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                    faults.append(where + f"the console says {json.dumps(e['params'])[:300]}")
            if shots:
                picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
                (shots / f"{name}-{scheme}-{width}.png").write_bytes(base64.b64decode(picture))
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    if b"/MediaBox [0 0 594" not in pdf and b"/MediaBox [0 0 595" not in pdf:
        faults.append("it does not print on A4")
    if shots:
        (shots / f"{name}.pdf").write_bytes(pdf)
    browser.session = None
    browser.call("Target.closeTarget", targetId=target)
    return faults


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("report", nargs="+", type=pathlib.Path)
    p.add_argument("--shots", type=pathlib.Path, help="write pictures of what was seen there")
    a = p.parse_args()
    if a.shots:
        a.shots.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            for report in a.report:
                faults = check(browser, report, a.shots)
                failed |= bool(faults)
                print(f"{report}: " + ("ok" if not faults else f"{len(faults)} faults"))
                for f in faults:
                    print("  " + f)
        finally:
            browser.process.terminate()
            browser.process.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
