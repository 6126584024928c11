"""Canonical JSON: one spelling for each value, that of RFC 8785, and no other accepted."""

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.certify.canonical import canonical, read_canonical
from eupg.errors import CertificateInvalid, ParameterError

SAFE = 2**53 - 1
values = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


def test_example_of_the_rfc_section_3_2_2():
    given_text = r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
    )
    assert canonical(json.loads(given_text)).decode() == expected


def test_example_of_the_rfc_section_3_2_3_sorts_by_utf_16():
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    found = json.loads(canonical(dict.fromkeys(names, 0)))
    assert list(found) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        ("0000000000000000", "0"), ("8000000000000000", "0"), ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"), ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"), ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"), ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"), ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"), ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"), ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"), ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"), ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"), ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)  # fmt: skip
def test_numbers_of_the_rfc_appendix_b(bits, expected):
    assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]).decode() == expected


@given(values)
def test_what_is_written_is_read_back(value):
    content = canonical(value)
    assert read_canonical(content) == value
    assert canonical(read_canonical(content)) == content


@given(
    st.dictionaries(st.text("abcé\U0001f600\ufb33", max_size=3), st.integers(0, 9)), st.randoms(use_true_random=False)
)
def test_order_of_keys_does_not_matter(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, math.nan]}, r"value\.a\[1\]: expected a finite number, found nan"),
        (math.inf, "expected a finite number"),
        (2**53, "expected an integer within"),
        ({1: 2}, "expected text as keys, found int"),
        ("\ud800", "half of a surrogate pair"),
        ({"\udfff": 1}, "half of a surrogate pair"),
        ({"a": {1, 2}}, r"value\.a: expected text, a number.* found set"),
        (b"bytes", "found bytes"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(value, message):
    with pytest.raises(ParameterError, match=message):
        canonical(value)


def test_very_deep_values_are_refused():
    deep: list = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ParameterError, match="at most 32 levels"):
        canonical(deep)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":1,"a":2}', "found 'a' twice"),
        (b'{"a":{"b":1,"b":1}}', "found 'b' twice"),
        (b'{"b":1,"a":2}', "another from byte 2 on"),
        (b'{"a": 1}', "another from byte 5 on"),
        (b'{"a":1}\n', "another from byte 7 on"),
        (b'{"a":1.0}', "found another from byte"),
        (b'{"a":1e2}', "found another from byte"),
        (b'{"a":-0}', "found another from byte"),
        (b'"\\u0041"', "found another from byte"),
        (b'"\\ud800"', "surrogate"),
        (b"[NaN]", "found NaN"),
        (b"[1e999]", "finite"),
        (b"9" * 400, "finite"),
        (b'{"a":', "an error at character 5"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b'{"a":"\xff"}', "an invalid byte at byte 6"),
        (b"[" * 100_000, "levels of JSON|an error at"),
    ],
    ids=range(17),
)
def test_any_other_spelling_is_refused_with_its_place(content, message):
    with pytest.raises(CertificateInvalid, match=message):
        read_canonical(content)
