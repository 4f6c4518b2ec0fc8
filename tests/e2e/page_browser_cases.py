"""The page of a run in a real browser: it is loaded, clicked through and left open. The browser is driven through chromedriver.

  python3 tests/e2e/page_browser_cases.py QUERN FOLDER      FOLDER has the runs a and b; exit code 0: all hold
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

QUERN, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE_S = 60


def until(what, condition):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")


class Browser:
    """One window of a headless Chromium."""

    def __init__(self, folder):
        log = open(folder / "chromedriver.log", "w")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                break
        self.root = f"http://127.0.0.1:{found[1]}/session"
        # Without its own sandbox, which root may not use; without /dev/shm, which is small in containers.
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,1000",
                     f"--user-data-dir={folder / 'chromium'}"]
        asked = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.root += "/" + self.ask("", {"capabilities": {"alwaysMatch": asked}})["sessionId"]

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            return json.load(urllib.request.urlopen(request, timeout=PATIENCE_S))["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {body}: {error.read().decode()[:600]}") from None

    def open(self, url):
        self.ask("/url", {"url": url})

    def run(self, script, *arguments):
        return self.ask("/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector, text=None):
        """The first element that fits, with exactly that text where one is given."""
        found = self.run("return [...document.querySelectorAll(arguments[0])].find(e => arguments[1] === null || e.textContent === arguments[1])",
                         selector, text)
        assert found, f"nothing to click on: {selector} {text}"
        self.run("arguments[0].scrollIntoView({block: 'center'})", found)
        self.ask(f"/element/{found[ELEMENT]}/click", {})

    def hover(self, selector):
        found = self.run("const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'}); return e", selector)
        move = {"type": "pointerMove", "duration": 0, "origin": found, "x": 20, "y": 5}
        self.ask("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def prefer(self, scheme):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": media})

    def resize(self, width):
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride",
                                       "params": {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}})

    def complaints(self):
        return [entry["message"] for entry in self.ask("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def close(self):
        self.ask("", method="DELETE")
        self.driver.terminate()
        self.driver.wait()


LINES = "return document.querySelectorAll('[data-chart=\"Speed-up of right kernels\"] polyline').length"
HACKED = "return window.hacked === undefined && !document.querySelector('main img, main script')"


def check_charts(browser):
    charts = browser.run("return [...document.querySelectorAll('figure')].map(f => f.dataset.chart)")
    for chart in ("Mean reward", "Kernels that are right", "Speed-up of right kernels", "Verdicts", "Staleness", "Generator", "Learner", "Loss"):
        assert chart in charts, charts
    assert browser.run(LINES) == 2
    browser.click('[data-chart="Speed-up of right kernels"] .legend button', "best")
    assert browser.run(LINES) == 1
    browser.click('[data-chart="Speed-up of right kernels"] .legend button', "best")
    assert browser.run(LINES) == 2
    browser.hover('[data-chart="Mean reward"] figcaption + div svg')
    told = browser.run("return document.querySelector('[data-chart=\"Mean reward\"] .readout').textContent")
    assert re.fullmatch(r"step \d: mean reward [\d.]+", told), told
    # Curves of a later build are there, too.
    browser.click("[data-key='more curves'] summary")
    shown = "return document.querySelector('[data-chart=\"learner.new_of_a_later_build\"] polyline') !== null"
    until("the other curves", lambda: browser.run(shown))


def check_tables(browser):
    cells = "return [...document.querySelectorAll('[data-table=tasks] tbody tr')].map(row => row.lastChild.textContent)"
    assert browser.run(cells) == ["9.00 x", "1.60 x", "1.40 x"], browser.run(cells)
    browser.click("[data-table=tasks] th button", "best speed-up")
    assert browser.run(cells) == ["9.00 x", "1.60 x", "1.40 x"]
    browser.click("[data-table=tasks] th button", "best speed-up")
    assert browser.run(cells) == ["1.40 x", "1.60 x", "9.00 x"]
    assert browser.run("return document.querySelector('[data-table=tasks] [aria-sort=ascending]').textContent") == "best speed-up"
    for id in ("curves", "tasks", "kernels", "samples", "settings", "report"):
        browser.click(f"nav a[href='#{id}']")
        assert browser.run("return location.hash") == "#" + id
        assert browser.run("return Math.abs(document.getElementById(arguments[0]).getBoundingClientRect().top) < innerHeight", id)


def check_kernel(browser):
    assert browser.run("return document.querySelector('pre.source')") is None
    browser.click("#kernels summary")
    source = until("the kernel's source", lambda: browser.run("return document.querySelector('pre.source')?.textContent"))
    assert source.startswith("// </script><script>window.hacked = 1</script><img src=x onerror="), source
    browser.click("#kernels details details summary")
    verdict = "return document.querySelector('#kernels details details pre')?.textContent"
    assert '"verdict": "ok"' in until("the kernel's verdict", lambda: browser.run(verdict))
    assert browser.run(HACKED)


def check_looks(browser):
    background = "return getComputedStyle(document.body).backgroundColor"
    looks = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        looks.append(browser.run(background))
    assert looks[0] == "rgb(255, 255, 255)" and looks[1] == "rgb(20, 23, 27)", looks
    for width in (1300, 420):
        browser.resize(width)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"wider than {width} pixels"
    browser.resize(1300)


def check_policy(browser):
    """The controls: what the page's policy forbids is forbidden."""
    inline = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); return window.ran === undefined"
    assert browser.run(inline)
    assert browser.run("return fetch('http://127.0.0.1:9/').then(() => 'answered', error => error.name)") == "TypeError"
    assert any("Content Security Policy" in text for text in browser.complaints())


def check_file(browser):
    subprocess.run([QUERN, "report", FOLDER / "a"], check=True, stdout=subprocess.DEVNULL)
    browser.open((FOLDER / "a/report.html").as_uri())
    assert browser.run("return document.title") == "quern report: a"
    assert browser.run("return document.querySelector('.pill').textContent") == "complete"
    check_charts(browser)
    check_tables(browser)
    check_kernel(browser)
    check_looks(browser)
    assert browser.run("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert browser.complaints() == []
    check_policy(browser)


def check_comparison(browser):
    page = FOLDER / "compare.html"
    subprocess.run([QUERN, "compare", FOLDER / "a", FOLDER / "b", "--html", page], check=True, stdout=subprocess.DEVNULL)
    browser.open(page.as_uri())
    names = browser.run("return [...document.querySelectorAll('[data-chart=\"Mean reward\"] .legend button')].map(b => b.textContent)")
    assert names == [str(FOLDER / "a"), str(FOLDER / "b")], names
    assert "learner.learning_rate" in browser.run("return document.getElementById('settings').textContent")
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []


def check_live(browser):
    server = subprocess.Popen([QUERN, "report", FOLDER / "b", "--serve", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    url = re.search(r"http://\S+", server.stdout.readline())[0]
    browser.open(url)
    tile = "return document.querySelector('.tile b').textContent"
    assert browser.run(tile) == "1 of 6", browser.run(tile)
    browser.click("#kernels summary")
    browser.click('[data-chart="Speed-up of right kernels"] .legend button', "best")
    with open(FOLDER / "b/metrics.jsonl", "a") as metrics:
        metrics.write('{"step": 2, "batch": {"samples": 4, "rewarded": 2, "reward": 0.5, "verdicts": {"ok": 4}}}\n')
    until("the new step", lambda: browser.run(tile) == "2 of 6")
    # What a person has opened and hidden stays so.
    assert browser.run("return document.querySelector('#kernels details').open")
    assert browser.run("return document.querySelector('pre.source') !== null")
    hidden = "return document.querySelector('[data-chart=\"Speed-up of right kernels\"] .legend [aria-pressed=false]').textContent"
    assert browser.run(hidden) == "best"
    assert browser.run(HACKED)
    fetched = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert fetched and all(name.startswith(url + "data.json?since=") for name in fetched), fetched
    assert browser.complaints() == []
    server.send_signal(signal.SIGINT)
    assert server.wait(PATIENCE_S) == 0
    told = "return document.getElementById('told').textContent"
    until("that nobody answers", lambda: "nobody answers" in browser.run(told))


def main():
    browser = Browser(FOLDER)
    try:
        check_file(browser)
        check_comparison(browser)
        check_live(browser)
    finally:
        browser.close()


main()
