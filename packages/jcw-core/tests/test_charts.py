"""Plots are well-formed SVG whose marks lie inside the frame."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.report.charts import Series, bars, histogram, plot
from jcw_core.report.svg import ticks

finite = st.floats(-1e6, 1e6, allow_nan=False)


def parse(drawn: str) -> ElementTree.Element:
    """The ``<svg>`` of a drawing, or the paragraph that stands in its place."""
    element = ElementTree.fromstring(drawn)
    return element if element.tag == "p" else element[0]


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=20), st.booleans(), st.booleans())
def test_points_lie_inside_the_frame(
    points: list[tuple[float, float]], diagonal: bool, from_zero: bool
) -> None:
    chart = plot(
        [Series("a & <b>", points, "both")], x_label="x", y_label="y", diagonal=diagonal, from_zero=from_zero
    )
    circles = parse(chart).findall(".//circle")
    assert len(circles) == len(points)
    for circle in circles:
        assert -0.1 <= float(circle.attrib["cx"]) <= 640.1
        assert -0.1 <= float(circle.attrib["cy"]) <= 360.1


def test_larger_values_stand_higher_and_further_right() -> None:
    circles = parse(plot([Series("s", [(1, 1), (2, 3)])], x_label="x", y_label="y")).findall(".//circle")
    first, second = ([float(c.attrib[k]) for k in ("cx", "cy")] for c in circles)
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_points_that_are_not_finite_are_left_out() -> None:
    points = [(1, 1), (math.nan, 2), (3, math.inf), (10**400, 2), (1.7e308, 2), (3, -1.7e308)]
    chart = plot([Series("s", points)], x_label="x", y_label="y")
    assert len(parse(chart).findall(".//circle")) == 1


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=5), st.booleans())
def test_any_numbers_are_drawn_or_left_out(points: list[tuple[float, float]], square: bool) -> None:
    parse(plot([Series("s", points, "both")], x_label="x", y_label="y", diagonal=square, from_zero=square))
    parse(histogram({"a": [x for x, _ in points], "b": [y for _, y in points]}, x_label="latency"))


@pytest.mark.parametrize("chart", [plot([], x_label="x", y_label="y"), histogram({}, x_label="x")])
def test_a_chart_without_data_says_so(chart: str) -> None:
    assert chart == "<p>No data.</p>"


def test_histogram_counts_every_value() -> None:
    chart = parse(histogram({"a": [1, 1, 2], "b": [3]}, x_label="latency", bins=4))
    titles = [t.text or "" for t in chart.findall(".//title")]
    assert sum(int(t.rsplit(": ", 1)[1]) for t in titles) == 4


def test_histogram_of_values_that_differ_in_the_last_digit() -> None:
    chart = parse(histogram({"a": [1.0, math.nextafter(1.0, 2.0)]}, x_label="latency"))
    assert sum(int((t.text or "").rsplit(": ", 1)[1]) for t in chart.findall(".//title")) == 2


def test_bars_are_as_long_as_their_shares() -> None:
    rects = parse(bars(["one"], {"kept": [0.25], "whole": [1.0]})).findall(".//rect[title]")
    quarter, whole = (float(r.attrib["width"]) for r in rects)
    assert quarter == pytest.approx(whole / 4, abs=0.1)


def test_words_stand_behind_bars_that_are_shares_of_the_longest() -> None:
    chart = parse(
        bars(["one"], {"<a>": [0.5], "b": [1.0]}, words={"<a>": ["0.250"], "b": ["0.500"]}, title="ms")
    )
    rects = chart.findall(".//rect[title]")
    assert [rect.findtext("title") for rect in rects] == ["one: <a> 0.250", "one: b 0.500"]
    short, long = (float(rect.attrib["width"]) for rect in rects)
    assert short == pytest.approx(long / 2, abs=0.1)
    words = chart.findall(".//text[@class='value']")
    assert [word.text for word in words] == ["0.250", "0.500"]
    assert float(rects[1].attrib["x"]) + long < float(words[1].attrib["x"]) - 20
    assert chart.attrib["aria-label"] == "ms"


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e6))
def test_ticks_cover_the_range_with_few_steps(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert len(found) <= 10
    assert found == sorted(set(found))
    assert found[0] <= low + span * 1e-6
    assert found[-1] >= low + span * (1 - 1e-6)
