"""Readable names of C++ and Rust functions: as uftrace shows them, and bounded for hostile names."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.uftrace.demangle import _MAX_RESULT, available, full_name, simple_name
from fxtio.uftrace.records import FunctionEntry, FunctionExit, encode
from fxtio.uftrace.symbols import Symbol, SymbolFile
from support.checkout import CORPUS
from support.in_process import run_fxtio
from support.uftrace_judge import needs_compiler, needs_uftrace, run
from support.uftrace_samples import minimal

# Names that rustc 1.95 gives, and what the newest uftrace shows for them (see demangle.py for the exceptions).
V0 = {
    "_RINvCsbFYJioi4cCO_2rs3twoAINtNtCsgEmfK2I1SDS_4core6option6OptionReEj3_FG_QL0_ShEzEB2_": (
        "rs::two<[core::option::Option<&str>;3],fn(&mut_[u8])>"
    ),
    "_RINvCsbFYJioi4cCO_2rs3twoucEB2_": "rs::two<(),char>",
    "_RINvCsbFYJioi4cCO_2rs7genericAnj2_EB2_": "rs::generic<[i128;2]>",
    "_RINvCsbFYJioi4cCO_2rs7genericRINtNtNtNtCsjrHSEGnQ3l9_3std11collections4hash3map7HashMapNtNtCslNYArt"
    "u3iFV_5alloc6string6StringINtNtB1r_3vec3VecTmdEEEEB2_": (
        "rs::generic<&std::collections::hash::map::HashMap<alloc::string::String,alloc::vec::Vec<(u32,f64)>>>"
    ),
    "_RINvMs_NtCsbFYJioi4cCO_2rs6shapesINtB5_4PairhReE3mapmNCNvB7_4main0EB7_": (
        "<rs::shapes::Pair<u8,&str>>::map<u32,rs::main::{closure}>"
    ),
    "_RNCNvCsbFYJioi4cCO_2rsu9gre_6ka8i0B3_": "rs::größe::{closure}",
    "_RNSNvYNCINvNtCsjrHSEGnQ3l9_3std2rt10lang_startuE0INtNtNtCsgEmfK2I1SDS_4core3ops8function6FnOnceuE9c"
    "all_once6vtableCsbFYJioi4cCO_2rs": ("<std::rt::lang_start<()>::{closure}>::call_once::vtable"),
    "_RNSNvYNCNvCsbFYJioi4cCO_2rs4mains_0INtNtNtCsgEmfK2I1SDS_4core3ops8function6FnOnceThEE9call_once6vtableB8_": (
        "<rs::main::{closure}>::call_once::vtable"
    ),
    "_RNvCsbFYJioi4cCO_2rsu9gre_6ka8i": "rs::größe",
    "_RNvMs1_NtCsbFYJioi4cCO_2rs6shapesINtB5_3BufKj5_E3lenB7_": "<rs::shapes::Buf<5>>::len",
    "_RNvMs2_NtCsbFYJioi4cCO_2rs6shapesINtB5_4FlagKb0_Kc7a_Ka7_E4showB7_": "<rs::shapes::Flag<false,'z',7>>::show",
    "_RNvMs2_NtCsbFYJioi4cCO_2rs6shapesINtB5_4FlagKb1_Kc41_Kan5_E4showB7_": "<rs::shapes::Flag<true,'A',-5>>::show",
    "_RNvMs_NtCsbFYJioi4cCO_2rs6shapesINtB4_4PairhReE5firstB6_": "<rs::shapes::Pair<u8,&str>>::first",
    "_RNvNvCsbFYJioi4cCO_2rsu9gre_6ka8i5inner": "rs::größe::inner",
    "_RNvXNtCsbFYJioi4cCO_2rs6shapesNtB2_2SqNtB2_4Area4area": "<rs::shapes::Sq>::area",
    "_RNvXs0_NtCsbFYJioi4cCO_2rs6shapesINtB5_4PairhReENtB5_4Area4areaB7_": "<rs::shapes::Pair<u8,&str>>::area",
    "_RNvXs1_NtCslNYArtu3iFV_5alloc7raw_vecINtB5_6RawVecQNtNtCsbFYJioi4cCO_2rs6shapes2SqENtNtNtCsgEmfK2I1"
    "SDS_4core3ops4drop4Drop4dropBR_": ("<alloc::raw_vec::RawVec<&mut_rs::shapes::Sq>>::drop"),
    "_RNvXs3_NtCsbFYJioi4cCO_2rs6shapesShNtB5_4Area4area": "<[u8]>::area",
    "_RNvXs4_NtCsbFYJioi4cCO_2rs6shapesReNtB5_4Area4area": "<&str>::area",
    "_RNvXs5_NtCsbFYJioi4cCO_2rs6shapesThxENtB5_4Area4area": "<(u8,i64)>::area",
    "_RNvXs6_NtCsbFYJioi4cCO_2rs6shapesFhElNtB5_4Area4area": "<fn(u8)>::area",
    "_RNvXs7_NtCsbFYJioi4cCO_2rs6shapesFG_KChRL0_eEuNtB5_4Area4area": "<fn(u8,&str)>::area",
    "_RNvXs8_NtCsbFYJioi4cCO_2rs6shapesPhNtB5_4Area4area": "<*const_u8>::area",
    "_RNvXs9_NtCsbFYJioi4cCO_2rs6shapesONtB5_2SqNtB5_4Area4area": "<*mut_rs::shapes::Sq>::area",
    "_RNvXsa_NtCsbFYJioi4cCO_2rs6shapesANtB5_2Sqj4_NtB5_4Area4area": "<[rs::shapes::Sq;4]>::area",
    "_RNvXsb_NtCsbFYJioi4cCO_2rs6shapesINtNtCslNYArtu3iFV_5alloc5boxed3BoxDINtNtNtCsgEmfK2I1SDS_4core3ops"
    "8function2FnThEEp6OutputlNtNtB1c_6marker4SendEL_ENtB5_4Area4area": (
        "<alloc::boxed::Box<core::ops::function::Fn<(u8),Output=i32>+core::marker::Send>>::area"
    ),
    "_RNvXsc_NtCsbFYJioi4cCO_2rs6shapesINtNtCslNYArtu3iFV_5alloc5boxed3BoxDNtNtNtNtCsgEmfK2I1SDS_4core4it"
    "er6traits8iterator8Iteratorp4ItemhEL_ENtB5_4Area4area": (
        "<alloc::boxed::Box<core::iter::traits::iterator::Iterator<Item=u8>>>::area"
    ),
    "_RNvXsd_NtCsbFYJioi4cCO_2rs6shapesINtNtCsgEmfK2I1SDS_4core6option6OptionINtNtCslNYArtu3iFV_5alloc3ve"
    "c3VecQNtB5_2SqEENtB5_4Area4area": ("<core::option::Option<alloc::vec::Vec<&mut_rs::shapes::Sq>>>::area"),
    "_RNvXso_NtCslNYArtu3iFV_5alloc3vecINtB5_3VecQNtNtCsbFYJioi4cCO_2rs6shapes2SqENtNtNtCsgEmfK2I1SDS_4co"
    "re3ops4drop4Drop4dropBK_": ("<alloc::vec::Vec<&mut_rs::shapes::Sq>>::drop"),
    "_RNvYNtNtCsbFYJioi4cCO_2rs6shapes2SqNtB4_4Area5twiceB6_": "<rs::shapes::Sq>::twice",
}
LEGACY = {
    "_ZN2rs6shapes4Area5twice17h5e48d4f83352d565E": "rs::shapes::Area::twice",
    "_ZN53_$LT$$BP$const$u20$u8$u20$as$u20$rs..shapes..Area$GT$4area17h8db899eceb5818f8E": "_<*const u8>::area",
    "_ZN70_$LT$alloc..vec..Vec$LT$T$C$A$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17hc679ae9c5b06b60cE": (
        "_<alloc::vec::Vec<T,A>>::drop"
    ),
    "_ZN4core3fmt2rt8Argument11new_display17h96f176c5607d38b3E": "core::fmt::rt::Argument::new_display",
    "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h74fceabae31fc9fbE": "_<&T>::fmt",
    "_ZN5alloc5slice29_$LT$impl$u20$$u5b$T$u5d$$GT$7sort_by28_$u7b$$u7b$closure$u7d$$u7d$17hf7205b08d1b3dff3E": (
        "alloc::slice::_<impl [T]>::sort_by::_{{closure}}"
    ),
    "_ZN5alloc3fmt6format28_$u7b$$u7b$closure$u7d$$u7d$17hf156718b518459e9E": "alloc::fmt::format::_{{closure}}",
    "_ZN75_$LT$$RF$mut$u20$W$u20$as$u20$core..fmt..Write..write_fmt..SpecWriteFmt$GT$14spec_write_fmt17h8"
    "7d5b60f91c18ac5E": ("_<&mut W>::spec_write_fmt"),
    "_ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash28_$u7b$$u7b$closure$u7d$$u7d$17h1b3d551633ce448aE": (
        "hashbrown::raw::RawTable<T,A>::reserve_rehash::_{{closure}}"
    ),
    "_ZN105_$LT$std..collections..hash..map..Iter$LT$K$C$V$GT$$u20$as$u20$core..iter..traits..iterator..I"
    "terator$GT$4next17h9612869ab82c16f3E": ("_<std::collections::hash::map::Iter<K,V>>::next"),
    "_ZN77_$LT$alloc..raw_vec..RawVec$LT$T$C$A$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17hb9bf288e8229aeaeE": (
        "_<alloc::raw_vec::RawVec<T,A>>::drop"
    ),
    "_ZN97_$LT$core..ops..range..RangeFull$u20$as$u20$core..slice..index..SliceIndex$LT$$u5b$T$u5d$$GT$$G"
    "T$5index17h25dd727bd8bdc4d6E": ("_<core::ops::range::RangeFull>::index"),
    "_ZN2rs6shapes17Pair$LT$A$C$B$GT$3map17h00d83503a68a979fE": "rs::shapes::Pair<A,B>::map",
    "_ZN72_$LT$alloc..boxed..Box$LT$T$C$A$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17he0b3f2b6fcee069eE": (
        "_<alloc::boxed::Box<T,A>>::drop"
    ),
    "_ZN4core3fmt8builders8DebugMap7entries17h490b6ab886d3e8d5E": "core::fmt::builders::DebugMap::entries",
    "_ZN63_$LT$A$u20$as$u20$core..slice..cmp..SlicePartialEq$LT$B$GT$$GT$17equal_same_length17hede533c13ea4db8eE": (
        "_<A>::equal_same_length"
    ),
    "_ZN2rs4main1e17hb98a14e108f53ac6E": "rs::main::e",
    "_ZN4core5slice29_$LT$impl$u20$$u5b$T$u5d$$GT$7reverse7revswap17h699d91153062fb18E": (
        "core::slice::_<impl [T]>::reverse::revswap"
    ),
    "_ZN4core5array69_$LT$impl$u20$core..fmt..Debug$u20$for$u20$$u5b$T$u3b$$u20$N$u5d$$GT$3fmt17h2303b66786899a33E": (
        "core::array::_<impl core::fmt::Debug for [T; N]>::fmt"
    ),
    "_ZN74_$LT$std..hash..random..RandomState$u20$as$u20$core..hash..BuildHasher$GT$12build_hasher17hd388"
    "dd1354b916eeE": ("_<std::hash::random::RandomState>::build_hasher"),
    "_ZN4core3fmt9Arguments8from_str17h037fdf2070d33d3aE": "core::fmt::Arguments::from_str",
    "_ZN4core3fmt9Arguments3new17h9635f1160be97600E": "core::fmt::Arguments::new",
    "_ZN2rs6shapes12Buf$LT$_$GT$3len17hbef93ed252a23b78E": "rs::shapes::Buf<_>::len",
    "_ZN54_$LT$$LP$$RP$$u20$as$u20$std..process..Termination$GT$6report17h4bed5abb427d3d28E": "_<()>::report",
    "_ZN3std2io5Write9write_fmt17ha4802f4894eae537E": "std::io::Write::write_fmt",
    "_ZN75_$LT$usize$u20$as$u20$core..slice..index..SliceIndex$LT$$u5b$T$u5d$$GT$$GT$13get_unchecked18pre"
    "condition_check17hd49132f20b00d9e8E": ("_<usize>::get_unchecked::precondition_check"),
    "_ZN94_$LT$std..collections..hash..map..HashMap$LT$K$C$V$C$S$C$A$GT$$u20$as$u20$core..fmt..Debug$GT$3"
    "fmt17hdae0c76e64421231E": ("_<std::collections::hash::map::HashMap<K,V,S,A>>::fmt"),
    "_ZN114_$LT$core..option..Option$LT$alloc..vec..Vec$LT$$RF$mut$u20$rs..shapes..Sq$GT$$GT$$u20$as$u20$"
    "rs..shapes..Area$GT$4area17h2162f2ebfe1cc4c0E": (
        "_<core::option::Option<alloc::vec::Vec<&mut rs::shapes::Sq>>>::area"
    ),
    "_ZN2rs4main28_$u7b$$u7b$closure$u7d$$u7d$17h197790ebf4ddf97aE": "rs::main::_{{closure}}",
    "_ZN3std6thread9lifecycle15spawn_unchecked28_$u7b$$u7b$closure$u7d$$u7d$28_$u7b$$u7b$closure$u7d$$u7d"
    "$17hf08b52e41317cad1E": ("std::thread::lifecycle::spawn_unchecked::_{{closure}}::_{{closure}}"),
    "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0e106b733f90f924E": (
        "_<alloc::string::String>::fmt"
    ),
    "_ZN4core3fmt2rt8Argument9new_debug17h82ecd7104366bfd6E": "core::fmt::rt::Argument::new_debug",
}
# Examples of the description of the mangling (rustc book, "v0 Symbol Format").
BOOK = {
    "_RNvCs15kBYyAo9fc_7mycrate7example": "mycrate::example",
    "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate": "<std::path::PathBuf>::new",
    "_RNvYNtCs15kBYyAo9fc_7mycrate7ExampleNtB4_5Trait7exampleB4_": "<mycrate::Example>::example",
    "_RNvNvMCsd9PVOYlP1UU_7mycrateINtB4_7ExamplepKpE3foo14EXAMPLE_STATIC": (
        "<mycrate::Example<_,_>>::foo::EXAMPLE_STATIC"
    ),
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleAtj8_EB2_": "mycrate::example<[u16;8]>",
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleNtB2_7ExampleBw_EB2_": "mycrate::example<mycrate::Example,mycrate::Example>",
}


needs_library = pytest.mark.skipif(not available(), reason="pydemumble is not installed")


@needs_library
@pytest.mark.parametrize("name", [*V0, *BOOK, *LEGACY])
def test_rust_names(name: str) -> None:
    expected = (V0 | BOOK | LEGACY)[name]
    assert simple_name(name) == expected
    assert simple_name(f"{name}@@VERSION") == expected
    assert simple_name(f"{name}.llvm.12688736362657155723") == expected


@needs_library
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_RINvC1a1fKjf_KB8_E", "a::f<15,15>"),
        ("_RINvC1a1fL_E", "a::f"),
        ("_RINvC1a1fL_hE", "a::f<u8>"),
        ("_RINvC1a1fDG_INtC1b1cL0_EEL_E", "a::f<b::c>"),
        ("_RINvC1a1fFUK8rust_abiEuE", "a::f<fn()>"),
        ("_RINvC1a1fFEFEhE", "a::f<fn()>"),
        ("_RINvC1a1fTFEhyEE", "a::f<(fn(),u64)>"),
        ("_RINvC1a1fKc27_Kc2c_E", "a::f<'\\'',','>"),
    ],
)
def test_rare_parts_of_rust_names(name: str, expected: str) -> None:
    assert simple_name(name) == expected


@pytest.mark.parametrize(
    "name", ["_R", "_RNv", "_Read", "_RNvC3abc", "_RNvC1au6a_qc4g", "_RNvC3abc3def?", "_Zx", "_ZN0E"]
)
def test_names_that_only_look_mangled(name: str) -> None:
    """One of them has a surrogate, which no text can have."""
    assert simple_name(name) == name


def test_names_that_stand_for_very_long_ones() -> None:
    def doubled(times: int) -> str:
        """Return a name in which every tuple has the one before twice."""
        name, last = "INvC1a1fTuuE", 8
        for _ in range(times):
            alias, last = f"B{_base62(last)}", len(name)
            name += f"T{alias}{alias}E"
        return f"_R{name}E"

    if available():
        assert simple_name(doubled(2)) == "a::f<((),()),(((),()),((),())),((((),()),((),())),(((),()),((),())))>"
        assert len(simple_name(doubled(10))) > 1 << 12
    begin = time.process_time()
    for times in (14, 20, 40):
        assert full_name(doubled(times)) == simple_name(doubled(times)) == doubled(times)
    for name in ("_RINvC1a1f" + "S" * 4000 + "uE", "_RINvC1a1f" + "TB9_B9_" * 500, "_RM" * 1000):
        assert simple_name(name) == name
    assert time.process_time() - begin < 2


def _base62(value: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    first, last = divmod(value - 1, 62)
    return f"{digits[first] if first else ''}{digits[last]}_"


@given(st.sampled_from([*V0, *LEGACY]), st.data())
def test_damaged_names_are_names(name: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(2, len(name)))
        cut = data.draw(st.integers(0, 3))
        name = name[:place] + data.draw(st.text("INCMXYBEsu_09aKLFDGTARQPOSWp$.é", max_size=3)) + name[place + cut :]
    assert 0 < len(simple_name(name)) <= 2 * _MAX_RESULT
    simple_name(name).encode()


# ---- uftrace itself


def shown_by_uftrace(names: list[str], target: Path) -> list[str]:
    """Return what uftrace shows for the names of functions."""
    minimal(target, records=len(names))
    symbols = [Symbol(16 * number, name) for number, name in enumerate(names)]
    symbols.append(Symbol(16 * len(names), "__sym_end", "?"))
    (target / "prog.sym").write_bytes(SymbolFile(symbols).to_bytes())
    (mapping,) = target.glob("sid-*.map")
    mapping.write_text(mapping.read_text().replace("-00401000 ", "-00500000 ", 1))
    calls = [
        cls(10_000 + 2 * number + (cls is FunctionExit), 0, 0x400000 + 16 * number)
        for number in range(len(names))
        for cls in (FunctionEntry, FunctionExit)
    ]
    (target / "1.dat").write_bytes(b"".join(map(encode, calls)))
    text = run("dump", target).decode()
    return re.findall(r"\[entry\] (.*)\([0-9a-f]+\) depth", text)


@pytest.mark.full
@needs_uftrace
@needs_library
def test_legacy_rust_names_are_those_of_uftrace(tmp_path: Path) -> None:
    """uftrace 0.13 shows traits, which newer versions leave out, and does not decode Unicode."""
    names = [name for name in LEGACY if "$as$" not in name and "$uf6$" not in name]
    shown = [name.replace("..", "::") for name in shown_by_uftrace(names, tmp_path / "t")]
    assert shown == [LEGACY[name] for name in names]


@pytest.mark.full
@needs_uftrace
@needs_compiler
@needs_library
def test_names_of_the_standard_library_are_those_of_uftrace(tmp_path: Path) -> None:
    find = subprocess.run(["gcc", "-print-file-name=libstdc++.so.6"], capture_output=True, check=True, text=True)
    table = subprocess.run(["nm", "-D", find.stdout.strip()], capture_output=True, check=True, text=True).stdout
    names = sorted(set(re.findall(r" [TW] (_Z\S+)", table)))
    names = [name for name in names if "B5cxx11C" not in name and "B5cxx11D" not in name]  # uftrace repeats the tag
    chosen = names[:: max(len(names) // 600, 1)]
    assert len(chosen) >= 400
    shown = shown_by_uftrace(chosen, tmp_path / "t")
    assert dict(zip(chosen, shown, strict=True)) == {name: simple_name(name) for name in chosen}


def test_a_hint_says_how_to_get_readable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, only where a name is shown that is mangled, and only if the library is missing; it is no fault."""
    hint = "fxtio: names of C++ and Rust functions are mangled; pip install 'fxtio[demangle]' makes them readable"
    monkeypatch.setattr("fxtio.uftrace.demangle._library", lambda: None)
    for command in ("dump", "top", "tree", "find", "stats"):
        done = run_fxtio(command, str(CORPUS / "uftrace" / "cpp-v019"))
        shows = "_Z" in done.stdout
        assert done.stderr.splitlines().count(hint) == shows, (command, done.stdout, done.stderr)
    assert shows
    assert run_fxtio("dump", str(CORPUS / "uftrace" / "thread-v019")).stderr == ""
    monkeypatch.undo()
    if available():
        assert hint not in run_fxtio("top", str(CORPUS / "uftrace" / "cpp-v019")).stderr
