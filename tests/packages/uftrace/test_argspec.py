"""Argument specifications: their grammar, what they match, and the values that they describe."""

from __future__ import annotations

import math
import re
import struct
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fxtio.codec.generate import Order
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings
from fxtio.uftrace import argspec, payloads
from fxtio.uftrace.argspec import ArgumentSpecs, ValueSpec, checked_values, parse_enums, parse_value
from fxtio.uftrace.demangle import available, full_name, simple_name
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.layout import InfoBit
from fxtio.uftrace.patterns import BadPatternError, is_name, pattern
from fxtio.uftrace.symbols import Symbol


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("arg1", ValueSpec("arg", 1, "d", 8)),
        ("arg2/i8", ValueSpec("arg", 2, "i", 1)),
        ("arg1/x", ValueSpec("arg", 1, "x", 8)),
        ("arg3/c", ValueSpec("arg", 3, "c", 1)),
        ("arg1/s", ValueSpec("arg", 1, "s", 0)),
        ("arg1/S%RSI", ValueSpec("arg", 1, "S", 0, "", "%RSI")),
        ("arg7/i32%stack+1", ValueSpec("arg", 7, "i", 4, "", "%stack+1")),
        ("fparg1", ValueSpec("fparg", 1, "f", 8)),
        ("fparg1/32", ValueSpec("fparg", 1, "f", 4)),
        ("fparg1/80%stack+1", ValueSpec("fparg", 1, "f", 10, "", "%stack+1")),
        ("retval/f64", ValueSpec("retval", 0, "f", 8)),
        ("retval", ValueSpec("retval", 0, "d", 8)),
        ("arg2/e:Mode", ValueSpec("arg", 2, "e", 8, "Mode")),
        ("arg1/t16:P%XMM0+XMM1", ValueSpec("arg", 1, "t", 16, "P", "%XMM0+XMM1")),
        ("arg1/t0", ValueSpec("arg", 1, "t", 0)),
    ],
)
def test_specifications_are_understood(text: str, value: ValueSpec) -> None:
    assert parse_value(text, 8) == value
    assert parse_value(str(value), 8) == value


@pytest.mark.parametrize(
    "text", ["", "arg", "arg1/q", "arg1/i7", "arg1/i128", "fparg1/16", "argx", "retval1", "arg1/t9999"]
)
def test_invalid_specifications(text: str) -> None:
    assert parse_value(text, 8) is None


def test_pointers_of_32_bits() -> None:
    assert parse_value("arg1", 4) == ValueSpec("arg", 1, "d", 4)
    assert parse_value("arg1/p", 4) == ValueSpec("arg", 1, "p", 4)


INTEGERS = {"i": (True,), "d": (True,), "u": (False,), "x": (False,), "o": (False,)}


def values() -> st.SearchStrategy[tuple[ValueSpec, object]]:
    def integer(form: str, size: int) -> st.SearchStrategy[tuple[ValueSpec, object]]:
        signed = form in "id"
        least, most = (-(2 ** (size * 8 - 1)), 2 ** (size * 8 - 1) - 1) if signed else (0, 2 ** (size * 8) - 1)
        return st.integers(least, most).map(lambda item: (ValueSpec("arg", 1, form, size), item))

    integers = st.tuples(st.sampled_from("iduxo"), st.sampled_from([1, 2, 4, 8])).flatmap(lambda pair: integer(*pair))
    return st.one_of(
        integers,
        st.floats(width=32, allow_nan=False).map(lambda item: (ValueSpec("fparg", 1, "f", 4), item)),
        st.floats(allow_nan=False).map(lambda item: (ValueSpec("fparg", 1, "f", 8), item)),
        st.floats(allow_nan=False).map(lambda item: (ValueSpec("fparg", 1, "f", 10), item)),
        st.text(max_size=20).map(lambda item: (ValueSpec("arg", 1, "s", 0), item)),
        st.none().map(lambda item: (ValueSpec("arg", 1, "S", 0), item)),
        st.binary(min_size=5, max_size=5).map(lambda item: (ValueSpec("arg", 1, "t", 5), item)),
        st.characters(max_codepoint=255).map(lambda item: (ValueSpec("arg", 1, "c", 1), item)),
    )


@given(pairs=st.lists(values(), max_size=6), order=st.sampled_from(["little", "big"]))
def test_values_come_back(pairs: list[tuple[ValueSpec, object]], order: Order) -> None:
    specs = tuple(value for value, _ in pairs)
    payload = payloads.encode(specs, [item for _, item in pairs], order)
    assert len(payload) % 8 == 0
    assert payloads.decode(specs, payload, order) == [item for _, item in pairs]


@given(number=st.floats(allow_nan=False))
def test_long_doubles_are_those_of_the_processor(number: float) -> None:
    if np.finfo(np.longdouble).machep != -63:
        pytest.skip("this machine's long double is another one")
    value = (ValueSpec("fparg", 1, "f", 10),)
    assert payloads.encode(value, [number])[:10] == np.longdouble(number).tobytes()[:10]


def test_long_doubles_beyond_a_double() -> None:
    assert payloads.extended(1 << 63, 0x7FFE) == math.inf
    assert payloads.extended(1 << 63, 0xFFFF) == -math.inf
    assert math.isnan(payloads.extended(3 << 62, 0x7FFF))


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ("arg1/i8", 128, "arg1: 128 is not from -128 to 127"),
        ("arg1/u8", -129, "is not from 0 to 255"),
        ("arg1/i8", "x", "is not an integer"),
        ("arg1/s", 5, "is not text"),
        ("arg1/s", "\ud800", "lone surrogate"),
        ("arg1/s", "\udcc3\udca9", "valid UTF-8"),
        ("arg1/s", "\udcff" * 4, "does not fit"),
        ("fparg1/64", "1.5", "does not fit"),
        ("arg1/t5", 5, "does not fit"),
        ("arg1", 2**63, "is not from"),
        ("arg1/e:E", 2**63, "is not from"),
        ("arg1/i32", 1.0, "is not an integer"),
        ("arg1/i32", True, "is not an integer"),
        ("arg1/c", "ab", "takes 2 bytes"),
        ("arg1/t4", b"abc", "takes 3 bytes"),
        ("arg1/s", "x" * 1100, "over the limit"),
        ("fparg1/64", "x", "does not fit"),
    ],
)
def test_values_that_do_not_fit(spec: str, value: object, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        payloads.encode(checked_values(spec, 8), [value])


def test_a_payload_that_is_too_short() -> None:
    with pytest.raises(DecodeError, match="arg2 goes beyond"):
        payloads.decode(checked_values("arg1/i64,arg2/i64", 8), bytes(8))
    with pytest.raises(DecodeError, match="arg1 goes beyond"):
        payloads.decode(checked_values("arg1/s", 8), struct.pack("<H6x", 50))


def info_with(**lines: str) -> InfoFile:
    info = InfoFile()
    rows = [f"{key.replace('_', '-')}:{value}" for key, value in lines.items() if key != "cmdline"]
    if "cmdline" in lines:
        info.set_block(InfoBit.CMDLINE, f"cmdline:{lines['cmdline']}")
    info.set_block(InfoBit.ARG_SPEC, f"argspec:lines={len(rows)}", *rows)
    return info


def labels(info: InfoFile, name: str, kind: str = "T", module: str = "/x/prog") -> tuple[list[str], list[str]]:
    result = ArgumentSpecs(info, Findings("uftrace", strict=True)).of(Symbol(0, name, kind), module, None)
    return [str(value) for value in result[0]], [str(value) for value in result[1]]


def test_a_later_specification_changes_the_format_not_the_order() -> None:
    info = info_with(argspec="^f@arg2/i32,arg1/s;foo@arg1/x64;^f@arg1/i8", retspec="foo@retval/s")
    assert labels(info, "foo") == (["arg2/i32", "arg1/x64"], ["retval/s"])
    assert labels(info, "far") == (["arg2/i32", "arg1/i8"], [])
    assert labels(info, "bar") == ([], [])


def test_modules_and_library_calls() -> None:
    info = info_with(argspec="f@libx,arg1/i32;g@PLT,arg1/i8")
    assert labels(info, "f", module="/lib/libx.so.1") == (["arg1/i32"], [])
    assert labels(info, "f") == ([], [])
    assert labels(info, "g", "P") == (["arg1/i8"], [])
    assert labels(info, "g") == ([], [])


def test_prototypes_when_asked_for() -> None:
    automatic = {"argauto": "malloc@arg1/u;puts@arg1/s", "retauto": "malloc@retval/p"}
    assert labels(info_with(**automatic, auto_args="1"), "malloc", "P") == (["arg1/u64"], ["retval/p"])
    assert labels(info_with(**automatic), "malloc", "P") == ([], [])
    assert labels(info_with(argspec="malloc", **automatic), "malloc", "P") == (["arg1/u64"], ["retval/p"])
    assert labels(info_with(argspec="malloc", **automatic), "puts", "P") == ([], [])


def test_the_lost_format_of_a_trigger() -> None:
    info = info_with(retspec="f@retval", cmdline="uftrace record -T 'f@retval/s' --trigger=g@retval/i32 ./x")
    assert labels(info, "f") == ([], ["retval/s"])
    assert labels(info, "g") == ([], ["retval/i32"])


def test_enumerations() -> None:
    texts = ["enum Mode {Off,On=3,Both};enum e { A = 0x10, B, C = -1, };", "nonsense {"]
    assert parse_enums(texts) == {"Mode": {0: "Off", 3: "On", 4: "Both"}, "e": {16: "A", 17: "B", -1: "C"}}


def test_invalid_specifications_are_reported() -> None:
    findings = Findings("uftrace")
    ArgumentSpecs(info_with(argspec="f@arg1/q8;(g@arg1"), findings)
    assert findings.counts == {"uftrace.argspec.invalid": 1, "uftrace.argspec.pattern": 1}


def matches(text: str, kind: str, names: list[str]) -> list[str]:
    """Return the names that a pattern matches."""
    test = pattern(text, kind).matches
    return [name for name in names if test(name)]


@given(
    text=st.text("ab.*+?|()^$", min_size=1, max_size=9).filter(lambda text: set(text) & set(".*+?|()^$")),
    names=st.lists(st.text("ab", max_size=7), max_size=8),
)
def test_expressions_match_as_those_of_python(text: str, names: list[str]) -> None:
    # Where both have a meaning: a repeated repetition or anchor is read in many ways.
    if re.search(r"[*+?][*+?]|[\^$][*+?]|\(\)|\|[*+?)|]|\([*+?|^]|^[*+?|]|\|$", text):
        return
    try:
        compiled = re.compile(text)
    except re.error:
        with pytest.raises(BadPatternError):
            pattern(text, "regex")
        return
    try:
        actual = matches(text, "regex", names)
    except BadPatternError:
        assert re.search(r"\)[*+]", text)  # a group that can match in several ways is repeated
    else:
        assert actual == [name for name in names if compiled.search(name)]


@pytest.mark.parametrize(
    ("text", "kind", "yes", "no"),
    [
        ("^get[[:upper:]_]", "regex", ["getX", "get_x"], ["getx", "xgetX"]),
        ("a{2,3}b", "regex", ["aab", "aaaab"], ["ab"]),
        ("^a{2,}(b|cd){2}$", "regex", ["aabb", "aaacdb"], ["abb", "aab"]),
        ("f[^a-c]$", "regex", ["fd"], ["fa", "fdd", "fd\n"]),
        ("x[]a-]y[^]&&b]", "regex", ["x]ya", "x-yc"], ["xby]", "xay&"]),
        (r"a\.b", "regex", ["a.b"], ["axb"]),
        ("^std::.*<.*>::(push|pop)_back.*x$", "regex", ["std::vector<A<B>>::pop_backx"], ["std::vector::pop_back<>x"]),
        ("(a|aab).*b$|^c", "regex", ["aab", "ab", "cd"], ["aa", "dc"]),
        ("^.*::$", "regex", ["a::", "a\nb::"], ["a::b"]),
        ("a+.*b+c", "regex", ["xaaybbc"], ["bcaab"]),
        ("(ab)+c?d", "regex", ["ababd", "abcd"], ["aabbc"]),
        ("std::*", "glob", ["std::vector"], ["my::std::x"]),
        ("[!a]?", "glob", ["bc"], ["ac", "bcd"]),
        ("*[[:digit:]_]", "glob", ["a1", "b_"], ["a1b"]),
        ("a[![:punct:][:space:]]", "glob", ["a1", "as"], ["a[", "a\\", "a_", "a ", "a"]),
        ("a[[:punct:]]", "glob", ["a[", "a!", "a~"], ["a1", "a"]),
        ("a[[:punct:]b-]", "regex", ["a[", "a]", "a\\", "a_", "ab", "a-"], ["a ", "ac", "a"]),
        ("operator+", "regex", ["operatorr"], []),
    ],
)
def test_patterns(text: str, kind: str, yes: list[str], no: list[str]) -> None:
    assert matches(text, kind, yes + no) == yes


def test_names_are_no_patterns() -> None:
    assert all(map(is_name, ["main", "operator ()", "std::sort", "größe"]))
    assert not any(map(is_name, ["A.b", "a*", "operator()"]))
    info = info_with(argspec="A.b@arg1;operator ()@arg1")
    info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:simple")
    assert labels(info, "A.b")[0] and labels(info, "operator ()")[0] and not labels(info, "Axb")[0]


@pytest.mark.parametrize(
    "text",
    [
        "(", ")", "[a", "[]", "a{", "a{1,x}", "a{3,2}", "*a", "a|+", "a\\", "[b-a]", "[[:no:]]", "(" * 60 + ")" * 60,
        "(a*)*", "(a|b)+", "(a?)*", "(a+b){2,}", "a*+", "^*", "()+", "(a|b){40}", "a?" * 20, "(a{0,99}){9}", "a*" * 20,
        "[a-\uffff]",
    ],
)  # fmt: skip
def test_invalid_patterns(text: str) -> None:
    """They are no expressions, or could match in too many ways."""
    with pytest.raises(BadPatternError):
        pattern(text, "regex")


@given(
    text=st.text("ab.*+?|()^$", min_size=1, max_size=30)
    | st.lists(
        st.sampled_from(["a*", "a+", ".*", "(a|b)", "a?", "(aa|a)", "a{1,3}", "[ab]*", "(aa)*"]), max_size=9
    ).map("".join),
    letter=st.sampled_from("ab"),
)
@example("a?" * 13 + "b", "a")
@example("(a|a)" * 12 + "b", "a")
@example("a*" * 3 + "b", "a")
@example("a.*" * 100 + "b", "a")
def test_no_pattern_takes_longer_than_it_says(text: str, letter: str) -> None:
    try:
        made = pattern(f"{text}$", "regex")
    except BadPatternError:
        return
    size = next(size for size in range(5000, 0, -1) if made.steps("a" * size) < 10_000_000 or size == 1)
    begin = time.process_time()
    made.matches(letter * size)
    assert time.process_time() - begin < 2  # a tenth, where nothing else runs


@pytest.mark.skipif(not available(), reason="pydemumble is not installed")
@pytest.mark.parametrize(
    ("mangled", "simple"),
    [
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back"),
        ("_ZN2ns5twiceIdEET_S1_", "ns::twice"),
        ("_ZN12_GLOBAL__N_13fooEv", "_GLOBAL__N_1::foo"),
        ("_ZNK1AcviEv", "A::operator(cast)"),
        ("_ZlsRSoi", "operator<<"),
        ("_ZZ4mainENKUliE_clEi", "main::$_0::operator()"),
        ("_ZN1QD1Ev", "Q::~Q"),
        ("_Znwm", "operator new"),
        ("_Znam", "operator new[]"),
        ("_ZStltIcSt11char_traitsIcESaIcEEbRKNSt7__cxx1112basic_stringIT_T0_T1_EES8_", "std::operator<"),
        ("_GLOBAL__sub_I__Z5color5ColorPKcf", "_GLOBAL__sub_I_color"),
        ("_ZNK3app6detail5Thing3getB5cxx11Ei", "app::detail::Thing::get::cxx11"),
        ("_ZN1AixEi", "A::operator[]"),
        ("_ZN1AclEv", "A::operator()"),
        ("_ZNSolsEi", "std::basic_ostream::operator<<"),
        ("_ZSt7forwardIRA2_KcEOT_RNSt16remove_referenceIS4_E4typeE", "std::forward"),
        ("_ZSt4cout@GLIBCXX_3.4", "std::cout"),
        ("_ZN1AptEv", "A::operator->"),
        ("main", "main"),
        ("_Zgarbage", "_Zgarbage"),
    ],
)
def test_names_as_uftrace_shows_them(mangled: str, simple: str) -> None:
    assert simple_name(mangled) == simple
    assert full_name("main") == "main"


@pytest.mark.parametrize(
    ("mangled", "simple"),
    [
        ("_ZN2ns4Impl3runEi", "ns::Impl::run"),
        ("_ZNKSt5thing4sizeEv", "std::thing::size"),
        ("_Z7catcheri", "catcher"),
        ("_ZL7throweri", "thrower"),
        ("_ZSt11make_sharedIiE", "std::make_shared"),
        ("_GLOBAL__sub_I__Z5color5Color", "_GLOBAL__sub_I_color"),
        ("_ZN2ns5twiceIiEET_S1_", "_ZN2ns5twiceIiEET_S1_"),
        ("_ZN99x", "_ZN99x"),
        ("_Z99x", "_Z99x"),
        ("_Znwm", "_Znwm"),
        ("_ZN2rs4main1e17hb98a14e108f53ac6E", "rs::main::e"),
        ("_ZN2rs6shapes12Buf$LT$_$GT$3len17hbef93ed252a23b78E", "_ZN2rs6shapes12Buf$LT$_$GT$3len17hbef93ed252a23b78E"),
        ("_RNvC3abc3def", "_RNvC3abc3def"),
    ],
)
def test_plain_names_without_the_library(mangled: str, simple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.uftrace.demangle._library", lambda: None)
    assert simple_name(mangled) == simple


def test_patterns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.uftrace.argspec.MAX_PATTERN_STEPS", 1_000_000)
    findings = Findings("uftrace")
    specs = ArgumentSpecs(info_with(argspec=";".join(f"^f{number}.*@arg1" for number in range(300))), findings)
    assert findings.counts == {"uftrace.argspec.too-much-work": 1}
    assert len(specs.of(Symbol(0, "f7x"), "", None)[0]) == 1
    for number in range(9):
        specs.of(Symbol(number, "g" * 1000), "", None)
    assert findings.counts == {"uftrace.argspec.too-much-work": 2}
    assert specs.of(Symbol(0, "f8x"), "", None) == ((), ())


def test_commas_without_end() -> None:
    assert argspec._split("@arg1" + "," * 200_000 + "@retval") == ["arg1", "retval"]
    assert argspec._split("arg1/t16:pair<a,b>,,retval") == ["arg1/t16:pair<a,b>", "retval"]


def test_enumerations_without_end() -> None:
    assert parse_enums(["enum x { " * 100_000]) == {}
    assert parse_enums(["enum" + " " * 100_000 + "{}"]) == {}


def test_names_that_would_fill_the_memory() -> None:
    parts = [
        "S_",
        "S0_",
        *(f"S{number:X}_" for number in range(1, 16)),
        *(f"S{letter}_" for letter in "GHIJKLMNOPQRSTUV"),
    ]
    name = "_Z1fSt4pairIiiE" + "".join(f"S_I{part}{part}E" for part in parts[1:])
    assert full_name(name) == name  # the library makes gigabytes of it
    for odd in ("_Z1f" + "P" * 100_000 + "i", "_Z1\udcff", "_Z\0", "_Z1é"):
        assert full_name(odd) == odd
        assert simple_name(odd)
