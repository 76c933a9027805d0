"""The largest plug-ins of pytest, and a small suite that uses each of them.

They are not in the environment, since each would change how all tests run.  The variable FXTIO_PYTEST_PLUGINS names a
folder with all of them; `.ci/run` makes one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_SUITE = """
import asyncio
import unittest
import pytest
from hypothesis import given, strategies

attempts = []

@pytest.fixture(scope="session")
def shared():
    yield

@pytest.fixture
async def awaited():
    await asyncio.sleep(0.001)
    yield 5
    await asyncio.sleep(0.001)

@pytest.fixture
def anyio_backend():
    return "trio"

def test_mock(mocker):
    assert mocker.Mock(return_value=3)() == 3

@pytest.mark.asyncio
async def test_asyncio(awaited, shared):
    assert awaited == 5

@pytest.mark.anyio
async def test_anyio():
    import anyio
    await anyio.sleep(0.001)

@pytest.mark.flaky(reruns=2)
def test_rerun():
    attempts.append(1)
    assert len(attempts) > 1

@pytest.mark.timeout(60)
def test_timeout():
    pass

def test_benchmark(benchmark):
    assert benchmark.pedantic(lambda: 1) == 1

def test_subtests(subtests):
    with subtests.test(number=1):
        pass

def test_freezer(freezer):
    freezer.move_to("2020-01-01")

def test_httpx(httpx_mock):
    import httpx
    httpx_mock.add_response(text="hi")
    assert httpx.get("http://x/").text == "hi"

@given(strategies.integers())
def test_hypothesis(number):
    assert number == number

@pytest.mark.repeat(3)
def test_repeat(shared):
    pass

@pytest.mark.order(1)
def test_order():
    pass

def test_metadata(metadata, extras, record_property):
    record_property("key", 1)

def test_env():
    import os
    assert os.environ["FROM_INI"] == "1"

@pytest.mark.django_db
def test_django(settings):
    from django.contrib.auth.models import User
    User.objects.create(username="x")

class TestUnittest(unittest.TestCase):
    def test_subtest(self):
        with self.subTest(number=1):
            pass

def test_failed():
    assert False

@pytest.mark.xfail
def test_expected():
    assert False

from pytest_bdd import scenario, then

@scenario("it.feature", "Works")
def test_bdd():
    pass

@then("it works")
def works():
    pass
"""

_FILES = {
    "test_it.py": _SUITE,
    "it.feature": "Feature: It\n  Scenario: Works\n    Then it works\n",
    "project.py": """
SECRET_KEY = "x"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
""",
    "pytest.ini": """
[pytest]
DJANGO_SETTINGS_MODULE = project
pythonpath = .
env = FROM_INI=1
asyncio_mode = auto
""",
}


def available() -> str | None:
    """Return None if the plug-ins are there, otherwise the reason why not, in one sentence."""
    if not os.environ.get("FXTIO_PYTEST_PLUGINS"):
        return "there are no plug-ins: FXTIO_PYTEST_PLUGINS names no folder with pytest-django, pytest-mock and others"
    return None


def run(folder: Path, *options: str) -> tuple[dict[str, int], str]:
    """Run the suite in a folder with all plug-ins; return how many tests have which outcome, and the output."""
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "--cov=.", "--html=report.html"]
    done = subprocess.run(
        [*command, "--instafail", "-p", "randomly", *options],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.environ["FXTIO_PYTEST_PLUGINS"], "NO_COLOR": "1"},
        timeout=300,
    )
    output = done.stdout + done.stderr
    return {
        noun: int(count) for count, noun in re.findall(r"(\d+) (passed|failed|xfailed|rerun|error)", output)
    }, output
